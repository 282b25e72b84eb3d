"""Collectives on 1, 2 and 4 simulated devices: their meaning, adjoints and limits."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import collectives, reference
from aotc.collectives import Axis
from aotc.core.pytree import flatten
from aotc.dialects import OPS, context
from aotc.dialects.builder import Builder
from aotc.dialects.graph import as_tuple
from aotc.dialects.reference.devices import SimulatedDevices, rendezvous
from aotc.dialects.types import Tensor
from aotc.errors import CompileError, InputError
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.tracing.tracing import Array, Trace

SIZES = [1, 2, 4]
SHAPE = (4, 8)


def blocks(x, count, axis):
    """`x` in equal blocks."""
    length = x.shape[axis] // count
    return [x.take(range(i * length, (i + 1) * length), axis) for i in range(count)]


# op, attributes for n devices, what device d of n gets when device e has xs[e]
DEFINITIONS = {
    "sum": ("all_reduce", lambda n: {"kind": "sum"}, lambda xs, d: sum(xs)),
    "max": ("all_reduce", lambda n: {"kind": "max"}, lambda xs, d: np.max(xs, 0)),
    "min": ("all_reduce", lambda n: {"kind": "min"}, lambda xs, d: np.min(xs, 0)),
    "gather": ("all_gather", lambda n: {"axis": 1}, lambda xs, d: np.hstack(xs)),
    "scatter": (
        "reduce_scatter",
        lambda n: {"axis": 0},
        lambda xs, d: blocks(sum(xs), len(xs), 0)[d],
    ),
    "exchange": (
        "all_to_all",
        lambda n: {"split_axis": 0, "concat_axis": 1},
        lambda xs, d: np.hstack([blocks(x, len(xs), 0)[d] for x in xs]),
    ),
    "exchange_in_place": (
        "all_to_all",
        lambda n: {"split_axis": 1, "concat_axis": 1},
        lambda xs, d: np.hstack([blocks(x, len(xs), 1)[d] for x in xs]),
    ),
    "shift": (
        "permute",
        lambda n: {"sources": tuple(range(n)), "targets": (*range(1, n), 0)},
        lambda xs, d: xs[d - 1],
    ),
    "send": (
        "permute",
        lambda n: {"sources": (0,), "targets": (n - 1,)},
        lambda xs, d: xs[0] if d == len(xs) - 1 else 0 * xs[d],
    ),
}  # fmt: skip

each_definition = pytest.mark.parametrize("name", DEFINITIONS)
each_size = pytest.mark.parametrize("size", SIZES)


def attributes_of(name, size):
    """Attributes of an op over `size` devices."""
    return {"axis_name": "data", "axis_size": size, **DEFINITIONS[name][1](size)}


def module_of(body, *types):
    """A module whose `f` returns what `body` makes of MLIR values."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        trace = Trace(module, "f", types, [])
    with trace.active():
        with ir.Location.unknown(), ir.InsertionPoint(trace.block):
            values = as_tuple(body(Builder(), *trace.block.arguments))
        trace.finish([Array(value=value, trace=trace) for value in values])
    return module


def random_inputs(size, *shapes):
    """Arrays for each device."""
    rng = np.random.default_rng(size)
    return [[rng.standard_normal(shape) for shape in shapes] for _ in range(size)]


def on_devices(module, inputs):
    """The only result of `f` on each device."""
    results = reference.evaluate_devices(module, "f", inputs, "data")
    return [result for (result,) in results]


@each_definition
@each_size
def test_devices_get_what_the_definition_says(name, size):
    op, _, definition = DEFINITIONS[name]
    attributes = attributes_of(name, size)
    module = module_of(
        lambda b, x: getattr(b, op)(x, **attributes), Tensor(SHAPE, "f64")
    )
    inputs = random_inputs(size, SHAPE)
    for d, found in enumerate(on_devices(module, inputs)):
        expected = definition([x for (x,) in inputs], d)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.shape == expected.shape


@each_definition
@each_size
def test_over_a_stack_of_devices_it_is_ordinary_ops(name, size):
    op, _, definition = DEFINITIONS[name]
    attributes = attributes_of(name, size)

    def body(b, x, one):
        plain = getattr(b, op)(one, **attributes).owner.opview
        return OPS[op].decompose_stacked(b, plain, x)

    types = Tensor((size, *SHAPE), "f64"), Tensor(SHAPE, "f64")
    module = module_of(body, *types)
    run_passes(module, ["simplify"])
    stack = np.stack([x for (x,) in random_inputs(size, SHAPE)])
    (first, *_) = module.body.operations[0].entry_block.operations
    first.operation.erase()  # it has an effect, and was there to be asked only
    (found,) = reference.evaluate(module, "f", [stack, stack[0]])
    for d in range(size):
        np.testing.assert_allclose(found[d], definition(list(stack), d), rtol=1e-12)


