"""Small programs that IREE computes wrongly, or refuses, unless lowered with care.

Every program is compiled in one module and compared with the reference evaluator.
"""

from collections.abc import Callable
from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import control, debug, nn, reference
from aotc import numpy as anp
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import lower
from aotc.tracing.assembly import trace

rng = np.random.default_rng(0)
b = aotc.Dim("b", min=1)

TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "i32": 0.0, "i8": 0.0, "u8": 0.0, "bool": 0.0}

Program = tuple[Callable[..., Any], aotc.Spec, str]
PROGRAMS: dict[str, Program] = {}


def program(
    *shape: Any, dtype: str = "f32", target: str = "cpu"
) -> Callable[[Any], Any]:
    """Adds a function of one array of this shape to the programs for a target."""

    def add(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, aotc.Spec(shape, dtype), target)
        return function

    return add


# ---- Note [two reads of a reduction]: by rows and by columns ------------------------


@program(6, 5)
def outer_product_of_sums(x):
    s = anp.sum(x, 1)
    return s[:, None] * s, s * s[:, None], s[:, None] * anp.exp(s)


@program(6, 5)
def outer_comparison_of_positions(x):
    s = anp.argmax(x, 1)
    return s[:, None] == s, anp.where(s[:, None] > s, s, 0)


@program(6, 5)
def outer_product_of_maxima(x):
    s = anp.max(x, 1)
    return s[:, None] * s


@program("b", 5)
def outer_product_of_columns(x):
    s = anp.sum(x, 0)
    return s[:, None] * s


@program(64, 128)
def outer_product_of_products(x):
    s = x @ x[0] / 16
    return s[:, None] * s


@program(6, 5)
def distances_of_all_pairs(x):
    s = anp.sum(x * x, 1)
    return s[:, None] + s - 2 * (x @ x.T)


@program(6, 6)
def softmax_and_its_transpose(x):
    s, h = nn.softmax(x), nn.layer_norm(x)
    return s.T + s, h.T + h


@program(6, 5, dtype="i32")
def outer_product_of_integers(x):
    s = anp.sum(x, 1)
    return s[:, None] * s


# ---- Note [sums of all of a product]: whose sizes only calls decide -----------------


@program("b", 5)
def means_of_all_of_products(x):
    gram = (x @ x.T) * 0.5
    return anp.mean(gram), anp.max(anp.exp(gram)), anp.sum(gram, 0), anp.sum(x.T @ x)


@program("b", 5)
def mean_of_all_of_a_product(x):
    return anp.mean(x @ x.T)  # which nothing else reads


@program("b", 5)
def sums_of_sums_of_a_product(x):
    return anp.trace(x @ x.T), anp.sum(anp.exp(anp.sum(x @ x.T, 1) / 9))


@program(2, "b", 5)
def sums_of_batches_of_products(x):
    gram = x @ anp.swapaxes(x, 1, 2)
    return anp.sum(gram, (1, 2)), anp.sum(gram, (0, 2)), anp.min(gram)


# ---- Note [sums of parts of unknown size]: elementwise ops after them, on vmvx ------


@program(b, 9, 6, 4, target="vmvx")
def sums_before_elementwise_ops(x):
    lines = anp.arange(1.0, 10.0)[:, None, None]
    depthwise = nn.conv2d(x, anp.ones((2, 2, 1, 4)), groups=4)
    pooled = anp.reshape(nn.max_pool(x, 2), (x.shape[0], -1))
    return x @ anp.ones((4, 8)) * lines, nn.relu(depthwise), nn.relu(pooled)


@program(b, 6, 5, 8, target="vmvx")
def padded_beside_its_source(x):
    levels = anp.clip(anp.round(x * 16.0 + 120.0), 0, 255)
    padded = anp.pad((levels - 120.0) / 16.0, [(0, 0), (0, 1), (0, 1), (0, 0)])
    return anp.round(padded * 8.0), (levels - 120.0) / 16.0


# ---- Note [integers that wrap]: and are looked at by their sign, on vmvx ------------


