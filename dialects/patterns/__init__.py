"""Patterns: replacements of ops, as rows of one language.

`terms.py` has the language, `rows.py` what a row says, `structure.py` how a term is
found in a graph as it stands, and `values.py` what is known of single values. The rows
of an op stand in its class; passes go through them.
"""
