"""Derivatives as functions without a body, until the autodiff pass writes it.

    func.func private @loss.vjp(…) -> (…)
        attributes {graph.vjp = {of = @loss, wrt = [0]}}
    %loss, %dparams = call @loss.vjp(%params, %x, %dloss)

Note [variadic ops]: IRDL gives one constraint variable to all operands of a variadic
field and requires them to be of one type. An op over the arguments of another function
can therefore not be declared with it; a call can.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from aotc.dialects.attributes import Ints
from aotc.dialects.types import Tensor
from aotc.mlir import func, ir

_VJP = "graph.vjp"


class VjpOf(NamedTuple):
    """What a declared derivative is the derivative of.

    The function takes the inputs of `function`, then one cotangent per float output. It
    returns the outputs of `function`, then one cotangent per input in `wrt`.
    """

    function: str
    wrt: tuple[int, ...]


def declare_vjp(
    module: Any,
    of: VjpOf,
    inputs: Sequence[Any],
    cotangents: Sequence[Any],
    outputs: Sequence[Tensor],
) -> str:
    """Declare the vector-Jacobian product of a function; returns its name.

    Args:
        module: holds the function, and the declaration from now on.
        of: the function and the inputs to differentiate by.
        inputs: MLIR values of the function's inputs.
        cotangents: MLIR values of the cotangents of its float outputs.
        outputs: types of its outputs.
    """
    results = [tensor.to_mlir() for tensor in outputs]
    results += [inputs[index].type for index in of.wrt]
    operands = [value.type for value in (*inputs, *cotangents)]
    name = f"{of.function}.vjp"
    with ir.InsertionPoint(module.body):
        declared = func.FuncOp(name, (operands, results), visibility="private")
        declared.attributes[_VJP] = ir.DictAttr.get(
            {"of": ir.FlatSymbolRefAttr.get(of.function), "wrt": Ints.encode(of.wrt)}
        )
    return name


def vjp_of(function: Any) -> VjpOf | None:
    """What `function` is declared as the derivative of, if it is."""
    if _VJP not in function.attributes:
        return None
    facts = ir.DictAttr(function.attributes[_VJP])
    of = ir.FlatSymbolRefAttr(facts["of"]).value
    return VjpOf(of, Ints.decode(facts["wrt"]))


def mark_defined(function: Any) -> None:
    """The derivative has its body now and is a function like any other."""
    del function.attributes[_VJP]
