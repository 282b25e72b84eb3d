"""Time what PyTorch's libraries take for the kernels of `schedules.py`.

    python libraries.py [--out FILE]

Products are cuBLAS's without what follows them, convolutions cuDNN's, and attention
that of PyTorch (FlashAttention in bf16), each on the device, many calls after another
as one CUDA graph. f32 is multiplied in f32. FILE has microseconds by kernel, under the
names of `benchmarks/gpu/models/kernels.py`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from measuring import captured, write
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
CALLS, REPEATS = 20, 7

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True

PRODUCTS = {
    "large": (4096, 4096, 4096),
    "bert_qkv": (1024, 768, 2304),
    "bert_out": (1024, 768, 768),
    "bert_up": (1024, 768, 3072),
    "bert_down": (1024, 3072, 768),
    "bert_one": (128, 768, 3072),
    "decode": (1, 4096, 4096),
    "decode_small": (1, 768, 3072),
}
CONVOLUTIONS = {
    "resnet_56": (56, 3, 64, 64),
    "resnet_14": (14, 3, 256, 256),
    "resnet_7": (7, 3, 512, 512),
    "resnet_1x1": (28, 1, 512, 128),
}
ATTENTIONS = {
    "bert_attention": (8, 128, 12, 64, False),
    "long_attention": (4, 1024, 12, 64, True),
}


def microseconds(call):
    """Return the median microseconds of a call, repeated in one CUDA graph."""
    replay = captured(lambda: [call() for _ in range(CALLS)])
    replay()
    times = []
    for _ in range(REPEATS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        replay()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) * 1e3 / CALLS)
    return sorted(times)[REPEATS // 2]


def calls():
    """Yield the name of each library kernel and a function that calls it."""
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):

        def normal(*shape, dtype=dtype):
            return torch.randn(*shape, device="cuda").to(dtype)

        for kernel, (rows, depth, columns) in PRODUCTS.items():
            x, y = normal(rows, depth), normal(columns, depth)
            yield f"{kernel}_{name}", lambda x=x, y=y: x @ y.T
        for kernel, (size, window, inputs, outputs) in CONVOLUTIONS.items():
            x = normal(8, inputs, size, size).to(memory_format=torch.channels_last)
            k = normal(outputs, inputs, window, window)
            k = k.to(memory_format=torch.channels_last)
            pad = window // 2
            yield f"{kernel}_{name}", lambda x=x, k=k, p=pad: F.conv2d(x, k, padding=p)
        for kernel, (batch, length, heads, depth, causal) in ATTENTIONS.items():
            q = normal(batch, length, heads, depth).transpose(1, 2)
            yield (
                f"{kernel}_{name}",
                lambda q=q, c=causal: F.scaled_dot_product_attention(
                    q, q, q, is_causal=c
                ),
            )
        x = normal(4096, 768)
        yield f"norm_{name}", lambda x=x: F.layer_norm(x, x.shape[1:])
        x = normal(4096, 1000)
        yield f"softmax_{name}", lambda x=x: x.softmax(1)


def main():
    """Time all libraries."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ.get("OUT", HERE)) / "libraries.json"
    parser.add_argument("--out", type=Path, default=default)
    asked = parser.parse_args()
    found = {}
    with torch.no_grad():
        for name, call in calls():
            found[name] = microseconds(call)
            print(f"{name}: {found[name]:.1f} us", flush=True)
    write(asked.out, found)


if __name__ == "__main__":
    main()
