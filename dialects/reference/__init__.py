"""What the reference evaluator computes sums, products and collectives with."""
