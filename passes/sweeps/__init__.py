"""Sweeps: bodies of each kind of transformed function, written by autodiff."""
