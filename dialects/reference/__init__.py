"""Sums, products and collectives, as the reference evaluator computes them."""
