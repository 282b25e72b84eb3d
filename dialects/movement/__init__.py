"""Index maps of where elements lie: views, nests of loops, permutations, reshapes."""
