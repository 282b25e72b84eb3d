"""Attributes of ops: how each kind is written in MLIR and read as a Python value."""

import re
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import (
    Shape,
    Size,
    Tensor,
    element_type,
    remembered,
    shape_map,
    shape_of_map,
)
from aotc.errors import InputError
from aotc.mlir import ir

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

T = TypeVar("T")

LARGEST = 2**47  # bytes of a constant; more than one process can have


class Attribute(Generic[T]):
    """Codec of one kind of op attribute: between MLIR and a Python value of type T.

    It stands as the type of a field of an op, where the op's value is a T.
    """

    mlir: type[ir.Attribute]  # the class of attribute in the bindings

    @staticmethod
    def encode(value: T) -> ir.Attribute:
        """Return the MLIR attribute that holds a Python value."""
        raise NotImplementedError

    @staticmethod
    def decode(attr: ir.Attribute) -> T:
        """Return the Python value of an MLIR attribute; the inverse of `encode`."""
        raise NotImplementedError

    if TYPE_CHECKING:  # `GraphOp` puts a property in the place of the field

        def __get__(self, op: object, kind: type) -> T: ...


def read_attribute(
    stored: Mapping[str, ir.Attribute] | ir.DictAttr,
    name: str,
    codec: type[Attribute[T]],
) -> T:
    """Return the attribute `name` of an op or of a dictionary, decoded by `codec`.

    Raises:
        InputError: it is missing, or of another kind.
    """
    given = stored[name] if name in stored else None  # noqa: SIM401 - no `get` in all
    if not isinstance(given, codec.mlir):
        raise InputError(
            "malformed-op",
            f"expected an attribute '{name}' of kind {codec.mlir.__name__}; got "
            f"{given}",
        )
    return codec.decode(given)


def read_dictionary(
    stored: Mapping[str, ir.Attribute] | ir.OpAttributeMap, name: str
) -> ir.DictAttr:
    """Return the attribute `name`, which must exist, as an MLIR dictionary.

    Raises:
        InputError: it is of another kind.
    """
    facts = stored[name]
    if not isinstance(facts, ir.DictAttr):
        raise InputError("malformed-op", f"expected {name} = {{…}}; got {facts}")
    return facts


class Int(Attribute[int]):
    """Codec of a 64-bit integer attribute."""

    mlir = ir.IntegerAttr
    encode = staticmethod(
        lambda value: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    )
    decode = staticmethod(remembered(lambda attr: ir.IntegerAttr(attr).value))


class Ints(Attribute[tuple[int, ...]]):
    """Codec of a dense array of integers, in Python a tuple."""

    mlir = ir.DenseI64ArrayAttr
    encode = staticmethod(lambda value: ir.DenseI64ArrayAttr.get(list(value)))
    decode = staticmethod(remembered(lambda attr: tuple(ir.DenseI64ArrayAttr(attr))))


class Float(Attribute[float]):
    """Codec of a float attribute (f64, so that no digit of the user's is lost)."""

    mlir = ir.FloatAttr
    encode = staticmethod(lambda value: ir.FloatAttr.get_f64(value))
    decode = staticmethod(remembered(lambda attr: ir.FloatAttr(attr).value))


class Str(Attribute[str]):
    """Codec of a string from a small vocabulary, such as a comparison's direction."""

    mlir = ir.StringAttr
    encode = staticmethod(lambda value: ir.StringAttr.get(value))
    decode = staticmethod(remembered(lambda attr: ir.StringAttr(attr).value))


class Bool(Attribute[bool]):
    """Codec of a boolean attribute."""

    mlir = ir.BoolAttr
    encode = staticmethod(lambda value: ir.BoolAttr.get(value))
    decode = staticmethod(remembered(lambda attr: ir.BoolAttr(attr).value))


class Sizes(Attribute[Shape]):
    """Codec of a shape whose sizes may be symbolic, in MLIR an affine map."""

    mlir = ir.AffineMapAttr
    encode = staticmethod(lambda value: ir.AffineMapAttr.get(shape_map(tuple(value))))
    decode = staticmethod(
        remembered(lambda attr: shape_of_map(ir.AffineMapAttr(attr).value))
    )


