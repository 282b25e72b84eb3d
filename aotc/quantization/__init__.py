"""Quantisation: a program in, the same in narrower precisions out, and its recipe.

`quantizer` is the entrance; `precisions` has the table of what a layer can become.
"""
