"""How elements lie, as index maps: views, nests of loops, permutations, reshapes."""
