"""PyTorch modules and exported programs, against PyTorch itself."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.dtypes import canonical_dtype
from aotc.core.pytree import flatten
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

torch = pytest.importorskip("torch")
from tests.importers.torch_modules import Call, Output, agrees, stored  # noqa: E402

MLP = """
import aotc, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.hidden = torch.nn.Linear(3, 4)
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))

batch = torch.export.Dim("batch", max=64)
module = Net()
net = aotc.from_torch(module, (torch.ones(2, 3),), dynamic_shapes={"x": {0: batch}})
"""


# ---- modules in a model.py ----------------------------------------------------------


def test_a_module_is_an_entry_with_its_names_and_ranges(model):
    program = model.load(MLP)
    (entry,) = program.entries
    assert entry.name == "net"
    (contract,) = entry.symbols
    assert (contract.name, contract.min, contract.max) == ("batch", 1, 64)
    assert "net.hidden.weight" in program.parameters
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    (found,) = reference.evaluate(
        program.module, "net", [*program.parameters.values(), x]
    )
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
    expected = layers[1](torch.relu(layers[0](torch.from_numpy(x))))
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-6, atol=1e-6)


def test_ops_carry_the_line_and_the_path_of_their_module(model):
    text = model.load(MLP).module.operation.get_asm(enable_debug_info=True)
    assert 'loc("hidden"' in text
    assert '"model.py":12' in text


def test_a_training_step_is_written_around_a_module(model):
    program = model.load(
        MLP
        + """
params = aotc.State(net.weights.tree)

@aotc.entry(x=aotc.Spec((4, 3)))
def step(params, x):
    def loss(params):
        return (net(params, x) ** 2).mean()
    value, gradient = aotc.value_and_grad(loss)(params)
    return {k: params[k] - 0.1 * gradient[k] for k in params}, value
"""
    )
    assert [entry.name for entry in program.entries] == ["net", "step"]


class Convolved(torch.nn.Module):
    """A convolution with a normalization that learns statistics."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.out(torch.nn.functional.max_pool2d(x, 2).flatten(1))


