"""Functions that operators are imported by, and how nodes call them.

Such a function takes the operator's inputs by place and its attributes by name, with
their defaults. What is annotated `KnownTensor` gets elements that are known when the
model is built. A keyword that is annotated with a dataclass gets the attributes that
are fields of it: those that several operators share. Three names are no attributes:
`opset` is the version of the operators that the node counts on, `wanted` the number of
results that somebody uses, `number` the node's own in its file. Where it returns
NotImplemented, the operator is expanded into the body by which ONNX defines it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Protocol

from aotc.importers.common.padded import Padded
from aotc.importers.onnx.graph import OnnxGraph, OnnxNode
from aotc.importers.onnx.values import Known, Value, as_array, known_of
from aotc.tracing.source_locations import fail

Imports = Callable[..., Value | Sequence[Value]]
FACTS = ("opset", "wanted", "number")


class OnnxBody(Protocol):
    """A subgraph of a node such as `Loop`, as a function of its arguments."""

    @property
    def graph(self) -> OnnxGraph:
        """The subgraph itself."""

    def __call__(self, *arguments: Value) -> list[Value]:
        """Run the subgraph, which can read values of the enclosing graphs."""


@dataclass(frozen=True)
class OperatorSignature:
    """The inputs and attributes that an operator's import function takes.

    Args:
        inputs: of each input by place, whether it must be known, and its name.
        required: how many of them must be given.
        variadic: whether any number may follow.
        keywords: names of attributes and facts.
        groups: keywords that take several attributes, and the dataclass of each.
        needed: attributes without a default.
    """

    inputs: tuple[tuple[str, bool], ...]
    required: int
    variadic: bool
    keywords: frozenset[str]
    groups: tuple[tuple[str, Any], ...]
    needed: frozenset[str]

    def attributes(self) -> frozenset[str]:
        """Return the names of all attributes, and facts such as `opset`, that
        it takes.
        """
        return self.keywords.union(*(_names(group) for _, group in self.groups))

    def arguments(self, named: Mapping[str, object]) -> dict[str, object]:
        """Return keyword arguments of the function: attributes, or dataclasses of
        several.
        """
        return {
            **_select(named, self.keywords),
            **{
                key: group(**_select(named, _names(group)))
                for key, group in self.groups
            },
        }


def _names(group: Any) -> frozenset[str]:
    """Return the names of a dataclass's fields."""
    return frozenset(field.name for field in fields(group))


def _select(named: Mapping[str, object], names: Set[str]) -> dict[str, object]:
    """Return the items whose name is in a set."""
    return {name: value for name, value in named.items() if name in names}


@cache
def signature(function: Imports) -> OperatorSignature:
    """Return the signature of an import function, from its parameters and
    annotations.
    """
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    by_place = [p for p in parameters if p.kind in _BY_PLACE]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    hinted = [(p.name, hints.get(p.name)) for p in keywords]
    grouped = {name: hint for name, hint in hinted if is_dataclass(hint)}
    by_name = [p for p in keywords if p.name not in grouped]
    members = [field for group in grouped.values() for field in fields(group)]
    needed = {p.name for p in by_name if p.default is p.empty}
    needed |= {field.name for field in members if field.default is MISSING}
    return OperatorSignature(
        tuple((p.name, _is_known(hints.get(p.name))) for p in by_place),
        sum(p.default is p.empty for p in by_place),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        frozenset(p.name for p in by_name),
        tuple(grouped.items()),
        frozenset(needed - set(FACTS)),
    )


_BY_PLACE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def _is_known(hint: object) -> bool:
    """Return whether a parameter's annotation asks for values known at build time."""
    return hint == Known or Known in typing.get_args(hint)


def misfit(function: Imports, node: OnnxNode) -> str | None:
    """Return why a node's inputs or attributes do not fit a function; None if
    they do.
    """
    takes = signature(function)
    given = len(node.inputs)
    if given < takes.required:
        return f"it has {given} inputs of at least {takes.required}"
    surplus = node.inputs[len(takes.inputs) :]
    if any(surplus) and not takes.variadic:
        return f"it has {given} inputs of at most {len(takes.inputs)}"
    unknown = set(node.attributes) - takes.attributes() - _SAYS_NOTHING
    if unknown:
        return f"its attribute '{min(unknown)}' is not supported"
    missing = takes.needed - set(node.attributes)
    return f"it lacks the attribute '{min(missing)}'" if missing else None


# of the first versions: which inputs an implementation may overwrite
_SAYS_NOTHING = {"consumed_inputs"}


def call(
    function: Imports,
    node: OnnxNode,
    values: Sequence[Value | None],
    attributes: Mapping[str, object],
    facts: Mapping[str, int],
    padded: bool = False,
) -> list[Value] | None:
    """Return a node's results by its import function; None if that declines the node.

    With `padded` the function takes values whose sizes depend on values.

    Raises:
        InputError: an input that must be known is computed by the model.
    """
    takes = signature(function)
    extra = [("input", False)] * (len(values) - len(takes.inputs))
    extra = extra if takes.variadic else []
    arguments = [
        _argument(name, known, value, node, padded)
        for value, (name, known) in zip(values, (*takes.inputs, *extra), strict=False)
    ]
    results = function(*arguments, **takes.arguments({**facts, **attributes}))
    if results is NotImplemented:
        return None
    return list(results) if isinstance(results, Sequence) else [results]


def _argument(
    name: str, known: bool, value: Value | None, node: OnnxNode, padded: bool
) -> Value | Known | None:
    """Return an input as the function takes it: known elements, or an array."""
    if value is None:
        return None
    if not known:
        return value if padded and isinstance(value, Padded) else as_array(value)
    found = known_of(value)
    if found is None:
        fail(
            "unknown-value",
            f"expected '{name}' of {node.key} to be known when the model is built; "
            f"it is an array that the model computes ({value.dtype}"
            f"{list(value.shape)})",
            "make it an initialiser, or compute it from shapes",
        )
    return found
