"""Conversion between dtypes: the scalar bodies, their reference, and accumulators."""

from collections.abc import Callable

import numpy as np

from aotc.core import dtypes
from aotc.dialects.lowering.scalars import (
    comparison,
    constant,
    float_compare,
    is_nan,
    with_sign,
)
from aotc.dialects.types import lowered_element
from aotc.mlir import ElementType, Value, arith, ir, math


def accumulator(dtype: str) -> str:
    """Return the dtype in which `dtype` is accumulated: f32 for f16 and bf16."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def conversion(source: str, target: str) -> Callable[[Value], Value]:
    """Return a function that emits the cast of an element from `source` to `target`."""
    if target == "bool":
        return _to_bool(source)
    if dtypes.is_float(source):
        return _from_float(source, target)
    return _from_integer(source, target)


def _to_bool(source: str) -> Callable[[Value], Value]:
    """Return a function that emits whether an element differs from zero."""
    differs = comparison(source, "ne", is_exact=True)
    return lambda x: differs(x, constant(x.type, 0))


def _from_integer(source: str, target: str) -> Callable[[Value], Value]:
    """Return a function that emits the cast of an integer or bool to `target`."""
    signed = source in dtypes.SIGNED
    element = lowered_element(target)
    if dtypes.is_float(target):
        to_float = arith.sitofp if signed else arith.uitofp
        wide = lowered_element(_not_half(target))
        narrow = _round_to_bf16 if target == "bf16" else _round_to
        return lambda x: narrow(to_float(wide, x), target)
    width = 1 if source == "bool" else dtypes.bits(source)
    if dtypes.bits(target) == width:
        return lambda x: x
    if dtypes.bits(target) < width:
        return lambda x: arith.trunci(element, x)
    extend = arith.extsi if signed else arith.extui
    return lambda x: extend(element, x)


def _from_float(source: str, target: str) -> Callable[[Value], Value]:
    """Return a function that emits the cast of a float to `target`."""
    element = lowered_element(target)
    if not dtypes.is_float(target):
        return lambda x: _saturate(x, target, element)
    if dtypes.bits(target) > dtypes.bits(source):
        return lambda x: arith.extf(element, x)
    if dtypes.bits(target) == dtypes.bits(source):  # f16 and bf16
        return lambda x: arith.truncf(element, arith.extf(ir.F32Type.get(), x))
    return lambda x: _round_to(x, target)


def _not_half(dtype: str) -> str:
    """Return f32 for a dtype of 16 bits, else the dtype itself."""
    return "f32" if dtypes.bits(dtype) == 16 else dtype


def _round_to(x: Value, target: str) -> Value:
    """Emit a float rounded to a dtype no wider; to half precision through f32.

    A direct conversion from f64 would call `__truncdfhf2`, which IREE's linker lacks.
    """
    for element in (lowered_element(_not_half(target)), lowered_element(target)):
        if x.type != element:
            x = arith.truncf(element, x)
    return x


def _round_to_bf16(x: Value, _: str) -> Value:
    """Emit an f32 that is not NaN, rounded to even in bf16 by its bits.

    For integers: LLVM makes one conversion of i32 → f32 → bf16, and that one is a call
    to `__truncsfbf2`, which IREE's linker lacks.
    """
    i16, i32 = ir.IntegerType.get_signless(16), ir.IntegerType.get_signless(32)
    sixteen = constant(i32, 16)
    bits = arith.bitcast(i32, x)
    odd = arith.andi(arith.shrui(bits, sixteen), constant(i32, 1))
    bits = arith.addi(bits, arith.addi(odd, constant(i32, 0x7FFF)))
    high = arith.trunci(i16, arith.shrui(bits, sixteen))
    return arith.bitcast(ir.BF16Type.get(), high)


def integer_bounds(target: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype."""
    info = np.iinfo(dtypes.to_numpy(target))
    return int(info.min), int(info.max)


def _saturate(x: Value, target: str, element: ElementType) -> Value:
    """Emit a float rounded towards zero and clamped to `target`; 0 for NaN."""
    if x.type.width == 16:
        x = arith.extf(ir.F32Type.get(), x)
    low, high = integer_bounds(target)
    # `low` and the first number above `high` are powers of two, so they are exact
    top = constant(x.type, float(high + 1))
    above = float_compare("OGE", x, top)
    below = float_compare("OLE", x, constant(x.type, float(low)))
    invalid = arith.ori(above, below)
    invalid = arith.ori(invalid, is_nan(x))
    safe = arith.select(invalid, constant(x.type, 0.0), x)
    whole = with_sign(math.floor(math.absf(safe)), safe)  # VMVX rounds to the nearest
    value = _whole_to_integer(whole, target)
    signed_high = -1 if target in dtypes.UNSIGNED else high
    value = arith.select(above, constant(element, signed_high), value)
    return arith.select(below, constant(element, low), value)


def _whole_to_integer(x: Value, target: str) -> Value:
    """Emit a whole float in the range of `target` as that; through i32 if narrower."""
    element = lowered_element(target)
    if dtypes.bits(target) < 32:
        return arith.trunci(element, arith.fptosi(ir.IntegerType.get_signless(32), x))
    return (arith.fptosi if target in dtypes.SIGNED else arith.fptoui)(element, x)


def saturate_numpy(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Return NumPy floats cast as `_saturate` does: its reference."""
    info = np.iinfo(target)
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
    inside = (wide > info.min) & (wide < float(info.max) + 1)
    values = np.where(inside, wide, 0).astype(target)
    values = np.where(wide >= float(info.max) + 1, np.array(info.max, target), values)
    return np.where(wide <= info.min, np.array(info.min, target), values)
