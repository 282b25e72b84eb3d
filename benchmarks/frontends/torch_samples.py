"""One sample of PyTorch's operator database through the importer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotc.complexes import Complex
from aotc.errors import AotcError, InputError
from aotc.importers.common.imported import Imported
from aotc.importers.torch.exporting import decompose, export_program
from aotc.importers.torch.network import import_obstacles, network_of
from aotc.importers.torch.tensors import array_of, numpy_of
from aotc.tracing.findings import OpFinding

# from best to worst
VERDICTS = ("pass", "not exportable", "unsupported", "WRONG")

# relative, and absolute for values of magnitude 1
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.bfloat16: (2e-2, 1e-2),
    torch.float16: (2e-3, 1e-3),
}


def upright(factors: Any) -> Any:
    """Return QR factors with signs chosen so that R's diagonal is not negative."""
    q, r = factors
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(r.dtype)
    count = sign.shape[-1]
    q = torch.cat([q[..., :count] * sign[..., None, :], q[..., count:].abs()], -1)
    return q, torch.cat([r[..., :count, :] * sign[..., None], r[..., count:, :]], -2)


def values(found: Any) -> Any:
    """Return the values of a (values, indices) pair, as ties have no order."""
    return found[0]


# results that are not unique → what is of them
UNIQUE: dict[str, Callable[..., Any]] = {
    "qr": upright,
    "linalg.qr": upright,
    "topk": values,
    "kthvalue": values,
}

# what their results are is not defined
UNDEFINED = ("empty", "new_empty")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one sample of an op.

    Args:
        verdict: one of VERDICTS.
        op: the ATen op that stands in the way.
        reason: why it does, or how the result differs.
        ops: of the graph that torch.export made, before and after decompositions.
        case: the sample, if it passed.
        written: the numbers of the inputs that the op writes to.
    """

    verdict: str
    op: str = ""
    reason: str = ""
    ops: frozenset[str] = frozenset()
    case: Case | None = field(default=None, compare=False)
    written: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """A sample that passed, with the reference evaluator's results, to be compiled."""

    name: str
    network: Leaves
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[Any]
    rtol: float = 1e-4
    atol: float = 1e-5


@dataclass(frozen=True)
class Leaves:
    """An imported network that returns its results as a flat list."""

    imported: Imported

    @property
    def weights(self) -> Any:
        """The weights of the network."""
        return self.imported.weights

    def __call__(self, *args: Any) -> dict[str, Any]:
        """Call the network; return its results as a dict by number."""
        found = pytree.tree_leaves(self.imported(*args))
        return {str(number): each for number, each in enumerate(found)}


# ---- calls --------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A placeholder for a tensor in a call's arguments, by number."""

    number: int


class Call(torch.nn.Module):
    """A module that calls an op with its tensors as inputs and all else fixed.

    Tensors whose numbers are in `stored` are buffers: what the op writes to, such as
    the statistics of a normalization.
    """

    def __init__(self, op: Callable[..., Any], sample: Any, stored: Any = ()):
        super().__init__()
        self.op = op
        self.tensors: list[torch.Tensor] = []
        parts = (sample.input, *sample.args), sample.kwargs
        self.args, self.kwargs = pytree.tree_map(self._taken, parts)
        every = range(len(self.tensors))
        self.places = [number for number in every if number not in stored]
        for number in stored:
            self.register_buffer(f"tensor_{number}", self.tensors[number].clone())

    def _taken(self, part: Any) -> Any:
        """Return a numbered `Slot` in place of a tensor, which is stored; others as
        they are.
        """
        if not isinstance(part, torch.Tensor):
            return part
        self.tensors.append(part.detach().clone())
        return Slot(len(self.tensors) - 1)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the op's result for these input tensors."""
        given = dict(zip(self.places, tensors, strict=True))
        every = range(len(self.tensors))
        return self.result(
            [given[n] if n in given else getattr(self, f"tensor_{n}") for n in every]
        )

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The tensors that are inputs, not buffers."""
        return [self.tensors[number] for number in self.places]

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Call the op with these tensors in the slots."""

        def given(part: Any) -> Any:
            return tensors[part.number] if isinstance(part, Slot) else part

        args, kwargs = pytree.tree_map(given, (self.args, self.kwargs))
        return self.op(*args, **kwargs)


# ---- outcomes -----------------------------------------------------------------------


def outcome(info: Any, sample: Any) -> Outcome:
    """Export, import and compare one sample of an op."""
    found = _outcome(info, sample, Call(info.op, sample))
    if not found.written:
        return found
    return _outcome(info, sample, Call(info.op, sample, found.written))


