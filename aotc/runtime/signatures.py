"""Comparison of the functions that a module exports with the manifest.

IREE keeps the declaration of each exported function, such as
`sync func @f(%x: tensor<?x4xf32>) -> (%output0: tensor<?x3xf32>)`. A manifest that says
otherwise is refused when the bundle is loaded: a call would fail, or take one array for
another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aotc.artifacts.manifest import Code, Leaf
from aotc.artifacts.shapes import SizeExpression
from aotc.errors import VerificationError

if TYPE_CHECKING:
    from aotc.runtime.iree_types import VmFunction

_DECLARATION = "iree.abi.declaration"
_TENSOR = re.compile(r"tensor<((?:[0-9?]+x)*)([a-z][a-z0-9]*)>")
_TYPES = {"bool": "i1"}


def require_signature(
    function: VmFunction,
    code: Code,
    inputs: Sequence[Leaf],
    outputs: Sequence[Leaf],
) -> None:
    """Raise if an exported function's inputs or outputs differ from the manifest.

    Args:
        function: of IREE's runtime.
        code: that it is, by the manifest.
        inputs: that the manifest has for it.
        outputs: likewise.

    Raises:
        VerificationError: `module-mismatch`.
    """
    declared = function.reflection.get(_DECLARATION)
    if declared is None:  # not kept: a call says it then
        return
    given, _, returned = declared.partition(") -> (")
    for what, text, leaves in (
        ("inputs", given, inputs),
        ("outputs", returned, outputs),
    ):
        found = _TENSOR.findall(text)
        if len(found) != len(leaves):
            raise _mismatch(code, f"{len(leaves)} {what}", f"{len(found)}")
        for leaf, (sizes, kind) in zip(leaves, found, strict=True):
            if not _fits(leaf, code, sizes.split("x")[:-1], kind):
                raise _mismatch(code, f"{leaf.name!r} as {leaf}", f"{sizes}{kind}")


def _fits(leaf: Leaf, code: Code, sizes: Sequence[str], kind: str) -> bool:
    """Return whether a tensor type of the module agrees with an array of the
    manifest.
    """
    expected = _TYPES.get(leaf.dtype, leaf.dtype)
    if expected[0] == "u":  # IREE's integers have no sign
        expected = f"i{expected[1:]}"
    return (
        kind == expected
        and len(sizes) == len(leaf.shape)
        and all(
            size == "?" or fixed is None or int(size) == fixed
            for size, fixed in zip(sizes, _fixed_sizes(leaf, code), strict=True)
        )
    )


def _fixed_sizes(leaf: Leaf, code: Code) -> list[int | None]:
    """Return the sizes of an array for a code; None where a call decides."""
    return [
        size if isinstance(size, int) else _value(SizeExpression.parse(size), code)
        for size in leaf.shape
    ]


def _value(dim: SizeExpression, code: Code) -> int | None:
    """Evaluate a size for a code's fixed symbols; None if others occur in it."""
    return dim.value(code.sizes) if dim.symbols <= code.sizes.keys() else None


def _mismatch(code: Code, expected: str, got: str) -> VerificationError:
    """Return the error for a module that contradicts the manifest."""
    return VerificationError(
        "module-mismatch",
        f"the manifest promises {expected} of '{code.export}', the module has {got}",
        hint="the bundle was put together wrongly: build it again",
    )
