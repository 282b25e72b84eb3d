"""The text of a kernel that writes results over what it reads.

    ^bb0(%0: !tt.ptr<f32>, %1: !tt.ptr<f32>):      ^bb0(%0: !tt.ptr<f32>):
      … "tt.load"(%0) …                        →     … "tt.load"(%0) …
      "tt.store"(%1, %2)                             "tt.store"(%0, %2)

IREE binds memory that is read and written once, so the kernel takes one pointer. It is
safe where a program reads and writes the same elements, which
`KernelFamily.memory_parts` says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TYPES = re.compile(r"(function_type = \()([^()]*)(\))")
_FACTS = re.compile(r"(arg_attrs = \[)([^\[\]]*)(\])")
_BLOCK = re.compile(r"(\^bb0\()([^()]*)(\):)")
_FACT = re.compile(r"\{[^{}]*\}")
_NAME = re.compile(r"%(\d+)\b")
_WAITED = "!tt.ptr<i8>"  # of what is not looked at


def write_over(text: str, reads: int, tied: Sequence[int], awaited: int) -> str:
    """Return a kernel's text with results tied to operands: they share pointers.

    Args:
        text: of the kernel, as `printing` writes it.
        reads: how many pointers it reads; those of the results follow.
        tied: the number of the pointer that takes the place of each result's, or -1.
        awaited: how many pointers follow what is read that the kernel does not use.
    """
    gone = {reads + number: at for number, at in enumerate(tied) if at >= 0}

    def chosen(given: Sequence[str], more: Sequence[str]) -> str:
        kept = [x for n, x in enumerate(given) if n not in gone]
        return ", ".join([*kept[:reads], *more, *kept[reads:]])

    def types(found: re.Match[str]) -> str:
        given = found[2].split(", ")
        return found[1] + chosen(given, [_WAITED] * awaited) + found[3]

    def facts(found: re.Match[str]) -> str:
        given = _FACT.findall(found[2])
        return found[1] + chosen(given, ["{}"] * awaited) + found[3]

    def arguments(found: re.Match[str]) -> str:
        more = [f"%a{n}: {_WAITED}" for n in range(awaited)]
        return found[1] + chosen(found[2].split(", "), more) + found[3]

    head = _BLOCK.search(text)
    assert head is not None  # the block of the function is the first
    before, body = text[: head.start()], text[head.end() :]
    body = _NAME.sub(lambda x: f"%{gone.get(int(x[1]), int(x[1]))}", body)
    before = _FACTS.sub(facts, _TYPES.sub(types, before, count=1), count=1)
    return before + _BLOCK.sub(arguments, head[0]) + body
