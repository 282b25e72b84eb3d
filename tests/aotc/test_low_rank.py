"""Low-rank adapters: they learn beside weights that stay, and merge into them."""

import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc import numpy as anp
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(9)


def array(*shape):
    return RNG.normal(size=shape).astype("f4")


PARAMS = {
    "first": {"kernel": array(8, 16)},
    "second": {"weight": array(16, 16)},  # [outputs, inputs], and square
    "heads": array(16, 2, 3),
}
X = array(5, 8)


def network(params, x):
    h = anp.tanh(x @ params["first"]["kernel"]) @ params["second"]["weight"].T
    return anp.einsum("ni,ihk->nhk", h, params["heads"])


def random_like(adapters):
    return {
        name: {key: array(*x.shape) for key, x in row.items()}
        for name, row in adapters.items()
    }


def values(x):
    return np.asarray(x)


def test_new_adapters_change_nothing_and_have_the_shapes_of_their_layers():
    tuned = nn.lora(network, rank=2)
    adapters = tuned.init(PARAMS, aotc.Spec(X.shape))
    assert {name: row["down"].shape for name, row in adapters.items()} == {
        "first.kernel": (8, 2),
        "second.weight": (16, 2),
        "heads": (16, 2),
    }
    assert adapters["heads"]["up"].shape == (2, 2, 3)
    found, wanted = tuned(adapters, PARAMS, X), network(PARAMS, X)
    np.testing.assert_array_equal(values(found), values(wanted))


def test_merged_weights_compute_what_adapters_do():
    tuned = nn.lora(network, rank=3, alpha=1.5)
    adapters = random_like(tuned.init(PARAMS, X))
    merged = tuned.merge(adapters, PARAMS, X)
    found, wanted = values(tuned(adapters, PARAMS, X)), values(network(merged, X))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert np.abs(wanted - values(network(PARAMS, X))).max() > 0.1


def test_patterns_choose_layers():
    tuned = nn.lora(network, rank=2, layers=["first.*", "hea*"])
    assert [*tuned.init(PARAMS, X)] == ["first.kernel", "heads"]


def test_files_of_adapters_are_read_back_as_they_were(tmp_path):
    tuned = nn.lora(network, rank=2, layers=["first.*", "second.*"])
    adapters = random_like(tuned.init(PARAMS, X))
    tuned.save(tmp_path / "a.safetensors", adapters)
    found = tuned.load(tmp_path / "a.safetensors", PARAMS, X)
    assert [*found] == [*adapters]
    for name, row in adapters.items():
        for key, x in row.items():
            np.testing.assert_array_equal(found[name][key], x)


def test_integers_stay_and_adapters_learn_beside_them():
    data = RNG.integers(-8, 8, (6, 8)).astype("i1")
    scale = np.full((6, 2), 0.1, "f4")
    weight = nn.QuantizedWeights(data, scale, axis=1, block=4, bits=4)
    params = {"layer": weight}
    target = array(5, 6)

    def quantized(params, x):
        return params["layer"].linear(x)

    tuned = nn.lora(quantized, rank=2)
    start = tuned.init(params, aotc.Spec(X.shape))
    assert [*start] == ["layer"]

    @aotc.entry(
        x=aotc.Spec(X.shape), weights=aotc.Weights(params), state=aotc.State(start)
    )
    def step(state, weights, x):
        def loss(adapters):
            return anp.mean((tuned(adapters, weights, x) - target) ** 2)

        value, grads = aotc.value_and_grad(loss)(state)
        new = {
            name: {
                key: state[name][key] - 0.1 * grads[name][key] for key in state[name]
            }
            for name in state
        }
        return new, value

    program = trace([step], {})
    run_passes(program.module, PASS_STAGES[0].passes())
    (entry,) = program.entries
    stored, losses = dict(program.parameters), []
    for _ in range(20):
        known = {**stored, "x": X}
        arrays = [known[port.name] for port in entry.arguments]
        results = reference.evaluate(program.module, "step", arrays)
        ports = [port.name for port in entry.results]
        stored |= dict(zip(ports, results, strict=True))
        losses.append(float(results[-1]))
    assert losses[-1] < 0.8 * losses[0]
    assert "graph.dequantize" in str(program.module)


