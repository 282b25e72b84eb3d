"""A fuzzer of whole programs."""
