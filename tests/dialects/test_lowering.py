"""What IREE computes from the lowered ops equals what NumPy computes by their `ref`."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

from aotc import nn, reference, special
from aotc import numpy as anp
from aotc.backend import compile_targets
from aotc.backend.crossing import require_upstream_only
from aotc.core import dtypes
from aotc.core.pytree import Structure
from aotc.dialects import context
from aotc.dialects.functions.entries import Entry, Port
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.programs.program import Program
from aotc.tracing.array import Array
from aotc.tracing.tracing import Trace
from tests.dialects.cases import edges
from tests.dialects.conftest import new_module

# Largest difference, relative to the larger of 1 and the reference; integers are equal.
# f32: the transcendental functions of IREE are good to a few units in the last place.
TOLERANCE = {"f64": 1e-13, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}


def assert_close(got: Any, want: Any) -> None:
    """Equal shapes, equal infinities and NaNs, and values within tolerance."""
    assert got.shape == want.shape
    tolerance = TOLERANCE.get(dtypes.canonical_dtype(want.dtype))
    if tolerance is None:
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want) / np.maximum(1, np.abs(want))
    fits = (got == want) | (np.isnan(got) & np.isnan(want)) | (error <= tolerance)
    np.testing.assert_array_equal(got[~fits], want[~fits])


class Compiled:
    """Graph functions compiled by IREE, run by its runtime."""

    def __init__(self, module: Any, target: str) -> None:
        entries = [
            _entry(op) for op in module.body.operations if "sym_name" in op.attributes
        ]
        self._results = {e.name: [port.type for port in e.results] for e in entries}
        program = Program.of_functions(module, entries)
        passes = ["inline", "decompose", "lower-to-linalg", "control-to-blocks"]
        run_passes(module, passes)
        (variant,) = compile_targets(program, [Target.parse(target)])
        config = iree.Config("local-sync")
        self._device = config.device
        code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
        self._context = iree.VmContext(
            config.vm_instance, [*config.default_vm_modules, code]
        )
        self._code = code

    def __call__(self, name: str, arrays: Sequence[Any]) -> list[Any]:
        """The results of function `name`, which must leave its arguments as they are.

        IREE 3.13 gives some ops the caller's own buffer to write their result into.
        """
        arguments, results = iree.VmVariantList(len(arrays)), iree.VmVariantList(1)
        sent = [self._send(array) for array in arrays]
        for buffer in sent:
            arguments.push_ref(buffer)
        self._context.invoke(self._code.lookup_function(name), arguments, results)
        for buffer, array in zip(sent, arrays, strict=True):
            kind = Tensor(array.shape, dtypes.canonical_dtype(array.dtype))
            assert _receive(buffer, kind).tobytes() == array.tobytes()
        return [
            _receive(results.get_as_object(i, iree.HalBufferView), kind)
            for i, kind in enumerate(self._results[name])
        ]

    def _send(self, array: Any) -> Any:
        kind = _ELEMENTS[dtypes.canonical_dtype(array.dtype)]
        memory, usage = iree.MemoryType.DEVICE_LOCAL, iree.BufferUsage.DEFAULT
        allocate = self._device.allocator.allocate_buffer_copy
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        return allocate(int(memory), int(usage), self._device, contiguous, kind)


_ELEMENTS = {
    "bool": iree.HalElementType.BOOL_8,
    "f16": iree.HalElementType.FLOAT_16,
    "bf16": iree.HalElementType.BFLOAT_16,
    "f32": iree.HalElementType.FLOAT_32,
    "f64": iree.HalElementType.FLOAT_64,
    **{
        f"{sign}{bits}": getattr(iree.HalElementType, f"INT_{bits}")
        for sign in "iu"
        for bits in (8, 16, 32, 64)
    },
}


def _receive(view: Any, kind: Tensor) -> Any:
    dtype = dtypes.to_numpy(kind.dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    return view.map().asarray(view.shape, bits).view(dtype).copy()


def _entry(function: Any) -> Entry:
    name = ir.StringAttr(function.attributes["sym_name"]).value
    block = function.entry_block
    returned = block.operations[len(block.operations) - 1].operands
    inputs = [
        Port(f"x{i}", Tensor.of(v), "input") for i, v in enumerate(block.arguments)
    ]
    outputs = [Port(f"y{i}", Tensor.of(v), "output") for i, v in enumerate(returned)]
    leaf = Structure("leaf")
    return Entry(name, (), tuple(inputs), tuple(outputs), leaf, leaf)


@pytest.fixture(scope="module")
def chosen(request):
    """The compiled cases of this run, after `-k` and `-m` have chosen."""
    parameters = [
        item.callspec.params
        for item in request.session.items
        if item.originalname == "test_compiled_op_equals_its_reference"
    ]
    return [each["compiled_case"] for each in parameters]


@pytest.fixture(scope="module")
def every(chosen, build_all):
    """A module with a function for each case."""
    return build_all(chosen)


@pytest.fixture(scope="module")
def cpu(chosen, build_all):
    """Return the functions, compiled for this machine."""
    return Compiled(build_all(chosen), "cpu")


def test_compiled_op_equals_its_reference(compiled_case, every, cpu):
    case = compiled_case
    for sizes in case.size_choices():
        inputs = case.inputs(sizes)
        wanted = reference.evaluate(every, str(case), inputs)
        for got, want in zip(cpu(str(case), inputs), wanted, strict=True):
            assert_close(got, want)


@pytest.mark.parametrize(
    "labels", [r"0_f32|edge_u8", pytest.param(r"[1-9]_f32", marks=pytest.mark.slow)]
)
def test_vmvx_computes_f32_ops_as_the_reference(labels, cases, build_all):
    # VMVX knows neither f16 nor bf16, and f64 only in part; see docs/dialect.md.
    chosen = [case for case in cases if re.fullmatch(labels, case.label)]
    every = build_all(chosen)
    vmvx = Compiled(build_all(chosen), "vmvx")
    for case in chosen:
        for sizes in case.size_choices():
            inputs = case.inputs(sizes)
            wanted = reference.evaluate(every, str(case), inputs)
            for got, want in zip(vmvx(str(case), inputs), wanted, strict=True):
                assert_close(got, want)


@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_compiled_vjps_equal_their_reference(most, structured_cases, differentiate):
    # Elementwise ops are left out: their derivatives are elementwise ops again. A
    # sample of each other op shows what IREE makes of its rule; `test_rules` has all.
    by_op = groupby(structured_cases, lambda case: case.op)
    cases = [case for _, found in by_op for case in [*found][:most]]
    every, lowered = new_module(), new_module()
    for case in cases:
        differentiate.build_vjp(case, every)
        differentiate.build_vjp(case, lowered)
    run_passes(lowered, ["simplify", "cse"])
    cpu = Compiled(lowered, "cpu")
    for case in cases:
        for sizes in case.size_choices():
            floats = [y for y in case.infer(sizes) if dtypes.is_float(y.dtype)]
            cotangents = [case.rng().standard_normal(y.shape) for y in floats]
            inputs = [*case.inputs(sizes), *cotangents]
            wanted = reference.evaluate(every, str(case), inputs)
            for got, want in zip(cpu(str(case), inputs), wanted, strict=True):
                assert_close(got, want)


def test_lowering_leaves_upstream_ops_only(cases, build_all):
    module = build_all(cases)
    run_passes(module, ["decompose", "lower-to-linalg"])
    require_upstream_only(module)


POSITIONS = {
    "taken": lambda x: anp.take(x[:, ::2], np.array([2, 0], "i4"), axis=0),
    "reversed": lambda x: x[:, ::-2],
    "transposed": lambda x: anp.flip(anp.transpose(x), 0),
    "column": lambda x: anp.flip(x[:, 1], 0),
    "shifted": lambda x: anp.concatenate([x[1:, ::3], x[:1, ::3]], 0),
}


def test_ops_that_compute_positions_read_slices_with_gaps():
    # IREE cannot compile a vector gather from a buffer whose last axis has a stride.
    every, lowered = new_module(), new_module()
    for module in (every, lowered):
        for name, function in POSITIONS.items():
            with context():
                trace = Trace(module, name, [Tensor((4, 9), "f32")], [])
            with trace.active():
                trace.finish([function(*trace.arguments)])
    cpu = Compiled(lowered, "cpu")
    x = np.arange(36, dtype="f").reshape(4, 9)
    for name in POSITIONS:
        (want,) = reference.evaluate(every, name, [x])
        assert_close(cpu(name, [x])[0], want)


SIZES = {
    "limits": lambda x, y: (x[:3], x[-3:], x[2:5], x[::-2], x[5:2:-1], y[-1]),
    "quotients": lambda x, y: anp.ones(
        (x.shape[0] // y.shape[0] + 1, x.shape[0] % y.shape[0])
    ),
    "parts": lambda x, y: (anp.array_split(x, 3)[1], anp.split(y, 2)[1]),
    "rolled": lambda x, y: anp.roll(x, 3, 0),
    "diagonals": lambda x, y: (anp.diagonal(x @ x.T), anp.diag(x[:, 0], -1)),
    "padded": lambda x, y: (
        anp.pad(y, ((2, 1), (0, 0)), "reflect"),
        anp.pad(y, 2, "wrap"),
    ),
}


def test_sizes_with_limits_and_quotients_are_computed():
    every, lowered = new_module(), new_module()
    contracts = [Contract("n"), Contract("m", 4, None, multiple_of=2)]
    for module in (every, lowered):
        with context():
            shapes = [(SymbolicDim.symbol(0), 4), (SymbolicDim.symbol(1) * 2, 4)]
            types = [Tensor(shape, "f32") for shape in shapes]
        for name, function in SIZES.items():
            trace = Trace(module, name, types, contracts)
            with trace.active():
                found = function(*trace.arguments)
                trace.finish([found] if isinstance(found, Array) else list(found))
    cpu = Compiled(lowered, "cpu")
    for n, m in ((1, 4), (2, 6), (13, 10)):
        arrays = [np.arange(4 * k, dtype="f").reshape(k, 4) for k in (n, m)]
        for name in SIZES:
            wanted = reference.evaluate(every, name, arrays)
            for got, want in zip(cpu(name, arrays), wanted, strict=True):
                assert_close(got, want)


FUNCTIONS = {
    "tan": anp.tan, "sinc": anp.sinc, "arcsin": anp.arcsin, "arccos": anp.arccos,
    "sinh": anp.sinh, "cosh": anp.cosh, "arccosh": anp.arccosh, "arctanh": anp.arctanh,
    "log2": anp.log2, "softplus": nn.softplus, "mish": nn.mish, "celu": nn.celu,
    "rint": anp.rint, "trunc": anp.trunc, "round": lambda x: anp.round(x, 1),
    "modf": lambda x: anp.modf(x)[0], "frexp": lambda x: anp.frexp(x)[0],
    "ldexp": lambda x: anp.ldexp(x, anp.frexp(x)[1]), "signbit": anp.signbit,
    "nextafter": lambda x: anp.nextafter(x, 1.0), "log_ndtr": special.log_ndtr,
    "copysign": lambda x: anp.copysign(3.0, x), "ndtri": special.ndtri,
    "remainder": lambda x: anp.remainder(x, -0.7), "entr": special.entr,
    "floor_divide": lambda x: anp.floor_divide(x, 0.1),
    "logaddexp": lambda x: anp.logaddexp(x, 2.0),
    "logaddexp2": lambda x: anp.logaddexp2(x, -x),
    "count": lambda x: anp.bitwise_count(anp.astype(x, "u8")),
    "zeros": lambda x: anp.count_leading_zeros(anp.astype(x, "i32")),
}  # fmt: skip


def test_elementwise_functions_compile_to_what_they_compute_at_once():
    every, lowered = new_module(), new_module()
    line = np.concatenate([edges("f64"), np.linspace(-9, 9, 37), [1e-8, 1e3, 88.9]])
    for module in (every, lowered):
        for name, function in FUNCTIONS.items():
            for dtype in ("f32", "f64"):
                with context():
                    types = [Tensor(line.shape, dtype)]
                    trace = Trace(module, f"{name}_{dtype}", types, [])
                with trace.active():
                    trace.finish([function(*trace.arguments)])
    cpu = Compiled(lowered, "cpu")
    for name in FUNCTIONS:
        for dtype in ("f32", "f64"):
            x = line.astype(dtypes.to_numpy(dtype))
            (want,) = reference.evaluate(every, f"{name}_{dtype}", [x])
            assert_close(cpu(f"{name}_{dtype}", [x])[0], want)
