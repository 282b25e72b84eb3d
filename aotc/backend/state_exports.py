"""The names of the functions that a module exports for its states."""

from __future__ import annotations


def reader_name(state: str) -> str:
    """Return the name of the exported function that returns the leaves of a state."""
    return f"{state}__read"


def writer_name(state: str) -> str:
    """Return the name of the exported function that replaces the leaves of a state."""
    return f"{state}__write"
