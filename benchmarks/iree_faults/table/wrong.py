"""Code that IREE compiles, and computes wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import runs
from ..fault import Fault, Symptom
from ..witnesses import Array, Code, Elsewhere, Shows, Source, Wrong


def _numbers(*shape: int) -> Array:
    """Return random f32 numbers of a shape."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _f32(*numbers: float) -> Array:
    """Return numbers as an f32 array."""
    return np.array(numbers, np.float32)


def _f64(*numbers: float) -> Array:
    """Return numbers as an f64 array."""
    return np.array(numbers, np.float64)


_INF, _NAN = np.inf, np.nan
_SMALL = _f32(1e-6, 1e-5, 1e-4, 1e-3, -1e-6, -1e-5, -1e-4, -1e-3)
_SMALL_F64 = _f64(1e-12, 1e-10, 1e-9, 1e-8, -1e-12, -1e-10, -1e-9, 1e-7)
_COUNTS = _f64(5, -5, 5.5, 1e10, 2, 0, -1, 7)


def _wrong(name: str, *inputs: Any, **more: Any) -> Wrong:
    """Return the witness of wrong results of the module file `name`, for AVX2."""
    return Wrong(Source(name), inputs, **more)


def _on_vmvx(name: str, *inputs: Any, **more: Any) -> Wrong:
    """Return the witness of wrong results on the VMVX backend."""
    return Wrong(Source(name, "vmvx"), inputs, **more)


def _joined(x: Array, factor: float) -> Array:
    """Return the magnitudes of `x`, followed by them times a factor."""
    return np.concatenate([np.abs(x), factor * np.abs(x)])


