"""Element types of ONNX, and the dtypes in which aotc computes them.

Integers of 2 and 4 bits and floats of 4 and 8 bits are no dtypes of aotc. Their values
are held in the next wider dtype that has them all, and an `OnnxArray` remembers the
type.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from aotc.core import dtypes
from aotc.tracing.source_locations import fail


@dataclass(frozen=True)
class Element:
    """An ONNX element type, and the dtype that aotc computes it in.

    Args:
        name: as TensorProto spells it.
        dtype: that values are computed in.
        bits: of one element in a file.
        narrow: the NumPy name (ml_dtypes) of a type that is no dtype of aotc.
    """

    name: str
    dtype: str
    bits: int
    narrow: str | None = None

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype that represents the type's values exactly."""
        return dtypes.to_numpy(self.dtype) if self.narrow is None else self._ml_dtype()

    def _ml_dtype(self) -> np.dtype:
        """Return the dtype of ml_dtypes for a narrow type."""
        import ml_dtypes

        found: np.dtype = np.dtype(getattr(ml_dtypes, str(self.narrow)))
        return found

    @property
    def is_narrow_float(self) -> bool:
        """Return whether the element is a float of 8 bits or less."""
        return self.narrow is not None and self.narrow.startswith("float")


ELEMENTS = {
    1: Element("FLOAT", "f32", 32),
    2: Element("UINT8", "u8", 8),
    3: Element("INT8", "i8", 8),
    4: Element("UINT16", "u16", 16),
    5: Element("INT16", "i16", 16),
    6: Element("INT32", "i32", 32),
    7: Element("INT64", "i64", 64),
    9: Element("BOOL", "bool", 8),
    10: Element("FLOAT16", "f16", 16),
    11: Element("DOUBLE", "f64", 64),
    12: Element("UINT32", "u32", 32),
    13: Element("UINT64", "u64", 64),
    16: Element("BFLOAT16", "bf16", 16),
    17: Element("FLOAT8E4M3FN", "f32", 8, "float8_e4m3fn"),
    18: Element("FLOAT8E4M3FNUZ", "f32", 8, "float8_e4m3fnuz"),
    19: Element("FLOAT8E5M2", "f32", 8, "float8_e5m2"),
    20: Element("FLOAT8E5M2FNUZ", "f32", 8, "float8_e5m2fnuz"),
    21: Element("UINT4", "u8", 4, "uint4"),
    22: Element("INT4", "i8", 4, "int4"),
    23: Element("FLOAT4E2M1", "f32", 4, "float4_e2m1fn"),
    24: Element("FLOAT8E8M0", "f32", 8, "float8_e8m0fnu"),
    25: Element("UINT2", "u8", 2, "uint2"),
    26: Element("INT2", "i8", 2, "int2"),
}
_REFUSED = {0: "an undefined type", 8: "strings", 14: "complex64", 15: "complex128"}
_OF_DTYPE = {e.dtype: code for code, e in ELEMENTS.items() if e.narrow is None}


def element(code: int) -> Element:
    """Return the element type of a TensorProto data type number.

    Raises:
        InputError: aotc has no arrays of it.
    """
    if code not in ELEMENTS:
        name = _REFUSED.get(code, f"element type {code}")
        fail("unsupported-type", f"aotc has no arrays of {name}")
    return ELEMENTS[code]


def code_of(dtype: str) -> int:
    """Return the TensorProto data type number of one of aotc's dtypes."""
    return _OF_DTYPE[dtype]


@cache
def value_table(kind: Element) -> np.ndarray:
    """Return the values of a narrow float type, indexed by bit pattern."""
    patterns = np.arange(2**kind.bits, dtype=np.uint8)
    return patterns.view(kind.numpy).astype(dtypes.to_numpy(kind.dtype))
