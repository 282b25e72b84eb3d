"""PyTorch, op by op, under torch.autocast."""

import torch

from .eager import loader

load = loader(autocast=torch.bfloat16)