@program(b, 6, dtype="i8", target="vmvx")
def integers_that_wrap_by_their_sign(x):
    x = x + 20 * anp.arange(6).astype("i8")
    twice, high = x + x, anp.left_shift(x, 4)
    nibbles = anp.right_shift(high, 4).astype("f32")
    largest = anp.maximum(anp.reshape(3 * x, (-1,)), 0)
    return twice > 0, nibbles, largest, anp.minimum(x * x, x), twice.astype("f32")


# ---- Note [strided reads]: a slice that ends at the end, and another reader ---------


@program(3, 5)
def strided_slice_beside_its_source(x):
    h = x * 2
    return anp.concatenate([anp.sin(h[:, ::2]), h], axis=1)


@program(3, 5)
def strided_slices_of_one_source(x):
    h = x * 2
    return anp.sin(h[:, ::2]), h[:, ::4] + 1, h[:, 1::2], h[::2], h[:, ::-2], h


@program(5)
def strided_slice_of_a_vector(x):
    h = anp.tanh(x)
    return h[::2] * 3, h[:, None] * h


@program(3, 5)
def strided_update_beside_its_source(x):
    h = x * 2
    return h.at[:, ::2].add(1.0), h.at[:, ::2].set(1.0) * h, h


@program(3, 5)
def gradients_of_strided_updates(x):
    def loss(x):
        h = x * 2
        return anp.sum(anp.sin(h.at[:, ::2].multiply(3.0) * h[:, ::-1]))

    return aotc.grad(loss)(x), aotc.grad(lambda x: loss(x) + anp.sum(x[:, ::2]))(x)


@program(b, 5)
def strided_slice_of_symbolic_rows(x):
    h = x * 2
    return anp.sin(h[:, ::2]), h


# ---- Note [widened reads]: of any number of rows, in steps ---------------------------


@program(b, 9, 10, 8, dtype="i8")
def windows_of_one_in_steps_over_small_integers(x):
    kernel = anp.asarray(np.arange(64, dtype="i1").reshape(1, 1, 8, 8))
    return nn.integer_conv(x, kernel, strides=2)


@program(b, 16, 8, dtype="i8")
def products_of_every_second_widened_row(x):
    kernel = anp.asarray(np.arange(24, dtype="i4").reshape(8, 3))
    return anp.astype(x, "i32")[:, ::2] @ kernel


@program(b, 16, 4, dtype="u8")
def groups_of_lines_of_dequantised_numbers(x):
    lines = nn.dequantize(x, np.float32(0.25), np.uint8(95))
    return nn.conv1d(lines, np.arange(36, dtype="f").reshape(3, 2, 6), groups=2)


# ---- Note [sums of what does not vary]: nothing in memory has the reduced axis ------


@program(b, 4)
def reductions_of_repeated_numbers(x):
    ones = anp.ones(x.shape)
    return (
        anp.sum(ones, axis=1),
        anp.mean(ones, axis=0),
        anp.prod(ones * 1.5, axis=1),
        anp.max(anp.full(x.shape, 1.5), axis=0),
        anp.sum(~anp.zeros(x.shape, "i32")),
        anp.argmax(ones, axis=1),
        anp.cumsum(ones, axis=0),
        x.sum(1) / anp.ones(x.shape[:2]).sum(1, keepdims=True),
    )


@program(b, 4)
def products_of_repeated_numbers(x):
    ones, line = anp.ones(x.shape), anp.ones(x.shape[0])
    return (
        anp.dot(line, line),
        ones @ anp.ones(4),
        anp.sum(ones * ones.sum()),
        ones @ x.T,
    )


@program(b, 4)
def reductions_of_computed_positions(x):
    line = anp.arange(x.shape[0], dtype="f32")
    mask = line[:, None] >= line
    return (
        anp.sum(anp.where(line < 3, 1.0, 0.0)),
        anp.sum(line[:, None] * anp.ones(x.shape), axis=1),
        anp.sum(mask, axis=1),
        anp.var(anp.exp(line * 0.0), keepdims=True),
        nn.softmax(anp.where(mask, 0.0, -1e9)),
    )


