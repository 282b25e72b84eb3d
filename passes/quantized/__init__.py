"""What is known of values that quantise: ranges of integers, and equal neighbours."""