class Attentive(torch.nn.Module):
    """A layer of a transformer, and attention to its result."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(self.layer(x), x, x)[0]


class Recurrent(torch.nn.Module):
    """A recurrent network on embeddings."""

    def __init__(self, kind):
        super().__init__()
        self.table = torch.nn.Embedding(10, 6)
        self.network = kind(6, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.network(self.table(x))[0]


TRAINED = {
    "convolution": (Convolved, torch.randn(2, 3, 8, 8)),
    "attention": (Attentive, torch.randn(2, 4, 8)),
    "lstm": (lambda: Recurrent(torch.nn.LSTM), torch.randint(0, 10, (2, 4))),
    "gru": (lambda: Recurrent(torch.nn.GRU), torch.randint(0, 10, (2, 4))),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_through_a_module_are_those_of_autograd(name):
    torch.manual_seed(1)
    make, x = TRAINED[name]
    module = make().train()
    net = aotc.from_torch(module, (x,))
    state = [] if net.state is None else [net.state.tree]

    @aotc.entry(weights=specs(net.weights.tree), state=specs(state), x=specs(x.numpy()))
    def step(weights, state, x):
        def loss(weights):
            found = net(weights, *state, x)
            new, y = found if state else ((), found)
            return (y**2).mean(), new

        return aotc.value_and_grad(loss, has_aux=True)(weights)

    program = trace([step], {})
    run_passes(program.module, ["autodiff", "inline"])
    arguments = flatten([net.weights.tree, state, x.numpy()])[0]
    results = reference.evaluate(program.module, "step", arguments)
    (module(x) ** 2).mean().backward()
    learned = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    expected = [buffers[name] for name in sorted(buffers)]
    expected += [learned[name].grad for name in sorted(learned)]
    for found, wanted in zip(results[1:], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def specs(tree):
    """The Specs of a tree of arrays."""
    if isinstance(tree, dict):
        return {name: specs(part) for name, part in tree.items()}
    if isinstance(tree, list):
        return [specs(part) for part in tree]
    return aotc.Spec(tree.shape, canonical_dtype(tree.dtype))


# ---- what a module stores -----------------------------------------------------------


def test_buffers_that_are_updated_become_state():
    module = torch.nn.BatchNorm1d(3)
    x = torch.randn(8, 3)
    net = aotc.from_torch(module, (x,))
    state, y = net(*stored(net), x.numpy())
    expected = module(x)
    np.testing.assert_allclose(np.asarray(y), expected.detach(), rtol=1e-5, atol=1e-6)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(
            np.asarray(state[name]), getattr(module, name), rtol=1e-5
        )


def test_tied_weights_are_one_array():
    one, other = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
    other.weight = one.weight
    module = Call(lambda a, b, x: a(b(x)), one, other)
    net = aotc.from_torch(module, (torch.ones(1, 3),))
    assert len(net.weights.arrays) == 1
    agrees(module, torch.randn(2, 3))


def test_weights_are_taken_over_without_a_copy():
    module = torch.nn.Linear(3, 3, bias=False)
    net = aotc.from_torch(module, (torch.ones(1, 3),))
    assert np.shares_memory(net.weights.arrays[0], module.weight.detach().numpy())


WRITES = {
    "to what the graph made": lambda x: (x * 2).add_(1).relu_() + 1,
    "seen by readers of the first name": lambda x: [y := x * 2, y.mul_(3), y + 1][1:],
    "seen by an earlier view": lambda x: [y := x * 2, y[0], y.add_(1)],
    "through a view": lambda x: [y := x * 2, y[0].add_(1)],
    "in the dtype that it has": lambda x: (x > 0).long().add_(x > 1),
    "of the shape alone": lambda x: (x * 2).unsqueeze_(0),
    "to another argument": lambda x: torch.mul(x, 2, out=torch.empty(2, 3)) + 1,
    "to a copy of a constant": lambda x: torch.tensor([1.0, 2.0]).add_(x[0, 0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_tensors_of_the_graph_agree(name):
    agrees(Call(WRITES[name]), torch.linspace(-1, 2, 6).reshape(2, 3))


def test_a_graph_without_views_is_not_decomposed(monkeypatch):
    def refuse(*_):
        raise AssertionError

    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True)
    )
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    agrees(module, torch.ones(2, 3, 5, 5))


@pytest.mark.parametrize("name", ["int8", "bool", "float64", "bfloat16", "float16"])
def test_stored_tensors_have_any_dtype(name):
    table = torch.tensor([[1, 0], [2, 3]]).to(getattr(torch, name))
    module = torch.nn.Embedding.from_pretrained(table)
    agrees(module, torch.tensor([1, 0]))


def test_stored_tensors_of_unknown_dtypes_are_named():
    module = torch.nn.Module()
    module.register_buffer("scale", torch.ones(3).to(torch.float8_e4m3fn))
    module.forward = lambda x: x * module.scale.to(torch.float32)
    with pytest.raises(InputError, match=r"float8_e4m3fn; at scale"):
        aotc.from_torch(module, (torch.ones(3),))


def test_parameters_and_buffers_that_are_written_to_become_state():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.scale = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            self.count += 1
            with torch.no_grad():
                self.scale.mul_(2)
            return self.scale * x + self.count

    net = aotc.from_torch(Counting(), (torch.ones(2),))
    assert net.weights is None
    state, y = net(net.state.tree, np.ones(2, np.float32))
    state, y = net(state, np.ones(2, np.float32))
    assert (int(np.asarray(state["count"])), np.asarray(y).tolist()) == (2, [6, 6])


# ---- inputs and outputs -------------------------------------------------------------


def test_nested_containers_come_in_and_go_out():
    def forward(x, pair):
        return Output(x + pair["a"], {"sum": pair["b"][0].sum(), "none": None})

    x = torch.ones(2)
    pair = {"b": [x], "a": 2 * x}
    net = aotc.from_torch(Call(forward), (x, pair))
    array = np.ones(2, np.float32)
    found = net(array, {"a": 2 * array, "b": [array]})
    assert found["values"].tolist() == [3, 3]
    assert found["rest"]["sum"].item() == 2
    assert found["rest"]["none"] is None


def test_keywords_numbers_and_none_are_arguments():
    def forward(x, scale, other=None, *, mask):
        return (x if other is None else x + other) * scale * mask["of x"][0]

    x, mask = torch.randn(2), {"of x": (torch.tensor([True, False]),)}
    net = aotc.from_torch(Call(forward), (x, 2.5, None), {"mask": mask})
    given = {"of x": (mask["of x"][0].numpy(),)}
    found = net(x.numpy(), 2.5, None, mask=given)
    np.testing.assert_allclose(np.asarray(found), forward(x, 2.5, mask=mask))
    np.testing.assert_array_equal(net(x.numpy(), mask=given), found)
    with pytest.raises(InputError, match=r"got 0 by position, mask"):
        net(mask=given)


def test_sizes_are_computed_with():
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=3)

    def forward(x):
        b, n = x.shape
        return x.reshape(n * b), torch.arange(n + 1), x[:, 1:], b * n

    net = aotc.from_torch(
        Call(forward), (torch.ones(3, 5),), dynamic_shapes=(({0: batch, 1: length},),)
    )
    program = net.program("f")
    x = np.ones((2, 5), np.float32)
    flat, line, rest, count = reference.evaluate(program.module, "f", [x])
    assert (flat.shape, line.tolist(), rest.shape) == ((10,), [*range(6)], (2, 4))
    assert count == 10


def test_how_many_are_the_largest_may_depend_on_a_size():
    size = torch.export.Dim.AUTO
    module = Call(lambda x: x.topk(min(x.shape[0], 4), 0))
    x = torch.tensor([3.0, 1.0, 2.0])
    net = aotc.from_torch(module, (x,), dynamic_shapes=(({0: size},),))
    program = net.program("f")
    for values in ([3.0, 1.0], [3.0, 1.0, 2.0, 5.0, 4.0, 0.0]):
        given = np.array(values, np.float32)
        found = reference.evaluate(program.module, "f", [given])
        for one, other in zip(found, module(torch.from_numpy(given)), strict=True):
            np.testing.assert_array_equal(one, other)
