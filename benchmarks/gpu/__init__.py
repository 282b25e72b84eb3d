"""Is compiled code right on a GPU? Prepared with a compiler, run on one without."""
