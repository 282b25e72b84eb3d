"""Calls of functions: callees, custom derivatives, specializations, padded entries."""
