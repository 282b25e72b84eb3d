"""Analyses of values that quantise: ranges of integers, and equal neighbours."""
