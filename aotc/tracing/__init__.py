"""Tracing: Python functions over arrays → functions of the graph dialect.

What a model.py is written with (`aotc.numpy`, `aotc.nn`, …) stands on this, and what
imports models (`aotc.importers`) on both.
"""