class OneSize(Attribute[Size]):
    """Codec of one size that may be symbolic, in MLIR an affine map of one result."""

    mlir = ir.AffineMapAttr
    encode = staticmethod(lambda value: Sizes.encode((value,)))

    @staticmethod
    def decode(attr: ir.Attribute) -> Size:
        """Return the size that an affine map of one result holds.

        Raises:
            InputError: there is another number of them.
        """
        sizes = Sizes.decode(attr)
        if len(sizes) != 1:
            raise InputError("malformed-op", f"expected one size; got {attr}")
        return sizes[0]


class SymbolReference(Attribute[str]):
    """Codec of a reference to a function, in Python its name."""

    mlir = ir.FlatSymbolRefAttr
    encode = staticmethod(lambda value: ir.FlatSymbolRefAttr.get(value))
    decode = staticmethod(remembered(lambda attr: ir.FlatSymbolRefAttr(attr).value))


class SymbolReferences(Attribute[tuple[str, ...]]):
    """Codec of an array of references to functions, in Python their names."""

    mlir = ir.ArrayAttr
    encode = staticmethod(
        lambda value: ir.ArrayAttr.get([SymbolReference.encode(name) for name in value])
    )

    @staticmethod
    @remembered
    def decode(attr: ir.Attribute) -> tuple[str, ...]:
        """Return the function names that an array of references holds, in order."""
        names = ir.ArrayAttr(attr)
        for name in names:
            if not isinstance(name, ir.FlatSymbolRefAttr):
                raise InputError("malformed-op", f"expected function names; got {attr}")
        return tuple(str(name.value) for name in names)


class DenseElements(Attribute[np.ndarray]):
    """Codec of the elements of a constant, in Python a NumPy array."""

    mlir = ir.DenseElementsAttr

    @staticmethod
    def encode(value: "ArrayLike") -> ir.Attribute:
        """Return a dense MLIR attribute of the array's elements, shape and dtype."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        dtype = dtypes.canonical_dtype(array.dtype)
        mlir_type = ir.RankedTensorType.get(array.shape, element_type(dtype))
        if dtype == "bool":
            return ir.DenseElementsAttr.get(array, type=mlir_type)
        if dtype == "bf16":
            return ir.DenseElementsAttr.get(
                array.view(np.uint16), type=element_type(dtype), shape=array.shape
            )
        return ir.DenseElementsAttr.get(array, type=mlir_type)

    @staticmethod
    def decode(attr: ir.Attribute) -> np.ndarray:
        """Return the NumPy array of a dense MLIR attribute.

        Raises:
            InputError: `malformed-op`: no memory can hold so many elements.
        """
        tensor = Tensor.of(attr.type)
        if prod(tensor.shape) * dtypes.bits(tensor.dtype) > 8 * LARGEST:
            raise InputError(
                "malformed-op",
                f"expected a constant of at most {LARGEST} bytes; got {tensor}",
            )
        dtype = dtypes.to_numpy(tensor.dtype)
        if tensor.dtype == "bf16":
            return _bf16_words(attr).view(dtype).reshape(tensor.shape)
        return np.array(attr).astype(dtype, copy=False).reshape(tensor.shape)


def _bf16_words(attr: ir.Attribute) -> np.ndarray:
    """Return the bits of bf16 elements, parsed from the attribute's text."""
    text = str(attr).partition("<")[2].rpartition(">")[0].rpartition(">")[0]
    if text.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(text.strip('"')[2:]), "<u2")
    words = [_bf16_word(item) for item in re.split(r"[\[\], ]+", text) if item]
    return np.resize(np.array(words, np.uint16), attr.type.shape)


def _bf16_word(text: str) -> int:
    """Return the bits of the bf16 that a decimal or hexadecimal literal stands for."""
    if text.startswith("0x"):
        return int(text, 16)
    return int(np.array(float(text), dtypes.to_numpy("bf16")).view(np.uint16))
