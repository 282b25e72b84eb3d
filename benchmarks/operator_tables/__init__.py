"""Single operators: aotc and PyTorch, beside what the processor can do."""
