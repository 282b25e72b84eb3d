"""What `join-products` finds, chooses and writes."""
