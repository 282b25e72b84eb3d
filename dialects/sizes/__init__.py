"""Sizes of tensors: affine expressions over symbols, and what is known of these."""
