"""Sums, products and collectives, as the reference evaluator computes them."""Sums, products and collectives, as the reference evaluator computes them.
