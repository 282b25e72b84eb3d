"""How the pass autodiff writes the body of each kind of transformed function."""
