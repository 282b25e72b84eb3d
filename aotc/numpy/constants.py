"""Constants, and dtypes by NumPy's names."""

from __future__ import annotations

import math

__all__ = [
    "bfloat16",
    "bool_",
    "e",
    "euler_gamma",
    "float16",
    "float32",
    "float64",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "nan",
    "newaxis",
    "pi",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
euler_gamma = 0.57721566490153286
newaxis = None

# dtypes by NumPy's names, for `zeros(3, np.float32)` and `x.astype(np.int32)`
bool_ = "bool"
int8, int16, int32, int64 = "i8", "i16", "i32", "i64"
uint8, uint16, uint32, uint64 = "u8", "u16", "u32", "u64"
float16, bfloat16, float32, float64 = "f16", "bf16", "f32", "f64"
