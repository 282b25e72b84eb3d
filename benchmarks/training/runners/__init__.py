"""Runners of each system's steps; imported in its own environment only.

Each module has `load(artifact, inputs, threads)`: from a file and the arrays of a batch
to a function of no arguments that takes a step, waits until all parameters are written,
and gives a list of one array, the loss.
"""
