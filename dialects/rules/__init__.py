"""Rules that ops share: batching, padding, reordering, linearity, samples, checks."""
