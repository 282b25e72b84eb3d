"""PyTorch modules of which parts are compiled, and the rest stays PyTorch's."""