@each_definition
@each_size
def test_vjp_is_the_transpose_of_jvp_over_all_devices(name, size):
    op, attributes = OPS[DEFINITIONS[name][0]], attributes_of(name, size)
    x = Tensor(SHAPE, "f64")
    with context():
        y = op.infer(x, **attributes)

    def jvp(b, x, dx):
        return op.jvp(b, op.build(x, **attributes).owner.opview, dx)

    def vjp(b, x, dy):
        return op.vjp(b, op.build(x, **attributes).owner.opview, dy)[0]

    inputs = random_inputs(size, SHAPE, SHAPE, y.shape)
    slopes = on_devices(module_of(jvp, x, x), [[x, v] for x, v, _ in inputs])
    backs = on_devices(module_of(vjp, x, y), [[x, w] for x, _, w in inputs])
    forward = sum(np.vdot(s, w) for s, (_, _, w) in zip(slopes, inputs, strict=True))
    back = sum(np.vdot(v, c) for c, (_, v, _) in zip(backs, inputs, strict=True))
    np.testing.assert_allclose(forward, back, atol=1e-11)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_devices_that_tie_share_the_derivative(kind):
    attributes = {"axis_name": "data", "axis_size": 4, "kind": kind}

    def vjp(b, x, dy):
        op = b.all_reduce(x, **attributes).owner.opview
        return OPS["all_reduce"].vjp(b, op, dy)[0]

    module = module_of(vjp, *[Tensor((), "f64")] * 2)
    sign = {"max": 1, "min": -1}[kind]
    inputs = [[np.array(sign * x), np.array(1.0)] for x in (2.0, 1.0, 2.0, 0.0)]
    assert on_devices(module, inputs) == [2.0, 0.0, 2.0, 0.0]


