"""Small quantised models of five kinds, and what their own runtimes make of them."""
