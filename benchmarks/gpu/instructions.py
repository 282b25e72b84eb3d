"""Count the instructions in the loop of a kernel for NVIDIA's chips, by name.

`nvdisasm`, which comes with Triton, prints what the assembler makes of PTX. Of the
loops that have no loop inside, the one that multiplies most is that of a product.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from aotc.core import options
from aotc.kernels.gpu.compiling import GpuCode, assemble

MULTIPLYING = ("FFMA", "HMMA", "IMMA")
_LABEL = re.compile(r"^(\.L_\w+):", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)[^;]*;")
_TARGET = re.compile(r"BRA[^;]*`\((\.L_\w+)\)")


def loop_instructions(code: GpuCode, arch: str) -> Counter[str]:
    """Count each instruction in the innermost loop that multiplies most.

    Args:
        code: PTX of a kernel.
        arch: an NVIDIA chip.
    """
    loops = _innermost_loops(_disassembled(assemble(code, arch)[0]))
    return max(loops, key=multiplying, default=Counter())


def multiplying(counts: Counter[str]) -> int:
    """Return the number of instructions in `counts` that multiply."""
    return sum(counts[name] for name in MULTIPLYING)


def _disassembled(cubin: bytes) -> str:
    """Return the assembly of a cubin."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [knobs.nvidia.nvdisasm.path, "-c", str(file)],
            capture_output=True,
            text=True,
            check=True,
            env=options.child_environment(),
        )
    return done.stdout


def _innermost_loops(text: str) -> list[Counter[str]]:
    """Return the instructions of each loop without inner loops."""
    labels, names = dict[str, int](), list[str]()
    spans = list[tuple[int, int]]()
    for line in text.splitlines():
        label, instruction = _LABEL.match(line), _INSTRUCTION.search(line)
        if label:
            labels[label[1]] = len(names)
        elif instruction:
            names.append(instruction[1])
            target = _TARGET.search(line)
            if target and target[1] in labels:  # backwards
                spans.append((labels[target[1]], len(names)))
    return [
        Counter(names[first:end])
        for first, end in spans
        if not any(
            first <= start and stop <= end and (start, stop) != (first, end)
            for start, stop in spans
        )
    ]
