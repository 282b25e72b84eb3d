"""Functions of a module: how they are found, made, called and transformed."""
