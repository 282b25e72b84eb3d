"""Parts of `join-products`: its search, choice and rewrite."""
