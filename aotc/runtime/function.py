"""Exports of a module as functions of arrays that check their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import iree.runtime as iree

from aotc.artifacts.call_guards import CODE, device_guard
from aotc.artifacts.manifest import Code, Leaf
from aotc.core.printing import failed_assertion
from aotc.errors import AotcError, InputError, SetupError, VerificationError
from aotc.runtime import buffers, lifetime
from aotc.runtime.call_counts import FunctionCallCounters, ShapeCounts
from aotc.runtime.contract import CallContract, Shapes, leaf_bytes
from aotc.runtime.foreign_tensors import DlpackTensor
from aotc.runtime.host_arrays import Array
from aotc.runtime.module import LoadedModule
from aotc.runtime.padding import SIZES, CallPadding
from aotc.runtime.signatures import require_signature
from aotc.runtime.transfers import Transfers

if TYPE_CHECKING:
    from aotc.runtime.iree_types import VmFunction, VmVariantList

_BufferView, _VariantList = iree.HalBufferView, iree.VmVariantList
_NO_RESULT = "access list element"  # in what IREE says of a list that is too short
_FAILURES = (RuntimeError, ValueError, MemoryError, IndexError)
_REMEMBERED = 256  # shapes of calls


class NoCodeForSizes(InputError):
    """Raised for a call with sizes that no code of the entry supports.

    Args:
        message: for people.
        sizes: of the call, by name of the symbol.
    """

    def __init__(self, message: str, sizes: Mapping[str, int]) -> None:
        super().__init__(
            "no-code-for-sizes",
            message,
            hint="the model was built for these sizes alone: see the policy of its "
            "sizes (aotc inspect)",
            guard=CODE,
        )
        self.sizes = sizes


class _CallPlan(NamedTuple):
    """Plan for calls of certain shapes: the export, padding, and counters.

    Args:
        export: that computes them.
        likeness: what equals that of other calls which take the same memory.
        padding: of the calls, where the export wants it.
        counts: what they add to the counters.
        moved: bytes of their inputs and results.
    """

    export: VmFunction
    likeness: Hashable
    padding: CallPadding | None
    counts: ShapeCounts
    moved: int


class Prepared(NamedTuple):
    """A checked call, its arguments on the device, ready to be invoked.

    `began` (of `perf_counter_ns`) is when its time does. `is_lent` says that some of
    the arguments are tensors of a GPU, so that results stay there.
    """

    plan: _CallPlan
    arguments: VmVariantList
    began: int
    is_lent: bool = False


class ExportedFunction:
    """An exported function that takes and returns flat arrays, and checks its inputs.

    Args:
        code: that exports it.
        owner: how messages call the function.
        codes: the exports that make it up, each for calls of other sizes.
        contract: of its inputs.
        outputs: what it returns.
        pure: it neither reads nor changes a state. Then large inputs are used in place
            and results are views; otherwise both are copied, because a later call may
            write to memory that the module still holds.
        choose: the code for a call, by the value of each symbol, or None if there is
            none; by default the first.
        counts: what counts its calls; by default nothing does.
    """

    def __init__(
        self,
        code: LoadedModule,
        owner: str,
        codes: Sequence[Code],
        contract: CallContract,
        outputs: Sequence[Leaf],
        pure: bool,
        choose: Callable[[Mapping[str, int]], Code | None] | None = None,
        counts: FunctionCallCounters | None = None,
    ) -> None:
        self._owner = owner
        self._contract = contract
        self._pure = pure
        self._expect = code.expect
        self._has_pool = code.has_pool
        self._lock = code.lock
        self._copying = code.copying
        self._invoke = code.invoke
        self._take_error = code.take_error
        leaves = [spec.leaf for spec in contract.inputs]
        self._exports = {
            x.export: _look_up(code, owner, x, leaves, outputs) for x in codes
        }
        self._choose = choose or (lambda _: codes[0])
        self._plans: dict[Hashable, _CallPlan] = {}
        self._codes, self._outputs = codes, outputs
        self._counts = counts or FunctionCallCounters()
        self._counts.end_with(self)
        self._give_back = code.memory.give_back
        self._inputs = leaves
        given = (*leaves, SIZES)
        self._transfers: Transfers | None = None
        if not code.on_cpu:
            self._transfers = Transfers(
                code.device,
                code.gpu,
                given,
                outputs,
                pure,
                staged=code.memory.is_kept,
            )
        self._senders = [buffers.sender(code.device, x) for x in given]
        readers = [buffers.viewer(code.device, leaf) for leaf in outputs]
        self._readers = list(enumerate(readers))

    def __call__(self, values: Sequence[object]) -> list[Any]:
        """Check and convert `values`, run, and return the results.

        Raises:
            InputError: an input breaks the contract, and nothing has run; or one of the
                model's own assertions failed.
            SetupError: `out-of-memory`, or `run-failed` if the device gives up.
        """
        return self.invoke(self.prepare(values))

    def prepare(self, values: Sequence[object]) -> Prepared:
        """Check the inputs and copy them to the device; return a call ready to run.

        The copying waits for no other call, so that it overlaps with one that runs in
        another thread. A tensor that lies on the device may be used there, and must not
        change before the call has run.
        """
        began = perf_counter_ns()
        if self._has_pool:
            lifetime.require_pool()
        arrays, shapes = self.check(values)
        if self._transfers is not None:
            return self._prepare_transfers(arrays, shapes, began)
        plan = self._plans.get(shapes) or self._plan_for(shapes)
        try:
            if plan.padding is not None:
                arrays = plan.padding.pad(arrays)
            self._expect(plan.likeness)
            with self._copying:
                return Prepared(plan, self._arguments(arrays), began)
        except _FAILURES as error:
            raise self._diagnose(error) from error

    def _prepare_transfers(
        self, arrays: Sequence[Array | DlpackTensor], shapes: Shapes, began: int
    ) -> Prepared:
        """Prepare a call on a device whose memory is not the host's."""
        assert self._transfers is not None
        lent = tuple([isinstance(array, DlpackTensor) for array in arrays])
        key = (shapes, lent) if any(lent) else shapes
        plan = self._plans.get(key) or self._plan_for(shapes, lent)
        try:
            if plan.padding is not None:
                if any(lent) and plan.padding.shapes != shapes:
                    raise self._padding_error(lent, plan.padding)
                arrays = plan.padding.pad(arrays)
            self._expect(plan.likeness, plan.moved)
            with self._copying:
                arguments = self._transfers.send(arrays)
            return Prepared(plan, arguments, began, any(lent))
        except _FAILURES as error:
            raise self._diagnose(error) from error

    def check(self, values: Sequence[object]) -> tuple[list[Any], Shapes]:
        """Convert the inputs and raise if they violate the contract; return arrays and
        shapes.

        Raises:
            InputError: an input breaks the contract.
            SetupError: `out-of-memory`.
        """
        try:
            return self._contract.arrays(values)
        except InputError as error:
            self._counts.refuse(error)
            raise
        except MemoryError as error:
            raise self._diagnose(error) from error

    def _plan_for(self, shapes: Shapes, lent: Sequence[bool] = ()) -> _CallPlan:
        """Return a plan of how calls of these shapes are computed, and remember it;
        raise if no code takes them.

        Args:
            shapes: of the inputs.
            lent: which of them are tensors on the device, so that nothing is copied.
        """
        sizes = self._contract.sizes(shapes)
        code = self._choose(sizes)
        if code is None:
            error = self._no_code_error(sizes)
            self._counts.refuse(error)
            raise error
        itemsizes = [spec.dtype.itemsize for spec in self._contract.inputs]
        if any(lent):
            sizes_and_lent = zip(itemsizes, lent, strict=True)
            itemsizes = [0 if is_lent else size for size, is_lent in sizes_and_lent]
        export, padding = self._exports[code.export], None
        likeness: Hashable = id(self), shapes
        if code.padded:
            padding = CallPadding(code, self._inputs, self._outputs, sizes)
            free = tuple(sizes[name] for name in sizes.keys() - code.sizes.keys())
            likeness = id(self), code.export, free
        if any(lent):
            likeness = likeness, "lent"
        computed = padding.shapes if padding else shapes
        counts = self._counts.for_shapes(code.export, itemsizes, shapes, computed)
        pairs = zip(itemsizes, shapes, strict=True)
        moved = sum(size * math.prod(shape) for size, shape in pairs)
        moved += sum(leaf_bytes(leaf, sizes) for leaf in self._outputs)
        plan = _CallPlan(export, likeness, padding, counts, moved)
        if len(self._plans) >= _REMEMBERED:
            self._plans.clear()
        self._plans[(shapes, lent) if any(lent) else shapes] = plan
        return plan

    def _padding_error(self, lent: Sequence[bool], padding: CallPadding) -> InputError:
        """Return the error for a tensor on the GPU where calls have to be padded; count
        the refused call.
        """
        name = self._inputs[lent.index(True)].name
        shapes = ", ".join(str([*shape]) for shape in padding.shapes)
        error = InputError(
            "input-device",
            f"{self._owner}: input {name!r}: expected arrays on the host, "
            "where calls of these sizes are padded; got a tensor on the GPU",
            hint=f"pad them on the GPU before the call, to {shapes}, or copy them to "
            "the host",
            guard=device_guard(name),
        )
        self._counts.refuse(error)
        return error

    def _no_code_error(self, sizes: Mapping[str, int]) -> NoCodeForSizes:
        """Return the error for sizes without code."""
        got = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        known = "; ".join(map(str, self._codes))
        return NoCodeForSizes(
            f"{self._owner}: expected sizes that there is code for ({known}), got "
            f"{got}",
            sizes,
        )

    def _arguments(self, arrays: Sequence[Array]) -> VmVariantList:
        """Copy host arrays to the device; return the argument list."""
        arguments: VmVariantList = _VariantList(len(arrays))
        for send, array in zip(self._senders, arrays, strict=False):
            arguments.push_ref(send(array))
        return arguments

    def invoke(self, call: Prepared) -> list[Any]:
        """Run a prepared call; return its results as arrays, or as `DeviceArray`."""
        results = _VariantList(len(self._readers))
        try:
            with self._lock:
                self._invoke(call.plan.export, call.arguments, results)
                if self._transfers is not None:
                    return self._transfer_results(self._transfers, call, results)
                get = results.get_as_object
                arrays = [read(get(i, _BufferView)) for i, read in self._readers]
                if call.plan.padding is not None:
                    arrays = call.plan.padding.cut(arrays)
                if not self._pure:
                    # The next call may overwrite what a stateful function returned.
                    arrays = [array.copy() for array in arrays]
                call.plan.counts.add(perf_counter_ns() - call.began, arrays)
                return arrays
        except _FAILURES as error:
            raise self._diagnose(error) from error

    def _transfer_results(
        self, transfers: Transfers, call: Prepared, results: VmVariantList
    ) -> list[Any]:
        """Return the results of a call on a GPU: copied to the host, or kept there.

        All are copies: the next call may overwrite what a stateful function returned.
        """
        get = results.get_as_object
        views = [get(i, _BufferView) for i, _ in self._readers]
        if call.is_lent:  # and so in the very sizes of the code
            kept = transfers.keep(views)
            call.plan.counts.add(perf_counter_ns() - call.began, [])
            return kept
        arrays = transfers.fetch(views)
        if call.plan.padding is not None:
            arrays = call.plan.padding.cut(arrays)
        call.plan.counts.add(perf_counter_ns() - call.began, arrays)
        return arrays

    def count_elsewhere(
        self,
        policy: str,
        values: Sequence[object],
        results: Sequence[Array],
        began: int,
    ) -> None:
        """Count a call that was computed by another entry or callback."""
        _, shapes = self._contract.arrays(values)
        itemsizes = [spec.dtype.itemsize for spec in self._contract.inputs]
        counts = self._counts.for_shapes(policy, itemsizes, shapes)
        with self._lock:
            counts.add(perf_counter_ns() - began, results)

    def _diagnose(self, error: Exception) -> AotcError:
        """Convert an exception of a call to an `AotcError`, and count the failure."""
        diagnosed = self._diagnosis(error)
        self._counts.fail(diagnosed)
        return diagnosed

    def _diagnosis(self, error: Exception) -> AotcError:
        """Convert an exception of a call to an `AotcError`; raise a callback's own."""
        raised = self._take_error()  # by what the code has called
        if isinstance(raised, AotcError):
            return raised
        if raised is not None:
            raise raised
        first_line = str(error).partition("\n")[0]
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in first_line:
            self._give_back()
            return SetupError(
                "out-of-memory",
                f"{self._owner}: this machine has not the memory that the call needs",
                hint="call it with smaller inputs, or free some memory",
            )
        # IREE's status OUT_OF_RANGE is an IndexError, whatever is out of range
        if isinstance(error, IndexError) and _NO_RESULT in first_line:
            return VerificationError(
                "result-mismatch",
                f"{self._owner}: the manifest promises {len(self._outputs)} results, "
                "the module returned fewer",
                hint="the bundle was put together wrongly: build it again",
            )
        return failed_assertion(str(error)) or SetupError(
            "run-failed", f"{self._owner}: {first_line}"
        )


def _look_up(
    module: LoadedModule,
    owner: str,
    code: Code,
    inputs: Sequence[Leaf],
    outputs: Sequence[Leaf],
) -> VmFunction:
    """Return the module's exported function for a code; raise if its signature differs.

    Raises:
        VerificationError: `entry-missing`, `module-mismatch`.
    """
    function = module.module.lookup_function(code.export)
    if function is None:
        raise VerificationError(
            "entry-missing", f"the module does not export {code.export!r}", where=owner
        )
    told = replace(SIZES, shape=(*code.told, 0))
    require_signature(
        function, code, [*inputs, told] if code.padded else inputs, outputs
    )
    return function
