"""torch.compile of forward and backward, nothing of it kept from other processes."""

import torch._inductor.config as inductor

from .eager import loader

inductor.force_disable_caches = True
load = loader(compiled=True)
