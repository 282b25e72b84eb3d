"""Attention kernels against the reference evaluator, on every level they are for."""

from dataclasses import dataclass

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc import numpy as anp
from aotc.backend import compile_units
from aotc.dialects.functions.functions import functions_of, is_private
from aotc.kernels.reference import evaluate_region
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.tracing.assembly import trace
from tests.machines import require_runs_here


@dataclass(frozen=True)
class Case:
    """An attention: sizes, whether it is causal, and the shape of its bias."""

    batch: int
    length: int
    heads: int
    depth: int
    positions: int
    shared: int
    width: int
    causal: bool = False
    bias: tuple[int, ...] = ()

    @property
    def shapes(self):
        """Of query, key, value and, if there is one, the bias."""
        query = (self.batch, self.length, self.heads, self.depth)
        key = (self.batch, self.positions, self.shared, self.depth)
        value = (*key[:3], self.width)
        return [query, key, value, *([self.bias] if self.bias else [])]

    def entry(self, name):
        """As a function of arrays."""

        def attend(q, k, v, bias=None):
            return nn.attention(q, k, v, bias=bias, causal=self.causal)

        return self._entry(name, attend)

    def derivative(self, name):
        """Gradients, which read the logarithms of the sums, as an entry."""
        numbers = (0, 1, 2, 3) if name == "gradients_by_bias" else (0, 1, 2)

        def loss(q, k, v, bias):
            if bias is not None:  # of numbers that are known to be small
                hidden = bias == -np.inf
                bias = anp.where(hidden, -np.inf, anp.tanh(bias))
            return anp.sum(
                anp.sin(nn.attention(q, k, v, bias=bias, causal=self.causal))
            )

        def gradients(q, k, v, bias=None):
            return aotc.grad(loss, argnums=numbers)(q, k, v, bias)

        return self._entry(name, gradients)

    def _entry(self, name, function):
        function.__name__ = name
        names = ("q", "k", "v", "bias")
        specs = zip(names, self.shapes, strict=False)
        return aotc.entry(**{name: aotc.Spec(s) for name, s in specs})(function)


CASES = {
    "one_of_most": Case(1, 4, 1, 1, 1, 1, 1),
    "encoder": Case(1, 128, 2, 64, 128, 2, 64, bias=(1, 1, 1, 128)),
    "decoder": Case(2, 40, 2, 16, 40, 2, 16, causal=True),
    "one_query": Case(2, 1, 4, 24, 70, 4, 40, bias=(2, 1, 1, 70)),
    "one_query_of_groups": Case(2, 1, 12, 24, 170, 3, 9, bias=(2, 1, 1, 170)),
    "one_query_of_biased_groups": Case(2, 1, 8, 8, 40, 2, 8, bias=(1, 8, 1, 40)),
    "one_query_of_causal_groups": Case(2, 1, 8, 8, 40, 2, 8, causal=True),
    "one_query_of_biased_keys": Case(3, 1, 6, 33, 129, 3, 130, bias=(3, 6, 1, 129)),
    "two_queries": Case(2, 2, 2, 16, 40, 2, 16, bias=(1, 2, 2, 40)),
    "two_queries_of_no_bias": Case(1, 2, 3, 5, 7, 1, 12),
    "two_queries_biased": Case(1, 2, 2, 64, 64, 2, 64, bias=(1, 1, 2, 1)),
    "few_queries": Case(2, 4, 4, 24, 70, 2, 40, bias=(2, 1, 1, 70)),
    "odd_sizes": Case(1, 37, 3, 19, 53, 3, 21),
    "own_bias": Case(2, 35, 2, 8, 21, 2, 8, bias=(1, 2, 35, 21)),
    "bias_of_heads": Case(2, 5, 4, 8, 6, 4, 8, bias=(1, 4, 1, 1)),
    "bias_of_queries": Case(1, 17, 2, 8, 6, 2, 8, bias=(1, 1, 17, 1)),
    "bias_for_one_key": Case(1, 5, 2, 8, 1, 2, 8, bias=(1, 1, 5, 1)),
    "blocks": Case(1, 20, 4, 32, 300, 2, 70, bias=(1, 4, 20, 300)),
    "causal_blocks": Case(1, 290, 2, 20, 290, 1, 20, causal=True),
    "causal_memory": Case(1, 45, 1, 16, 141, 1, 16, causal=True, bias=(1, 1, 45, 141)),
    "deep_heads": Case(1, 33, 1, 260, 50, 1, 260),
    "too_deep": Case(1, 33, 1, 1100, 17, 1, 9),
}
GRADIENTS = {
    "gradients": Case(1, 20, 2, 16, 20, 2, 16, causal=True),
    "gradients_of_masked_rows": Case(2, 37, 4, 19, 53, 2, 21, bias=(2, 1, 37, 53)),
    "gradients_of_blocks": Case(2, 40, 2, 8, 300, 1, 8, bias=(1, 1, 1, 300)),
    "gradients_of_one_query": Case(2, 1, 8, 24, 70, 4, 40, bias=(2, 1, 1, 70)),
    "gradients_of_many_that_share": Case(2, 1, 24, 8, 70, 2, 8, bias=(2, 1, 1, 70)),
    "gradients_of_wide_values": Case(2, 45, 6, 9, 33, 3, 70),
    "gradients_of_causal_blocks": Case(2, 75, 2, 64, 139, 1, 64, causal=True),
    "gradients_of_one_head": Case(1, 20, 2, 8, 20, 1, 8, causal=True),
    "gradients_by_bias": Case(1, 20, 2, 8, 30, 2, 8, bias=(1, 2, 20, 30)),
}
COMPOSED = ("gradients_by_bias", "gradients_of_one_head")
NEVER = ("too_deep",)
CAPACITY = 75
POSITIONS = (0, 1, 15, 16, 17, 31, 32, 63, 64, CAPACITY - 1)
rng = np.random.default_rng(0)


