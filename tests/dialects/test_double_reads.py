"""Values that one op reads along two axes: by rows and by columns, or flipped.

IREE merges what reads a reduction or a product into its loops, and takes both reads for
the same (Note [two reads of a reduction]). Every way to make a value meets every way to
read it, compiled for this processor and compared with the reference evaluator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc import numpy as anp
from aotc.backend import compile_targets
from aotc.dialects.functions.functions import functions_of
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.double_reads import reductions_reduced_again
from aotc.pipeline import lower
from aotc.tracing.assembly import trace
from tests.machines import require_runs_here

Function = Callable[[Any], Any]
WEIGHTS = np.linspace(-1, 2, 4, dtype="float32")

# vectors of n, from (n, k)
VECTORS: dict[str, Function] = {
    "sum": lambda x: anp.sum(x, 1),
    "sum_of_columns": lambda x: anp.sum(x.T, 0),
    "max": lambda x: anp.max(x, 1),
    "product": lambda x: x @ anp.ones(x.shape[1]),
    "exp_of_sum": lambda x: anp.exp(anp.sum(x, 1) / 4),
    "cumsum": lambda x: anp.cumsum(anp.sum(x, 1)),
    "softmax": lambda x: nn.softmax(anp.sum(x, 1)),
    "var": lambda x: anp.var(x, 1),
    "layer_norm": lambda x: nn.layer_norm(x)[:, 0],
}

# how they are read
OF_VECTORS: dict[str, Function] = {
    "outer": lambda s: anp.einsum("i,j->ij", s, s),
    "outer_of_another": lambda s: anp.einsum("i,j->ji", s, anp.exp(s)),
    "outer_of_tensordot": lambda s: anp.tensordot(s, s, 0),
    "outer_of_rows": lambda s: anp.einsum("ni,mj->ij", s[None], s[None]),
    "outer_in_batches": lambda s: anp.einsum(
        "bi,bj->bij", anp.stack([s, s * 2]), anp.stack([s, s * 3])
    ),
    "outer_of_three": lambda s: anp.einsum("i,j,k->ijk", s, s, s),
    "outer_in_half": lambda s: anp.einsum("i,j->ij", *[anp.astype(s, "f16")] * 2),
    "sum_of_outer": lambda s: anp.sum(anp.tensordot(s, s, 0) * anp.cos(s), 0),
    "outer_times_itself": lambda s: anp.tensordot(s, s, 0) @ s,
    "gradient_of_outer": aotc.grad(
        lambda s: anp.sum(anp.einsum("i,j->ij", s, s) * anp.sin(s))
    ),
    "dot": lambda s: anp.dot(s, s),
    "matmul": lambda s: s[:, None] @ s[None],
    "differences": lambda s: (s[:, None] - s) @ s,
    "softmax_of_outer": lambda s: nn.softmax(s[:, None] * s, 1) @ s[:, None],
    "rows_and_columns": lambda s: (s[:, None] * _square(s), s * _square(s)),
    "concatenate": lambda s: anp.concatenate([s[:, None] * _square(s), s * _square(s)]),
    "stack": lambda s: anp.stack([s[:, None] * _square(s), s * _square(s)]),
    "take": lambda s: s[:, None] * s[anp.argsort(s)],
    "flip": lambda s: (s * s[::-1], s[:, None] * s[::-1]),
    "roll": lambda s: s * anp.roll(s, 1),
    "convolve": lambda s: anp.convolve(s, s[::-1]),
    "scatter": lambda s: _square(s).at[anp.argsort(s)].add(s * _square(s)) * s[:, None],
    "diagonal": lambda s: anp.diag(s) * s[:, None],
}

# matrices of (n, 4), from (n, k)
MATRICES: dict[str, Function] = {
    "sum": lambda x: anp.sum(anp.sin(x[:, None] * WEIGHTS[:, None]), 2),
    "max": lambda x: anp.max(x[:, None] * WEIGHTS[:, None], 2),
    "product": lambda x: x @ anp.ones((x.shape[1], 4)) * WEIGHTS,
    "relu_of_product": lambda x: nn.relu(x @ anp.ones((x.shape[1], 4)) * WEIGHTS),
    "softmax": lambda x: nn.softmax(x[:, :4], 1),
    "softmax_of_columns": lambda x: nn.softmax(x[:, :4], 0),
    "cumsum": lambda x: anp.cumsum(x[:, :4], 1),
    "layer_norm": lambda x: nn.layer_norm(x[:, :4]) + WEIGHTS,
}

OF_MATRICES: dict[str, Function] = {
    "outer_of_rows": lambda r: anp.einsum("bi,bj->bij", r, anp.exp(r)),
    "outer_of_columns": lambda r: anp.einsum("bi,ci->bci", r, r),
    "outer": lambda r: anp.einsum("bi,cj->bcij", r, r),
    "gradient_of_outer": aotc.grad(
        lambda r: anp.sum(anp.tanh(anp.einsum("bi,bj->bij", r, r)))
    ),
    "products_of_rows": lambda r: (r @ r.T, r @ anp.exp(r).T),
    "products_of_columns": lambda r: r.T @ r,
    "sums_of_squares": lambda r: (anp.sum(r * r), anp.einsum("ij,ij->i", r, r)),
    "differences": lambda r: (
        r[:, None] - r,
        anp.sum((r[:, None] - r) ** 2, -1),
    ),
    "attention": lambda r: nn.softmax(r @ r.T) @ r,
    "attention_of_heads": lambda r: nn.attention(*[r[None, :, None]] * 3),
    "transposed": lambda r: (anp.exp(r), anp.exp(r).T, anp.sum(r, 0)),
    "margins": lambda r: anp.sum(r, 1)[:, None] * anp.sum(r, 0),
    "centred": lambda r: r - anp.mean(r, 0) - anp.mean(r, 1, keepdims=True),
    "take": lambda r: anp.take(r, anp.argsort(r[:, 0]), 0) * r,
    "scatter": lambda r: r.at[anp.argsort(r[:, 0])].add(r),
    "conv": lambda r: nn.conv2d(r[None, :, None], anp.ones((1, 1, 4, 3))),
    "sums_from_the_end": lambda r: anp.cumsum(r, 0) * r[::-1],
    "sort": lambda r: anp.sort(r, 0) * r,
}

# of those that are tried at every run; the others with -m slow
SHORT = {"sum", "product"}
SIZES: Sequence[tuple[Any, int]] = [(6, 5), ("n", 5), (37, 19), (64, 128)]


def _square(s: Any) -> Any:
    return anp.ones((s.shape[0], s.shape[0]))


def _programs(shape: tuple[Any, int], makers: set[str]) -> dict[str, Function]:
    """Every reader of every value, by a name."""
    pairs = [("vector", VECTORS, OF_VECTORS), ("matrix", MATRICES, OF_MATRICES)]
    return {
        f"{reader}_of_{kind}_{maker}": lambda x, make=make, read=read: read(make(x))
        for kind, values, readers in pairs
        for maker, make in values.items()
        if maker in makers
        for reader, read in readers.items()
    }


def _entries(shape: Sequence[Any], programs: dict[str, Function]) -> list[Any]:
    found = []
    for name, function in programs.items():
        function.__name__ = name
        found.append(aotc.entry(x=aotc.Spec(shape, "f32"))(function))
    return found


def _wrong_programs(
    target: Target, level: int, shape: tuple[Any, int], makers: set[str]
) -> dict[str, float]:
    """How far off the compiled programs are that are not what they should be."""
    entries = _entries(shape, _programs(shape, makers))
    evaluated = trace(entries, {}).module
    run_passes(evaluated, ["autodiff", "inline"])
    program = trace(entries, {})
    program.level = level
    (variant,) = compile_targets(lower(program, target), [target])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    compiled = iree.load_vm_module(code, config)
    x = np.random.default_rng(0).normal(size=[s if s != "n" else 9 for s in shape])
    x = x.astype("float32")
    wrong = {}
    for entry in entries:
        name = entry.name
        got = getattr(compiled, name)(x)
        got = got if isinstance(got, (list, tuple)) else [got]
        for one, want in zip(
            got, reference.evaluate(evaluated, name, [x]), strict=True
        ):
            slack = 4e-3 if want.dtype == np.float16 else 1e-4
            scale = np.abs(want) + np.max(np.abs(want), initial=1e-30)
            error = float(np.max(np.abs(np.asarray(one) - want) / scale, initial=0))
            if not error <= slack:
                wrong[name] = error
    return wrong


# what a module says, and how many of the reductions stay apart from their readers
SUMS_OF_SUMS: dict[str, tuple[Function, Sequence[Any], int]] = {
    "loss": (lambda x: -anp.sum(anp.exp(x), 2), ("n", 8, 16), 1),
    "turned": (lambda x: anp.sum(x, 2).T, ("n", 8, 16), 1),
    "in_f64": (lambda x: anp.astype(anp.max(x, 2), "f64"), ("n", 8, 16), 1),
    "logsumexp": (lambda x: nn.logsumexp(x, 2), ("n", 8, 16), 1),
    "fixed": (lambda x: anp.sum(x, 2), (4, 8, 16), 0),
    "one_axis": (lambda x: anp.sum(x, 1), ("n", 16), 0),
    "softmax": (lambda x: nn.softmax(x, 2), ("n", 8, 16), 0),
    "product": (lambda x: anp.sum(x @ x.T, 1), ("n", 16), 1),
    "product_by_a_weight": (lambda x: anp.sum(x @ x.T[:, :4], 1), (5, 16), 0),
}


@pytest.mark.parametrize("name", SUMS_OF_SUMS)
def test_what_is_summed_along_symbolic_and_fixed_axes_again_stays_apart(name):
    function, shape, count = SUMS_OF_SUMS[name]
    (found,) = _entries(shape, {"total": lambda x: anp.sum(function(x))})
    module = trace([found], {}).module
    run_passes(module, ["autodiff", "inline"])
    block = functions_of(module)["total"].entry_block
    assert len(reductions_reduced_again(block)) == count


@pytest.mark.parametrize("level", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_value_read_along_two_axes_is_the_value(level):
    assert not _wrong_programs(Target.parse("cpu"), level, (6, 5), SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("target", ["x86_64-v3", "x86_64-v4"])
@pytest.mark.parametrize("level", [0, 2])
def test_every_value_read_in_every_way_is_the_value(level, target, shape):
    compiled_for, makers = Target.parse(target), {*VECTORS, *MATRICES}
    require_runs_here(compiled_for)
    assert not _wrong_programs(compiled_for, level, shape, makers)
