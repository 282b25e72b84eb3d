"""Factorizations of matrices as loops: elimination, reflections, rotations."""
