"""The part of ai.onnx.ml that works on arrays of numbers."""

from __future__ import annotations

from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.numpy.elementwise import root_of_squares
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float
from aotc.tracing.source_locations import fail

Floats = tuple[float, ...]


def array_feature_extractor(x: Array, indices: Array) -> Array:
    """Return elements of x at indices along the last axis."""
    found = np.take(x, np.reshape(indices, (-1,)), -1)
    return np.expand_dims(found, 0) if x.ndim == 1 else found


def binarizer(x: Array, *, threshold: float = 0.0) -> Array:
    """Return 1 where x is above the threshold, else 0."""
    return np.astype(np.greater(x, threshold), x.dtype)


def imputer(
    x: Array,
    *,
    imputed_value_floats: Floats = (),
    replaced_value_float: float = 0.0,
) -> Array:
    """Return x with elements equal to one number (or NaN) replaced."""
    values = np.asarray(list(imputed_value_floats), x.dtype)
    missing = np.isnan(x)
    if replaced_value_float == replaced_value_float:
        missing = np.equal(x, replaced_value_float)
    return np.where(missing, values, x)


def linear_regressor(
    x: Array,
    *,
    coefficients: Floats,
    intercepts: Floats = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Array:
    """Return a linear function of the features for each target."""
    if post_transform != "NONE":
        fail("unsupported-ops", f"the post_transform {post_transform!r} is not known")
    kernel = np.reshape(np.asarray(list(coefficients), "f32"), (targets, -1))
    y = np.matmul(as_float(x), np.transpose(kernel))
    return np.add(y, np.asarray(list(intercepts), "f32")) if intercepts else y


def normalizer(x: Array, *, norm: str = "MAX") -> Array:
    """Return rows divided by their norm."""
    y = as_float(x)
    size = {
        "MAX": lambda: np.max(np.absolute(y), -1, keepdims=True),
        "L1": lambda: np.sum(np.absolute(y), -1, keepdims=True),
        "L2": lambda: root_of_squares(np.sum(np.square(y), -1, keepdims=True)),
    }[norm]()
    return np.divide(y, np.where(np.equal(size, 0), 1.0, size))


def scaler(x: Array, *, offset: Floats = (0.0,), scale: Floats = (1.0,)) -> Array:
    """Return (x - offset) scale for each feature."""
    center = np.asarray(list(offset), "f32")
    return np.multiply(np.subtract(as_float(x), center), np.asarray(list(scale), "f32"))


TABLE: dict[str, Imports] = {
    "ai.onnx.ml.ArrayFeatureExtractor": array_feature_extractor,
    "ai.onnx.ml.Binarizer": binarizer,
    "ai.onnx.ml.Imputer": imputer,
    "ai.onnx.ml.LinearRegressor": linear_regressor,
    "ai.onnx.ml.Normalizer": normalizer,
    "ai.onnx.ml.Scaler": scaler,
}