@program(b, 4)
def pools_of_repeated_numbers(x):
    image = anp.ones((x.shape[0], 6, 6, 1))
    small = anp.ones((1, 6, 6, 1))
    return (
        nn.avg_pool(image, (2, 2), (2, 2)),
        nn.max_pool(image, (3, 3)),
        nn.avg_pool(small, (2, 2), (2, 2)),
        nn.conv2d(image, anp.ones((1, 1, 1, 2))),
    )


@program(b, 4)
def layers_with_means_of_repeated_numbers(x):
    for _ in range(3):
        count = anp.ones((*x.shape[:1], 4)).sum(1, keepdims=True)
        x = anp.tanh(x @ anp.ones((4, 4)) / count) - anp.prod(anp.ones(x.shape), 0)
    return x, anp.sum(anp.flip(x, 1), 1), anp.sum(x[:, ::3])


# ---- a known size of parts whose sizes a call decides -------------------------------


@program(b, 4)
def concatenations_of_a_known_size(x):
    line, count = x[0] * 2.0, x.shape[0] % 4
    return (
        anp.roll(line, x.shape[0]),
        anp.roll(x, x.shape[0], 1) + anp.roll(x, 1, 1),
        anp.sum(anp.concatenate([line[count:], line[:count]]) * line),
        anp.concatenate([line[count:], line, line[:count]])[::2],
    )


# ---- a slice of one element in a shape of higher rank -------------------------------


@program(5)
def gradient_of_the_least_element(x):
    def loss(x):
        least = anp.take_along_axis(x, anp.expand_dims(anp.argmin(x, 0), 0), 0)
        first = anp.reshape(anp.squeeze(least), (-1,))
        return anp.sum(anp.sin(anp.concatenate([first, anp.reshape(x, (-1,))])))

    return aotc.grad(loss)(x)


@program(5)
def product_of_single_elements(x):
    h = anp.exp(x)
    first, fourth = anp.reshape(h[:1], (1, 1)), anp.reshape(h[3], (1, 1))
    return first @ fourth, h[1:]


@program(5)
def scan_that_joins_single_elements(x):
    return control.associative_scan(anp.maximum, x[:3]), x[1:]


@program(5)
def column_of_single_elements(x):
    column = anp.reshape(anp.concatenate([x[:1], x[3:4]]), (2, 1))
    return anp.exp(column) @ anp.ones((1, 3)), x[1:]


@program(b, "m", dtype="i32")
def reductions_of_integers_that_are_constants(x):
    ones = x * 0 + 1
    return ones.sum(1), (x == x).sum(1), (x - x + 1).sum(0), ones.sum(), (x ^ x).max(1)


@program(b, "m", dtype="bool")
def reductions_of_masks_that_are_constants(x):
    kept, none = anp.astype(x | True, "f32"), anp.astype(x & False, "f32")
    return kept.sum(1), (none + 1.0).mean(0), anp.all(x | True, 1)


@program(b, "m")
def reductions_of_choices_of_one_number(x):
    ones = anp.ones_like(x)
    chosen = anp.where(x > 0, ones, ones)
    branch = control.cond(x[0, 0] > 0, lambda: ones, lambda: ones)
    return chosen.sum(1), chosen.sum(0), (chosen * 2).sum(), branch.sum(1)


@program(b, "m")
def reductions_of_moved_ones(x):
    ones = anp.ones_like(x)
    rolled, stacked = anp.roll(ones, 1, 1), anp.stack([ones] * 3)
    return rolled.mean(1), anp.sort(ones).sum(1), stacked.sum((0, 2)), stacked.sum()


@program(b)
def reductions_of_positions_compared(x):
    i = anp.arange(x.shape[0])
    return (i >= 0).sum(), anp.astype(i < x.shape[0], "f32").sum(), anp.roll(i, 1).sum()


# ---- Note [parts of fills]: a slice of zeros that is joined with others --------------


@program(4, 4, 4)
def padded_slices_of_zeros(x):
    zeros = anp.zeros((4, 4, 4), "float32")

    def shifted(v):
        end = anp.pad(v[:, :1], ((0, 0), (3, 0), (0, 0)))
        return end + anp.pad(v[:, 1:], ((0, 0), (0, 1), (0, 0)))

    return control.cond(anp.sum(x) > 0, shifted, lambda v: v * x, zeros)