ROWS = (
    Fault(
        "strided-reads",
        Symptom.WRONG,
        "Merges a generic that reads in steps with the one that computes what it "
        "reads, where the last step ends at its end, and then computes that at the "
        "positions of the steps alone, also for other readers.",
        ("dialects/ops/slicing.py: Note [strided reads]",),
        _wrong(
            "strided-reads",
            _numbers(3, 5),
            right=lambda x: (np.abs(x[:, ::2] * 2), x * 2),
        ),
    ),
    Fault(
        "reduction-read-twice",
        Symptom.WRONG,
        "Merges what reads a reduction or a product into its loops; where that reads "
        "it by rows and by columns, both reads become that of the part at hand.",
        (
            "passes/double_reads.py: Note [two reads of a reduction]",
            "dialects/ops/contraction.py: DotGeneral.simplify",
        ),
        _wrong(
            "reduction-read-twice",
            _numbers(6, 5),
            right=lambda x: np.outer(x.sum(1), x.sum(1)),
        ),
    ),
    Fault(
        "sum-of-ones",
        Symptom.WRONG,
        "Folds what a reduction reads down to a constant, where it finds that it is "
        "one, and then adds it once for each vector of elements.",
        (
            "dialects/lowering/variation.py: Note [sums of what does not vary]",
            "dialects/lowering/variation.py: Note [comparisons that vary]",
            "dialects/lowering/variation.py: Note [selections that vary]",
        ),
        _wrong("sum-of-ones", np.arange(25, dtype=np.int32), right=np.size),
    ),
    Fault(
        "sum-of-a-fill",
        Symptom.WRONG,
        "Does the same with what no memory goes into: fills, splats and positions.",
        ("dialects/lowering/variation.py: Note [sums of what does not vary]",),
        _wrong("sum-of-a-fill", _numbers(3, 4), right=lambda x: np.full(3, 4.0)),
    ),
    Fault(
        "shared-updates",
        Symptom.WRONG,
        "Makes tensors that begin with the same part updates of one tensor; the parts "
        "that one dispatch computes are then stored in the wrong places.",
        ("passes/separate_updates.py: Note [shared updates]",),
        _wrong(
            "shared-updates",
            _numbers(64),
            right=lambda x: (_joined(x, 2), _joined(x, 3)),
        ),
    ),
    Fault(
        "rounding-to-bf16",
        Symptom.WRONG,
        "Takes a conversion to bf16 or f16 and back again, which rounds, for nothing.",
        ("aotc/kernels/cpu/rounding.py: module",),
        _wrong(
            "rounding-to-bf16",
            _f32(1.001, 1 / 3, 3.1415927, 1.0),
            right=lambda x: _f32(1.0, 0.33398438, 3.140625, 1.0),
        ),
    ),
    Fault(
        "subnormal-numbers",
        Symptom.WRONG,
        "Has the processor take subnormal numbers for 0, so that comparisons do not "
        "tell them apart.",
        ("dialects/lowering/scalars.py: Note [subnormal numbers]",),
        _wrong(
            "subnormal-numbers",
            _f32(0, 1e-40, 0, 1),
            _f32(1e-40, 2e-40, 1, 2),
            right=lambda x, y: x < y,
        ),
    ),
    Fault(
        "sums-in-series",
        Symptom.WRONG,
        "Adds along an axis in series, a vector at a time: the squares of ten million "
        "numbers lose 1e-3 of their sum and more.",
        ("dialects/lowering/summation.py: Note [sums in blocks]",),
        _wrong(
            "sums-in-series",
            _numbers(10_000_000),
            right=lambda x: np.sum(np.square(x, dtype=np.float64)),
            slack=1e-4,
        ),
    ),
    Fault(
        "marked-sum-of-squares",
        Symptom.WRONG,
        "Forgets that a sum asks to be split into blocks, where it merges what "
        "computes the elements into it.",
        ("aotc/worker/long_sums.py: module",),
        Code(Source("marked-sum-of-squares"), "flow", "flow.dispatch @", right=2),
    ),
    Fault(
        "load-hoisted-above-a-loop",
        Symptom.WRONG,
        "Moves the load of a global after a loop above the stores in it.",
        ("dialects/lowering/stacks.py: Note [loop buffers]",),
        _wrong(
            "load-hoisted-above-a-loop",
            np.arange(4, dtype=np.float32),
            3,
            right=lambda x, count: x * count,
        ),
    ),
    Fault(
        "global-that-lags",
        Symptom.WRONG,
        "Takes a global that is only ever given what another one holds for that other "
        "one, which may hold something else by then.",
        ("aotc/worker/recordings.py: _keep_recording",),
        _wrong("global-that-lags", 3, right=lambda x: 5),
    ),
    Fault(
        "signed-extremes-on-gpus",
        Symptom.WRONG,
        "Takes 0 for the least integer and -1 for the greatest, where threads share "
        "the maximum or the minimum of signed integers, or a vector is not full: of "
        "negative numbers alone the maximum is 0.",
        ("dialects/ops/reduction.py: Note [signed extremes]",),
        Shows(runs.signed_maximum_on_gpus),
    ),
    Fault(
        "parts-read-on-gpus",
        Symptom.WRONG,
        "Reads a slice by position as if its elements were neighbours, in code for "
        "GPUs, also where rows have others between them.",
        ("dialects/lowering/sources.py: Note [reads with gaps]",),
        Elsewhere(
            "takes a GPU: seen on an H200, where `x[::2, ::-2]` had elements of row 1, "
            "and the derivative of a maximum pooling others' shares"
        ),
    ),
    Fault(
        "multiples-less-a-number",
        Symptom.WRONG,
        "Takes `3 * n - 1` for a multiple of 3, as 2**64 - 1 is one: code for GPUs "
        "then leaves out the last elements of a tensor of such a size.",
        ("dialects/sizes/affine.py: Note [multiples less a number]",),
        Code(
            Source("multiple-less-one", "cuda:sm_80"),
            "executable-sources",
            "udiv = 3",
            right=0,
        ),
    ),
    Fault(
        "sorted-blocks-on-vulkan",
        Symptom.WRONG,
        "Reads another block than it says, in code for Vulkan, where a reshape parts "
        "rows into blocks that are ranked and placed.",
        ("dialects/lowering/sorting.py: Note [sorted blocks]",),
        Elsewhere("takes a device of Vulkan: tests/e2e/test_vulkan.py"),
    ),
    Fault(
        "states-and-their-readers",
        Symptom.WRONG,
        "Runs what writes over a state at the same time as what reads its old value, "
        "unless one depends on the other by data.",
        (
            "passes/update_in_place.py: Note [readers]",
            "passes/state_windows.py: module",
            "dialects/lowering/ordering.py: module",
        ),
        Elsewhere(
            "shows by chance, in the order of threads: tests/passes/"
            "test_update_in_place.py has the updates that have to wait"
        ),
    ),
    Fault(
        "small-results-of-asinh",
        Symptom.WRONG,
        "Loses all digits of asinh of small numbers, in f32.",
        ("dialects/lowering/approximations.py: module",),
        _wrong("asinh-of-small-numbers", _SMALL, right=np.arcsinh, unit=0),
    ),
    Fault(
        "cbrt-of-infinity",
        Symptom.WRONG,
        "Gives no number for the cube root of infinity.",
        ("dialects/lowering/approximations.py: module",),
        _wrong(
            "cbrt-of-infinity",
            _f32(_INF, -_INF, 8, -8, 27, 0, 1, 1e-30),
            right=np.cbrt,
        ),
    ),
    Fault(
        "atan2-of-infinities",
        Symptom.WRONG,
        "Gives no number for the angle of points that are infinitely far.",
        ("dialects/lowering/approximations.py: module",),
        _wrong(
            "atan2-of-infinities",
            _f32(_INF, -_INF, _INF, 1),
            _f32(_INF, _INF, -_INF, -_INF),
            right=np.arctan2,
        ),
    ),
    Fault(
        "expm1-of-f64",
        Symptom.WRONG,
        "Loses half the digits of e**x - 1 near 0, in f64.",
        ("dialects/lowering/approximations.py: expm1",),
        _wrong("expm1-of-f64", _SMALL_F64, right=np.expm1, slack=1e-12, unit=0),
    ),
    Fault(
        "log1p-of-f64",
        Symptom.WRONG,
        "Loses half the digits of ln(1 + x) near 0, in f64.",
        ("dialects/lowering/approximations.py: log1p",),
        _wrong("log1p-of-f64", _SMALL_F64, right=np.log1p, slack=1e-12, unit=0),
    ),
    Fault(
        "vmvx-not-a-number",
        Symptom.WRONG,
        "On vmvx, takes `x != x` for false.",
        ("dialects/lowering/scalars.py: is_nan",),
        _on_vmvx(
            "not-a-number", _f32(_NAN, 1, 2, _INF, -_INF, _NAN, 0, -0.0), right=np.isnan
        ),
    ),
    Fault(
        "vmvx-sum-less-its-part",
        Symptom.WRONG,
        "On vmvx, computes (x + c) - c as x: functions that rely on rounding differ in "
        "the last digits.",
        ("docs/dialect.md: Known limits",),
        _on_vmvx(
            "sum-less-its-part",
            _f32(1e-8, 0.1, 0.2, 1e-7, 1e-3, 0, 1, 2),
            right=lambda x: (x + np.float32(3)) - np.float32(3),
            slack=0,
        ),
    ),
    Fault(
        "vmvx-remainder",
        Symptom.WRONG,
        "On vmvx, computes the remainder of a division that rounds to even.",
        ("dialects/lowering/scalars.py: remainder",),
        _on_vmvx("remainder-of-f64", _COUNTS, right=lambda x: np.fmod(x, 3.0)),
    ),
    Fault(
        "vmvx-narrow-integers",
        Symptom.WRONG,
        "On vmvx, extends narrow integers by their sign, where zeros are asked for.",
        (
            "dialects/lowering/scalars.py: with_zero_extension",
            "dialects/ops/indexing.py: checked_index",
        ),
        _on_vmvx(
            "zero-extension",
            np.array([-1, -2, 127, 0, 1, -128, 5, -7], np.int8),
            right=lambda x: x.view(np.uint8) >> 1,
        ),
    ),
    Fault(
        "vmvx-integers-that-wrap",
        Symptom.WRONG,
        "On vmvx, computes with integers of 8 and 16 bits in 32 and cuts them off when "
        "they are stored: what looks at the sign before sees those that have not "
        "wrapped.",
        ("passes/double_reads.py: Note [integers that wrap]",),
        _on_vmvx(
            "integer-that-wraps",
            np.array([-1, -2, 127, 0, 1, -128, 5, 8], np.int8),
            right=lambda x: (x << 4) >> 4,
        ),
    ),
    Fault(
        "vmvx-float-to-integer",
        Symptom.WRONG,
        "On vmvx, rounds floats that are converted to integers to the nearest.",
        ("dialects/lowering/conversion.py: _saturate",),
        _on_vmvx(
            "float-to-integer",
            _f32(0.5, -0.5, 1.5, 2.7, -2.7, 3, 0, 9.99),
            right=np.trunc,
        ),
    ),
    Fault(
        "vmvx-greater-than-nan",
        Symptom.WRONG,
        "On vmvx, takes NaN for greater than any number, or as great.",
        ("dialects/lowering/scalars.py: float_compare",),
        _on_vmvx(
            "greater-than-nan",
            _f32(_NAN, 0, 1, 2, _NAN, 3, -1, 1),
            right=lambda x: x >= 1,
        ),
    ),
    Fault(
        "vulkan-replay",
        Symptom.WRONG,
        "On Vulkan, keeps the native commands of a function and replays them to where "
        "the first call's results lay.",
        ("artifacts/backends/vulkan.py: Note [replay on Vulkan]",),
        Elsewhere("takes a Vulkan device: `python -m benchmarks.gpu`"),
    ),
    Fault(
        "vulkan-narrow-numbers",
        Symptom.WRONG,
        "On Vulkan, writes f16 as f32, over what lies behind it, unless the device is "
        "said to store numbers of 8 and 16 bits.",
        ("aotc/machine/target.py: _VULKAN_DEVICE",),
        Elsewhere("takes a Vulkan device: `python -m benchmarks.gpu`"),
    ),
)
