"""torch.compile of forward and backward under torch.autocast."""

import torch
import torch._inductor.config as inductor

from .eager import loader

inductor.force_disable_caches = True
load = loader(compiled=True, autocast=torch.bfloat16)