@aotc.entry(x=aotc.Spec((1, 20, 2, 16)))
def one_operand(x):
    """Query, key and value are one tensor; the results go on into other ops."""
    return anp.tanh(nn.attention(x, x, x)).reshape(20, 32)


@aotc.entry(x=aotc.Spec((1, 2, 4, 16)), y=aotc.Spec((1, 2, 4, 16)))
def one_operand_by_heads(x, y):
    """The query, which is read by positions, is the key and the value as well."""
    x, y = (each.transpose(0, 2, 1, 3) for each in (x, y))
    return nn.attention(x, x, x), nn.attention(x, x, y), nn.attention(x, y, x)


def step(heads, by_heads):
    """One query of each head attends to a cache up to a position."""
    cache = aotc.Spec((2, 2, CAPACITY, 16) if by_heads else (2, CAPACITY, 2, 16))

    def attend(q, k, v, position):
        if by_heads:
            k, v = (x.transpose(0, 2, 1, 3) for x in (k, v))
        return nn.attention(q, k, v, mask=anp.arange(CAPACITY) <= position)

    attend.__name__ = f"step_{heads}{'_by_heads' if by_heads else ''}"
    query, position = aotc.Spec((2, 1, heads, 16)), aotc.Spec((), "i32")
    return aotc.entry(q=query, k=cache, v=cache, position=position)(attend)


@aotc.entry(x=aotc.Spec((1, 4096, 1, 1)), two=aotc.Spec((1, 2, 1, 1)))
def exponentials(x, two):
    """e**x / (1 + e**x), if `two` is 1 and 0."""
    return nn.attention(x, two, two, scale=1.0)


def entries():
    cases = [case.entry(name) for name, case in CASES.items()]
    cases += [case.derivative(name) for name, case in GRADIENTS.items()]
    steps = (step(heads, by_heads) for heads in (2, 8) for by_heads in (False, True))
    single = one_operand, one_operand_by_heads
    return [*cases, *single, exponentials, *steps]