def _outcome(info: Any, sample: Any, call: Call) -> Outcome:
    """Export, import and compare a sample's call."""
    inputs = [tensor.clone() for tensor in call.inputs]
    try:
        program = export_program(call, tuple(inputs), None, None)
    except InputError as error:
        return Outcome("not exportable", reason=short(error))
    ops = called(program)
    try:
        program = decompose(program)
        ops |= called(program)
        found = import_obstacles(program)
        if found:
            numbers = written(found)
            return Outcome("unsupported", found[0].op, found[0].reason, written=numbers)
        network = network_of(program)
        result = network(*stored_in(network), *map(array_of, call.inputs))
    except AotcError as error:
        return Outcome("unsupported", "", short(error))
    if network.state is not None:
        _, result = result
    leaves = list(map(as_tensor, leaves_of(result)))
    why = difference(info, sample, call, leaves)
    if why:
        return Outcome("WRONG", reason=why)
    return Outcome("pass", ops=ops, case=case_of(network, call.inputs, leaves))


def written(found: Sequence[OpFinding]) -> tuple[int, ...]:
    """Return the numbers of the inputs that an exported program mutates."""
    places = [p for each in found if each.op == "mutation" for p in each.places]
    return tuple(int(place.removeprefix("tensors_")) for place in places)


def stored_in(network: Imported) -> list[Any]:
    """Return the weights and state trees of an imported network."""
    return [each.tree for each in (network.weights, network.state) if each is not None]


def called(program: ExportedProgram) -> frozenset[str]:
    """Return the ops that an exported program calls."""
    nodes = program.graph.nodes
    return frozenset(str(n.target) for n in nodes if n.op == "call_function")


def case_of(
    network: Imported, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]
) -> Case | None:
    """Return a sample to compile alone; None for complex numbers and states."""
    is_complex = any(tensor.is_complex() for tensor in (*inputs, *results))
    if is_complex or network.state is not None:
        return None
    arrays = [[np.asarray(numpy_of(x)) for x in part] for part in (inputs, results)]
    return Case("", Leaves(network), *arrays)


def leaves_of(result: Any) -> list[Any]:
    """Return a result's leaves as a list."""
    return pytree.tree_leaves(result, lambda part: isinstance(part, Complex))


def as_tensor(array: Any) -> torch.Tensor:
    """Return a result array as a tensor."""
    if isinstance(array, Complex):
        return torch.complex(as_tensor(array.real), as_tensor(array.imag))
    data = np.array(array)
    if data.dtype.name == "bfloat16":
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def short(error: BaseException) -> str:
    """Return the first line of an error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:160]


# ---- comparison ---------------------------------------------------------------------


def difference(info: Any, sample: Any, call: Call, found: Sequence[Any]) -> str | None:
    """Describe how the results differ from PyTorch's by more than their rounding.

    What is not unique (the signs of eigenvectors, …) is compared as the database says
    that it should be. A result that is further away from PyTorch's may be no further
    from the one in float64.
    """
    expected, form = pytree.tree_flatten(
        call.result([tensor.clone() for tensor in call.tensors])
    )
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for one, other in zip(found, map(torch.as_tensor, expected), strict=True):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"{one.dtype}{list(one.shape)}, not {other.dtype}{list(other.shape)}"
    if info.name.startswith(UNDEFINED):
        return None
    process = UNIQUE.get(info.name, sample.output_process_fn_grad)
    ours, theirs = (
        pytree.tree_leaves(process(pytree.tree_unflatten(leaves, form)))
        for leaves in (found, expected)
    )
    worst = [why for pair in zip(ours, theirs, strict=True) if (why := distance(*pair))]
    if not worst or is_as_exact(call, process, ours, theirs):
        return None
    return worst[0]


def distance(one: Any, other: Any) -> str | None:
    """Describe how two results differ by more than rounding; empty if they do not."""
    one, other = torch.as_tensor(one), torch.as_tensor(other)
    rtol, atol = TOLERANCES.get(other.dtype, (0.0, 0.0))
    finite = other[torch.isfinite(other)]
    largest = max(1.0, float(finite.abs().max())) if atol and len(finite) else 1.0
    try:
        torch.testing.assert_close(
            one, other, rtol=rtol, atol=atol * largest, equal_nan=True
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return None


def is_as_exact(
    call: Call, process: Callable[..., Any], ours: Sequence[Any], theirs: Sequence[Any]
) -> bool:
    """Return whether aotc's results are about as near to f64 results as PyTorch's."""
    wide = [x.double() if x.is_floating_point() else x for x in call.tensors]
    try:
        exact = pytree.tree_leaves(process(call.result(wide)))
    except RuntimeError:  # it has arguments that fix the dtype
        return False
    if not all(torch.as_tensor(real).is_floating_point() for real in exact):
        return False
    return all(
        bool(error(one, real) <= 4 * error(other, real))
        for one, other, real in zip(ours, theirs, exact, strict=True)
    )


def error(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return the norm of the difference; infinite if they differ in non-finite
    elements.
    """
    found = found.to(exact.dtype)
    special = ~torch.isfinite(exact)
    if not torch.equal(found[special].nan_to_num(), exact[special].nan_to_num()):
        return torch.tensor(torch.inf)
    return (found - exact)[~special].abs().square().sum().sqrt()