def traced(function, *types):
    """A module with `function` as `f`."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        trace = Trace(module, "f", [Tensor(*kind) for kind in types], [])
    with trace.active():
        found = function(*trace.arguments)
        trace.finish(list(found) if isinstance(found, (tuple, list)) else [found])
    return module


def test_each_device_knows_its_number():
    axis = Axis("data", 4)
    module = traced(lambda x: x + collectives.axis_index(axis), ((), "i32"))
    found = on_devices(module, [[np.array(10, "i4")]] * 4)
    assert [int(x) for x in found] == [10, 11, 12, 13]
    assert collectives.axis_index(Axis("data", 1)).item() == 0


def test_mean_gradients_over_parts_of_a_batch_are_those_of_the_batch():
    def loss(w, x):
        return anp.mean(anp.tanh(x @ w) ** 2.0)

    def step(w, x):
        grads = aotc.grad(lambda tree: loss(tree["w"], x))({"w": w})
        return collectives.all_reduce(grads, Axis("data", 4), "mean")["w"]

    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((3, 2)), rng.standard_normal((8, 3))
    parts = traced(step, ((3, 2), "f64"), ((2, 3), "f64"))
    whole = traced(aotc.grad(loss), ((3, 2), "f64"), ((8, 3), "f64"))
    for module in (parts, whole):
        run_passes(module, ["autodiff", "inline", "simplify", "cse"])
    (expected,) = reference.evaluate(whole, "f", [w, x])
    for found in on_devices(parts, [[w, part] for part in np.split(x, 4)]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_gradient_flows_through_what_other_devices_sent():
    axis = Axis("data", 2)

    def loss(x):
        there = collectives.send(x, axis, source=0, target=1)
        return anp.sum(there * anp.astype(collectives.axis_index(axis), "f64"))

    module = traced(aotc.grad(loss), ((3,), "f64"))
    run_passes(module, ["autodiff", "inline", "simplify", "cse"])
    first, second = on_devices(module, [[np.ones(3)], [np.ones(3)]])
    np.testing.assert_array_equal(first, np.ones(3))
    np.testing.assert_array_equal(second, np.zeros(3))


def test_one_device_needs_no_others():
    axis, x = Axis("data", 1), np.arange(6.0).reshape(2, 3)
    for found in (
        collectives.all_reduce({"x": x}, axis, "mean")["x"],
        collectives.all_gather(x, axis, axis=-1),
        collectives.reduce_scatter(x, axis),
        collectives.all_to_all(x, axis, split_axis=1),
        collectives.permute(x, axis, [(0, 0)]),
    ):
        np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(collectives.permute(x, axis, []), 0 * x)


def test_devices_that_are_not_there_are_asked_for_in_words():
    with pytest.raises(InputError, match="4 devices along 'data'") as failure:
        collectives.all_reduce(np.ones(3), Axis("data", 4))
    assert failure.value.code == "needs-devices"
    module = traced(
        lambda x: collectives.all_reduce(x, Axis("model", 2)), ((3,), "f64")
    )
    with pytest.raises(InputError, match="2 devices along 'model'"):
        on_devices(module, [[np.ones(3)]] * 2)


def test_devices_that_diverge_do_not_wait_for_ever():
    def call(kind):
        attributes = {"axis_name": "data", "axis_size": 2, "kind": kind}
        return rendezvous(OPS["all_reduce"], np.ones(2), attributes)

    for work in (
        lambda number: call("sum") if number else None,
        lambda number: call("sum" if number else "max"),
        lambda number: [call("sum"), number and call("sum")],
    ):
        with pytest.raises(InputError) as failure:
            SimulatedDevices("data", 2).run(work)
        assert failure.value.code == "devices-diverge"
    with pytest.raises(ZeroDivisionError):
        SimulatedDevices("data", 2).run(lambda number: call("sum") if number else 1 / 0)


def test_no_pass_drops_merges_or_evaluates_a_collective():
    def function(x):
        for _ in range(2):
            collectives.all_reduce(np.ones(3), Axis("data", 2))
        return x

    module = traced(function, ((3,), "f64"))
    run_passes(module, ["simplify", "cse", "simplify"])
    assert str(module).count("graph.all_reduce") == 2


def test_a_build_refuses_devices_that_no_target_has(tmp_path):
    file = tmp_path / "parallel.py"
    text = (
        "import aotc\n"
        "from aotc import collectives\n"
        "@aotc.entry(x=aotc.Spec((3,), 'f32'))\n"
        "def f(x):\n"
        "    x = collectives.all_reduce(x, collectives.Axis('data', 2))\n"
    )
    file.write_text(f"{text}    return x\n", encoding="utf-8")
    with pytest.raises(CompileError, match=r"graph.all_reduce .* 'cuda") as failure:
        build(file, output=tmp_path, sign=False, targets=[Target.parse("cuda:sm_80")])
    assert failure.value.code == "not-on-target"
    assert failure.value.where == "parallel.py:5"
    assert "dtypes" not in failure.value.hint
    other = "    return collectives.all_reduce(x, collectives.Axis('model', 2))\n"
    file.write_text(text + other, encoding="utf-8")
    with pytest.raises(CompileError, match="'data'.* and 'model'") as failure:
        build(file, output=tmp_path, sign=False)
    assert failure.value.code == "several-axes"


def test_small_arrays_are_reduced_together_and_large_ones_are_not():
    def function(x, y):
        tree = {"a": x, "b": y, "c": [x * 2.0, y + 1.0], "d": np.ones(3, "i4")}
        tree |= {"e": x[:0], "f": np.zeros((0, 2), "f8")}  # of no elements
        return flatten(collectives.all_reduce(tree, Axis("data", 2), "max"))[0]

    module = traced(function, ((3,), "f32"), ((1 << 20, 2), "f32"))
    assert str(module).count("graph.all_reduce") == 5  # a, c[0], e; b; c[1]; d; f
    inputs = [[np.full((3,), n, "f4"), np.full((1 << 20, 2), -n, "f4")] for n in (1, 2)]
    for results in reference.evaluate_devices(module, "f", inputs, "data"):
        means = [(x.shape, float(x.mean())) for x in results[:5]]
        assert [x.shape for x in results[5:]] == [(0,), (0, 2)]
        large = (1 << 20, 2)
        expected = [((3,), 2), (large, -1), ((3,), 4), (large, 0), ((3,), 1)]
        assert means == expected


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda x, a: Axis("", 2), "bad-axis"),
        (lambda x, a: Axis("data", 0), "bad-size"),
        (lambda x, a: Axis("data", 2.0), "bad-size"),
        (lambda x, a: collectives.all_reduce(x, "data"), "bad-argument"),
        (lambda x, a: collectives.all_reduce(x, a, "product"), "bad-kind"),
        (lambda x, a: collectives.all_reduce(x > 0, a), "dtype-mismatch"),
        (lambda x, a: collectives.all_reduce([1, 2], a, "mean"), "dtype-mismatch"),
        (lambda x, a: collectives.all_gather(x, a, axis=2), "bad-axis"),
        (lambda x, a: collectives.reduce_scatter(x, a, axis=1), "shape-mismatch"),
        (lambda x, a: collectives.all_to_all(x, a, split_axis=1), "shape-mismatch"),
        (lambda x, a: collectives.permute(x, a, [(0, 1), (0, 0)]), "bad-pairs"),
        (lambda x, a: collectives.permute(x, a, [(0, 2)]), "bad-pairs"),
        (lambda x, a: collectives.permute(x, a, [0, 1]), "bad-argument"),
    ],
)  # fmt: skip
def test_what_no_collective_can_do_is_refused(call, code):
    with pytest.raises(InputError) as failure:
        call(np.ones((2, 3)), Axis("data", 2))
    assert failure.value.code == code
