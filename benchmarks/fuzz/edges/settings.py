"""The calls that edges start from: those of tests, and more with optional parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from aotc import complexes, control, fft, linalg, nn, optim, random, special
from aotc import numpy as anp
from benchmarks.fuzz.templates import tested_calls

from .cases import Case

MODULES = {
    "numpy": anp, "linalg": linalg, "fft": fft, "special": special, "nn": nn,
    "random": random, "optim": optim, "control": control, "complexes": complexes,
}  # fmt: skip

draw = np.random.default_rng(1)
x = draw.uniform(0.1, 0.9, (3, 4)).astype("f4")
y = draw.uniform(0.1, 0.9, (3, 4)).astype("f4")
line = draw.uniform(0.1, 0.9, 6).astype("f4")
cube = draw.uniform(0.1, 0.9, (2, 3, 4)).astype("f4")
mask = x > 0.4
ints = np.array([3, -1, 2, 0], "i4")
points = np.array([0.1, 0.3, 0.6, 0.8], "f4")
heights = np.array([1.0, -2.0, 0.5, 3.0], "f4")

# parameter=value for each; the first array is called what the function calls it
MORE: dict[str, list[dict[str, Any]]] = {
    **{f"numpy.{name}": [{"a": x, "where": mask}] for name in ("all", "any")},
    **{f"numpy.{name}": [{"a": x, "where": mask}, {"a": x, "where": mask, "axis": 0}]
       for name in ("mean", "std", "var")},
    **{f"numpy.{name}": [{"a": x, "where": mask, "initial": 0.5, "axis": 1}]
       for name in ("amax", "amin", "max", "min", "prod", "sum")},
    "numpy.average": [{"a": x, "weights": y}, {"a": x, "weights": x[0], "axis": 1}],
    "numpy.bincount": [{"x": np.array([0, 2, 1, 2], "i4"), "weights": points}],
    "numpy.cov": [{"m": x, "y": y}], "numpy.corrcoef": [{"x": x, "y": y}],
    "numpy.trapezoid": [{"y": x, "x": y}, {"y": x, "x": x[0]}],
    "numpy.interp": [{"x": line, "xp": points, "fp": heights},
                     {"x": line, "xp": points, "fp": heights, "period": 0.5}],
    "numpy.median": [{"a": line}, {"a": line[:5]}],
    "numpy.nanmedian": [{"a": line}, {"a": line[:5]}],
    "numpy.quantile": [{"a": line, "q": np.array([0.0, 0.3, 0.5, 1.0], "f4")}],
    "numpy.percentile": [{"a": line, "q": np.array([0.0, 30.0, 50, 100], "f4")}],
    "numpy.nanquantile": [{"a": line, "q": np.array([0.0, 0.3, 0.5, 1.0], "f4")}],
    "numpy.convolve": [{"a": line, "v": points}, {"a": points[:2], "v": line}],
    "numpy.correlate": [{"a": line, "v": points}, {"a": points[:2], "v": line}],
    "numpy.histogram": [{"a": line, "bins": points}, {"a": line, "bins": 3,
                        "range": (0.2, 0.7), "weights": line}],
    "numpy.gradient": [{"f": cube, "axis": 1}],
    "numpy.clip": [{"a": x, "a_min": 0.3, "a_max": 0.6},
                   {"a": x, "a_min": y, "a_max": y}],
    "numpy.ediff1d": [{"ary": x, "to_end": 1.0, "to_begin": line}],
    "numpy.take": [{"a": cube, "indices": ints[:2] * 0, "axis": 1, "mode": "clip"},
                   {"a": cube, "indices": ints, "mode": "wrap"},
                   {"a": x, "indices": ints}],
    "numpy.roll": [{"a": cube, "shift": (1, 2), "axis": (0, 2)},
                   {"a": cube, "shift": 5}],
    "numpy.flip": [{"m": cube, "axis": 1}], "numpy.rot90": [{"m": cube, "k": 1}],
    "numpy.rollaxis": [{"a": cube, "axis": n, "start": 0} for n in (0, 1, 2)],
    "numpy.moveaxis": [{"a": cube, "source": (0, 1), "destination": (2, 0)}],
    "numpy.transpose": [{"a": cube, "axes": (2, 0, 1)}],
    "numpy.repeat": [{"a": x, "repeats": 2}, {"a": x, "repeats": [1, 0, 2], "axis": 0}],
    "numpy.tile": [{"A": line, "reps": (2, 1, 2)}],
    "numpy.squeeze": [{"a": x[:, None, :1]}],
    "numpy.insert": [{"arr": x, "obj": [1, 3], "values": 0.5, "axis": 1},
                     {"arr": line, "obj": 1, "values": points[:2]}],
    "numpy.delete": [{"arr": x, "obj": [0, 2], "axis": 1}, {"arr": line, "obj": 1}],
    "numpy.cross": [{"a": x[:, :2], "b": y[:, :2]}, {"a": x[:, :2], "b": y[:, :3]}],
    "numpy.diff": [{"a": cube, "n": 2, "axis": 1}],
    "numpy.searchsorted": [{"a": points, "v": line, "side": "right"}],
    "numpy.digitize": [{"x": line, "bins": points[::-1].copy()}],
    "numpy.unwrap": [{"p": x * 20, "axis": 0}],
    "numpy.matmul": [{"x1": cube, "x2": cube[0].T.copy()}, {"x1": line, "x2": line}],
    "numpy.dot": [{"a": cube, "b": cube.swapaxes(1, 2).copy()}, {"a": line, "b": line}],
    "numpy.inner": [{"a": line, "b": line}], "numpy.vdot": [{"a": cube, "b": cube}],
    "numpy.tensordot": [{"a": cube, "b": cube, "axes": ((0, 1), (0, 1))}],
    "numpy.linspace": [{"start": 0.0, "stop": 1.0, "num": 5, "endpoint": False}],
    "numpy.arange": [{"start": 0, "stop": 5}, {"start": 5}, {"start": 0.0, "stop": 1.0,
                     "step": 0.1}],
    "numpy.eye": [{"N": 3, "M": 4, "k": 1}], "numpy.tri": [{"N": 3, "M": 4, "k": 1}],
    "numpy.tril": [{"m": cube, "k": 1}], "numpy.triu": [{"m": cube, "k": -1}],
    "numpy.trace": [{"a": cube, "offset": 1, "axis1": 1, "axis2": 2}],
    "numpy.diagonal": [{"a": cube, "offset": 1, "axis1": 1, "axis2": 2}],
    "numpy.diag": [{"v": line, "k": 1}, {"v": x, "k": -1}],
    "numpy.pad": [{"array": x, "pad_width": 2, "mode": mode} for mode in
                  ("constant", "edge", "reflect", "symmetric", "wrap")],
    "numpy.array_split": [{"ary": x, "indices_or_sections": [1, 2], "axis": 1}],
    "numpy.unstack": [{"x": cube, "axis": 1}],
    "numpy.unravel_index": [{"indices": np.array([0, 5, 3], "i4"), "shape": (2, 3)}],
    "numpy.sort": [{"a": cube, "axis": 1}], "numpy.argsort": [{"a": cube, "axis": 1}],
    "numpy.where": [{"condition": mask, "x": x, "y": 0.5}],
    "numpy.isclose": [{"a": x, "b": x + np.float32(1e-5)}],
    "numpy.power": [{"x1": x, "x2": 2}, {"x1": ints, "x2": abs(ints)}],
    "numpy.nan_to_num": [{"x": x, "nan": 1.0, "posinf": 2.0, "neginf": -2.0}],
    **{f"numpy.{name}": [{"x1": ints, "x2": ints[::-1].copy()}] for name in
       ("divide", "floor_divide", "remainder", "fmod", "divmod", "mod", "gcd", "lcm")},
    **{f"numpy.{name}": [{"a": np.array([[1, 0, 2], [0, 3, 1]], "i4")}] for name in
       ("nonzero", "argwhere", "flatnonzero")},
    "numpy.unique": [{"ar": np.array([3, 1, 3, 0], "i4")},
                     {"ar": line, "return_index": True, "return_inverse": True,
                      "return_counts": True}],
    **{f"numpy.{name}": [{"ar1": np.array([3, 1, 3, 0], "i4"), "ar2": ints}] for name in
       ("intersect1d", "setdiff1d", "union1d")},
    "numpy.extract": [{"condition": mask, "arr": x}],
    "numpy.compress": [{"condition": [True, False, True], "a": x, "axis": 0}],
    "linalg.norm": [{"x": line}, {"x": x, "axis": 1}, {"x": cube, "axis": (0, 2)},
                    {"x": x, "ord": 2}, {"x": x, "ord": 1, "axis": 0}],
    "linalg.vector_norm": [{"x": line, "ord": 3}], "linalg.matrix_norm": [{"x": cube}],
    "special.logsumexp": [{"a": x, "axis": 1, "b": y}],
}  # fmt: skip


def public_functions(family: str) -> dict[str, Callable[..., Any]]:
    """Return the public functions of a package by `family.name`."""
    module = MODULES[family]
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        f"{family}.{name}": function
        for name, function in found.items()
        if inspect.isfunction(function)
    }


def bases(function: str, signature: inspect.Signature) -> list[Case]:
    """Return working calls of a function, to begin from."""
    args, kwargs = tested_calls()[function]
    bound = signature.bind(*args, **kwargs)
    found = [Case(function, dict(bound.arguments))]
    found += [Case(function, dict(more)) for more in MORE.get(function, [])]
    return found