@program(4, 4, 4)
def joined_slices_of_reshaped_zeros(x):
    zeros = anp.zeros((4, 4, 4), "float32")

    def joined(v):
        part = anp.reshape(anp.reshape(v, (4, 2, 8))[:, 1:], (4, 2, 4))
        return anp.concatenate([part, x[:, :2]], axis=1)

    return control.cond(anp.sum(x) > 0, joined, lambda v: v * x, zeros)


# ---- counts beyond the range of half precision --------------------------------------


@program(70001, dtype="f16")
def statistics_of_many_narrow_numbers(x):
    def loss(x):
        return (anp.mean(x) + anp.std(x)).astype("f32") * 1000.0

    return anp.mean(x), anp.var(x), aotc.grad(loss)(x), nn.layer_norm(x)


# ---- reductions of what is compared: nothing says that it varies ---------------------


@program(b, dtype="i32")
def checks_of_integers(x):
    debug.check(x > -100, "x is above -100")
    debug.check(x[:, None] < x + 100, "x is small")
    return anp.all(x > 0), anp.any(x == 1), anp.max(x >= 0)


@program(5, dtype="u8")
def checks_of_bytes(x):
    debug.check(anp.astype(x, "i64") >= 0, "x is no byte")
    debug.check(x <= 255, "x is no byte")
    return anp.all(x > 0), anp.any(x == 1), anp.sum(x > 3)


# ---- Note [shared updates]: parts of one dispatch in several tensors -----------------


def _three_sums(x):
    s = anp.sum(x, 1)
    return s, s * 2, s * 3


@program(64, 128)
def concatenations_that_begin_alike(x):
    a, b, c = _three_sums(x)
    return anp.concatenate([a, b]), anp.concatenate([a, c]), anp.stack([a, b, c])


@program(64, 128)
def stacks_that_begin_alike(x):
    a, b, c = _three_sums(x)
    return anp.stack([a, b]) * anp.stack([a, c]), anp.stack([b, a]), anp.stack([c, a])


@program(64, 128)
def concatenation_that_is_read_and_written_over(x):
    a, b, c = _three_sums(x)
    whole = anp.concatenate([a, b])
    return whole.at[:64].set(c), anp.sqrt(anp.abs(whole)), whole.at[64:].set(c), whole


@program(64, 128)
def updates_of_one_update(x):
    a, b, c = _three_sums(x)
    first = anp.zeros(128).at[:64].set(a)
    return first.at[64:].set(b), first.at[64:].set(c), first.at[32:96].add(c)


# ---- compiled once, each compared ---------------------------------------------------


@pytest.fixture(scope="module")
def modules() -> tuple[Any, Any]:
    """The programs for the reference evaluator, and compiled for each target."""
    entries = {
        name: aotc.entry(x=spec)(function)
        for name, (function, spec, _) in PROGRAMS.items()
    }
    evaluated = trace([*entries.values()], {})
    run_passes(evaluated.module, ["autodiff", "inline"])
    config, compiled = iree.Config("local-sync"), {}
    for name in {target for *_, target in PROGRAMS.values()}:
        own = [entries[each] for each, row in PROGRAMS.items() if row[-1] == name]
        target = Target.parse(name)
        (variant,) = compile_targets(lower(trace(own, {}), target), [target])
        code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
        compiled[name] = iree.load_vm_module(code, config)
    return evaluated.module, compiled


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1, 7])
def test_compiled_program_equals_its_reference(name, size, modules):
    evaluated, compiled = modules
    _, spec, target = PROGRAMS[name]
    shape = [n if isinstance(n, int) else size for n in spec.shape]
    x = rng.normal(size=shape).astype(aotc.core.dtypes.to_numpy(spec.dtype))
    found = getattr(compiled[target], name)(x)
    found = found if isinstance(found, (list, tuple)) else [found]
    for got, want in zip(found, reference.evaluate(evaluated, name, [x]), strict=True):
        slack = TOLERANCE[spec.dtype]
        np.testing.assert_allclose(np.asarray(got), want, slack, slack)
