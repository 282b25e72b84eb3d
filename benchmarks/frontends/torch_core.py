"""The core ATen opset: which of its ops the importer has, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._decomp import decomposition_table

from aotc.importers.torch.ops import function_for, is_listed, name_of, reason_against


def core_ops() -> Iterator[Any]:
    """Yield the overloads of PyTorch's core ATen opset, by name."""
    aten = torch.ops.aten
    for name in sorted(dir(aten)):
        packet = getattr(aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags:
                yield op


def core_table(passed: Mapping[str, int]) -> list[str]:
    """Return the report's section on core ops; `passed` counts samples by op."""
    rows = [(name_of(op), *coverage(op)) for op in core_ops()]
    covered = sum(is_covered for _, is_covered, _ in rows)
    return [
        "",
        "## The core ATen opset",
        "",
        f"{covered} of {len(rows)} ops. The samples are those above in the first dtype "
        "that pass and have the op in the graph of torch.export, before or after "
        "decompositions.",
        "",
        "| op | covered | samples that pass |",
        "|---|---|---|",
        *(
            f"| `{name}` | {how if is_covered else f'no: {how}'} | {passed[name]} |"
            for name, is_covered, how in rows
        ),
    ]


def coverage(op: Any) -> tuple[bool, str]:
    """Return whether the importer covers an op, and how or why not."""
    if function_for(op) or function_for(op, is_complex=True):
        return True, "yes"
    if op in decomposition_table and not is_listed(op):
        return True, "by its decomposition"
    against = reason_against(op)
    assert against is not None, "an op has a function or a reason"
    return False, against[0]