def arrays(case, kind="normal"):
    """Operands; a bias of `masked` has rows of nothing but -infinity."""
    found = [rng.normal(size=shape).astype("f") for shape in case.shapes]
    if kind == "masked" and case.bias:
        found[3][rng.random(case.bias) < 0.6] = -np.inf
        found[3][..., : case.bias[2] // 2 + 1, :] = -np.inf
    elif kind == "special":  # those of hidden positions are not read
        for x in found[: 2 if case.causal else None]:
            x.flat[rng.integers(x.size)] = rng.choice([np.inf, -np.inf, np.nan])
    return found


@pytest.fixture(scope="module", params=["x86_64-v3", "x86_64-v4"])
def compiled(request):
    """A module with all entries."""
    target = Target.parse(request.param)
    require_runs_here(target)
    unit = Unit(trace(entries(), {}), target)
    run_passes(unit, all_passes())
    (variant,) = compile_units([unit])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    return iree.load_vm_module(code, config)


@pytest.fixture(scope="module")
def evaluated():
    module = trace(entries(), {}).module
    run_passes(module, ["autodiff", "inline"])
    return module


@pytest.fixture(scope="module")
def terms():
    unit = Unit(trace(entries(), {})).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    return unit.module


def require_equal(compiled, terms, evaluated, name, given, *, may_hide=False):
    """Require what the graph says; NaN may be hidden from what it would make NaN."""
    found = getattr(compiled, name)(*given)
    found = found if isinstance(found, (list, tuple)) else [found]
    wanted = reference.evaluate(evaluated, name, given)
    regions = {"with_region": evaluate_region}
    by_terms = reference.evaluate(terms, name, given, **regions)
    for got, want in zip([*found, *by_terms], wanted * 2, strict=True):
        got = np.asarray(got)
        hides = may_hide & ~np.isfinite(want)
        np.testing.assert_allclose(*(x[~hides] for x in (got, want)), 2e-5, 2e-6)


@pytest.mark.parametrize("kind", ["normal", "masked", "special"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_what_the_graph_says(name, kind, compiled, terms, evaluated):
    require_equal(compiled, terms, evaluated, name, arrays(CASES[name], kind))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("by_heads", ["", "_by_heads"])
@pytest.mark.parametrize("heads", [2, 8])
def test_a_step_of_a_decoder_reads_no_key_after_the_last_that_it_sees(
    heads, by_heads, position, compiled, evaluated
):
    name = f"step_{heads}{by_heads}"
    query = rng.normal(size=(2, 1, heads, 16)).astype("f")
    cache = [rng.normal(size=(2, CAPACITY, 2, 16)).astype("f") for _ in range(2)]
    given = [x.swapaxes(1, 2).copy() if by_heads else x for x in cache]
    place = np.int32(position)
    want = reference.evaluate(evaluated, name, [query, *given, place])[0]
    for x in given:
        hidden = np.arange(CAPACITY) > position
        (x.swapaxes(1, 2) if by_heads else x)[:, hidden] = np.nan
    found = np.asarray(getattr(compiled, name)(query, *given, place))
    np.testing.assert_allclose(found, want, 2e-5, 2e-6)


def test_operands_of_a_kernel_may_be_one_tensor(compiled, terms, evaluated):
    given = [rng.normal(size=(1, 20, 2, 16)).astype("f")]
    require_equal(compiled, terms, evaluated, "one_operand", given)
    given = [rng.normal(size=(1, 2, 4, 16)).astype("f") for _ in range(2)]
    require_equal(compiled, terms, evaluated, "one_operand_by_heads", given)


def test_exponentials_are_right_to_some_units_in_the_last_place(compiled):
    """Those of scores far below the highest are 0; nothing else is."""
    x = -np.concatenate(
        [rng.random(2000) * 86, rng.random(2000) * 3, 87 + np.arange(96)]
    )
    given = x.astype("f").reshape(1, -1, 1, 1)
    two = np.array([1, 0], "f").reshape(1, 2, 1, 1)
    found = np.asarray(compiled.exponentials(given, two)).ravel()
    power = np.exp(given.ravel().astype("d"))
    np.testing.assert_allclose(found[:4000], (power / (1 + power))[:4000], rtol=4e-7)
    assert not found[4000:].any()


@pytest.mark.parametrize("kind", ["normal", "masked", "special"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_kernels_of_gradients_compute_what_the_graph_says(
    name, kind, compiled, terms, evaluated
):
    case = GRADIENTS[name]
    given, hides = arrays(case, kind), case.causal
    require_equal(compiled, terms, evaluated, name, given, may_hide=hides)


@pytest.mark.parametrize("level", ["x86_64-v3", "x86_64-v4"])
def test_every_attention_of_static_sizes_is_a_region(level):
    unit = Unit(trace(entries(), {})).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    for name in (*CASES, *GRADIENTS, "one_operand", "exponentials"):
        text = str(functions[name].operation)
        without = ("one_query_of_causal_groups", "bias_of_queries", *NEVER)
        is_region = "call @attention" in text or "call @decoder" in text
        assert is_region == (name not in without), name
        assert "graph.attention" not in text, name
        is_composed = name in COMPOSED or (
            name == "gradients_of_one_query" and level == "x86_64-v4"
        )  # two queries leave most lanes empty
        has_gradient = name in GRADIENTS and not is_composed
        assert has_gradient == ("call @attention_gradient" in text), name


@pytest.mark.parametrize(("level", "depth"), [("x86_64-v3", 1016), ("x86_64-v4", 500)])
def test_no_kernel_has_room_for_less_than_a_vector_of_keys(level, depth):
    """Of few positions, as a call decides, a block is at least as many as lanes."""
    positions = aotc.Dim("positions", min=1, max=5)
    shapes = {"q": (1, 40, 1, depth), "k": (1, positions, 1, depth)}
    shapes["v"] = (1, positions, 1, 8)

    def attend(q, k, v):
        return nn.attention(q, k, v)

    entry = aotc.entry(**{n: aotc.Spec(s) for n, s in shapes.items()})(attend)
    unit = Unit(trace([entry], {})).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    assert "call @attention" not in str(unit.module)


def test_a_cache_by_heads_is_read_as_it_lies():
    unit = Unit(trace([step(8, by_heads=True)], {})).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    (entry,) = (f for f in functions_of(unit.module).values() if not is_private(f))
    text = str(entry.operation)
    assert "call @decoder" in text
    assert "graph.transpose" not in text
