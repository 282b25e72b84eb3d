"""Statements of Python functions: which may be compiled, and the regions they form."""
