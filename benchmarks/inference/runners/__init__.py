"""Loaders of each system's form of a model; imported in its own environment only.

Each module has `load(artifact, inputs, threads)`: from a file and arrays by name to a
function of no arguments that computes all outputs and gives them as a list of arrays.
"""