# ---- what is refused ----------------------------------------------------------------


OF_RANK_2 = nn.lora(network, rank=2).init(PARAMS, X)


def shared(params, x):
    return x @ params["w"] @ params["w"]


@pytest.mark.parametrize(
    ("code", "act"),
    [
        ("bad-rank", lambda: nn.lora(network, rank=0)),
        ("no-layers", lambda: nn.lora(network, layers="third.*").init(PARAMS, X)),
        ("no-layers", lambda: nn.lora(network, layers=["first*", "x"]).init(PARAMS, X)),
        ("bad-spec", lambda: nn.lora(network).init(PARAMS, aotc.Spec(("n", 8)))),
        ("missing-adapter", lambda: nn.lora(network)({}, PARAMS, X)),
        ("bad-adapters", lambda: nn.lora(network)(OF_RANK_2, PARAMS, X)),
        ("bad-adapters", lambda: nn.lora(network).merge(OF_RANK_2, PARAMS, X)),
    ],
)
def test_what_cannot_be_is_told(code, act):
    with pytest.raises(InputError) as refused:
        act()
    assert refused.value.code == code


def tied(params, x):
    return anp.tanh(anp.take(params["w"], anp.asarray([0, 1, 0]), 0)) @ params["w"].T


READ_TWICE = {
    "by two products": (shared, None),
    "by a product without an adapter": (
        lambda p, x: x @ p["w"] @ anp.exp(p["w"]),
        "w",
    ),
    "by a table": (tied, None),
    "by a sum": (lambda p, x: x @ p["w"] + anp.sum(p["w"]), None),
}


@pytest.mark.parametrize(("function", "layers"), READ_TWICE.values(), ids=READ_TWICE)
def test_a_weight_that_is_read_twice_is_not_merged(function, layers):
    params, x = {"w": array(4, 4)}, array(3, 4)
    tuned = nn.lora(function, rank=1, layers=layers)
    adapters = tuned.init(params, x)
    with pytest.raises(InputError) as refused:
        tuned.merge(adapters, params, x)
    assert refused.value.code == "not-merged"


def test_imported_networks_learn_by_adapters(tmp_path):
    onnx = pytest.importorskip("onnx")
    make, helper = onnx.helper.make_node, onnx.helper
    kind, weight = onnx.TensorProto.FLOAT, array(8, 3)
    graph = helper.make_graph(
        [make("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", kind, [5, 8])],
        [helper.make_tensor_value_info("y", kind, [5, 3])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset), tmp_path / "m.onnx")
    network = aotc.from_onnx(tmp_path / "m.onnx")
    tuned, tree = nn.lora(network, rank=2), network.weights.tree
    adapters = random_like(tuned.init(tree, aotc.Spec(X.shape)))
    (row,) = adapters.values()
    added = X @ row["down"] @ row["up"]
    found = values(tuned(adapters, tree, X))
    np.testing.assert_allclose(found, X @ weight + added, rtol=1e-4, atol=1e-4)


def test_adapters_of_another_alpha_are_refused(tmp_path):
    file, layers = tmp_path / "a.safetensors", ["first.*"]
    tuned = nn.lora(network, rank=2, alpha=8, layers=layers)
    tuned.save(file, tuned.init(PARAMS, X))
    with pytest.raises(InputError) as refused:
        nn.lora(network, rank=2, layers=layers).load(file, PARAMS, X)
    assert refused.value.code == "bad-adapters"


def test_adapters_of_another_rank_are_refused(tmp_path):
    layers = ["first.*"]
    tuned = nn.lora(network, rank=2, layers=layers)
    tuned.save(tmp_path / "a.safetensors", tuned.init(PARAMS, X))
    with pytest.raises(InputError) as refused:
        nn.lora(network, rank=4, layers=layers).load(
            tmp_path / "a.safetensors", PARAMS, X
        )
    assert refused.value.code == "bad-adapters"


def test_adapters_of_more_axes_are_not_saved(tmp_path):
    tuned = nn.lora(network, rank=2)
    with pytest.raises(InputError) as refused:
        tuned.save(tmp_path / "a.safetensors", tuned.init(PARAMS, X))
    assert refused.value.code == "not-two-axes"
    assert not [*tmp_path.iterdir()]
