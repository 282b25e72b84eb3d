"""Programs: entries, parameters and states of a model, and the files that keep them."""
