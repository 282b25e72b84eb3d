"""Modules that learn: what is trained, what is state, and what is dropped."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import InputError
from aotc.passes import run_passes

torch = pytest.importorskip("torch")

KEY = np.array([1, 2], np.uint32)


class Net(torch.nn.Module):
    """Batch normalization and dropout, and a buffer of another kind."""

    def __init__(self, rate=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(rate)
        self.out = torch.nn.Linear(4, 2)
        self.register_buffer("offset", torch.ones(2))

    def forward(self, x):
        hidden = torch.relu(self.norm(self.first(x)))
        return self.out(self.drop(hidden)) + self.offset


def recipe():
    """The training step in the docs, from its import on."""
    page = Path(__file__).parents[2] / "docs" / "frontends.md"
    (found,) = re.findall(
        r"```python\n(import aotc, torch\n.*?)```", page.read_text(), re.S
    )
    return found


def steps(program, name, x, y, count):
    """The states and losses of an entry, step by step, by the reference."""
    run_passes(program.module, ["autodiff"])
    values = dict(program.parameters)
    entry = program.entry(name)
    given = dict(zip([port.name for port in entry.ports("input")], (x, y), strict=True))
    for _ in range(count):
        arguments = [
            given[port.name] if port.kind == "input" else values[port.name]
            for port in entry.arguments
        ]
        results = reference.evaluate(program.module, name, arguments)
        for port, value in zip(entry.results, results, strict=True):
            if port.kind == "state":
                values[port.name] = value
        yield values, results[-1]


def test_parameters_and_buffers_are_told_apart():
    net = aotc.from_torch(Net().eval(), (torch.ones(2, 3),))
    buffers = {"norm.running_mean", "norm.running_var", "offset"}
    assert set(net.buffers) == buffers
    assert set(net.params) == {name for name, _ in Net().named_parameters()}
    x = np.ones((2, 3), "f4")
    found = net({**net.params, **net.buffers}, x)
    np.testing.assert_array_equal(found, net(net.weights.tree, x))


def test_the_training_step_of_the_docs_does_what_pytorch_does(model):
    written = inspect.getsource(Net)
    source = f"import torch\n\n{written}\nmodule = Net()\n{recipe()}"
    program = model.load(source, "step")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 3)).astype("f4")
    y = rng.integers(0, 2, 8)

    module = Net().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses, values = [], {}
    for new, loss in steps(program, "step", x, y, 3):
        values = dict(new)
        optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(
            module(torch.from_numpy(x)), torch.from_numpy(y)
        )
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, expected.item(), rtol=1e-4)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True)
    for name, tensor in module.state_dict().items():
        (found,) = (v for k, v in values.items() if k.split(".", 1)[1] == name)
        np.testing.assert_allclose(found, tensor.numpy(), rtol=1e-4, atol=1e-5)


def test_the_training_step_of_the_docs_takes_a_network_without_other_buffers(model):
    module = "torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))"
    written = recipe().replace('{"x": {0: batch}}', "({0: batch},)")
    program = model.load(f"import torch\nmodule = {module}\n{written}", "step")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype("f4"), rng.integers(0, 2, 8)
    ((states, _),) = steps(program, "step", x, y, 1)
    np.testing.assert_allclose(
        states["statistics.0.running_mean"], 0.1 * x.mean(0), rtol=1e-4, atol=1e-6
    )


def test_dropout_draws_from_the_key_of_the_call():
    module = torch.nn.Sequential(torch.nn.Dropout(0.25), torch.nn.Dropout(0.25))
    net = aotc.from_torch(module, (torch.ones(40, 50),), train=True)
    assert list(net.inputs) == ["input", "key"]
    x = np.ones((40, 50), "f4")
    found = np.asarray(net(x, KEY))
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75) ** 2}
    assert abs((found != 0).mean() - 0.75**2) < 0.05  # two masks, not one
    np.testing.assert_array_equal(found, net(x, key=KEY))
    assert not np.array_equal(found, net(x, KEY + 1))


def test_attention_and_recurrent_networks_drop_as_well():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.5, batch_first=True)
    lstm = torch.nn.LSTM(8, 4, 2, dropout=0.5)
    for module in (layer, lstm):
        net = aotc.from_torch(module, (torch.ones(2, 3, 8),), train=True)
        x = np.linspace(-1, 1, 48, dtype="f4").reshape(2, 3, 8)
        found, other = (net(net.weights.tree, x, key) for key in (KEY, KEY + 1))
        found, other = (r[0] if isinstance(r, tuple) else r for r in (found, other))
        assert np.isfinite(np.asarray(found)).all()
        assert not np.array_equal(found, other)


def test_the_module_stays_in_its_mode():
    module = Net(0.5).eval()
    module.norm.train()
    aotc.from_torch(module, (torch.ones(2, 3),), train=True)
    assert not module.drop.training
    assert module.norm.training


def test_dropout_without_a_key_says_how_to_get_one():
    with pytest.raises(InputError, match="hidden state") as caught:
        aotc.from_torch(torch.nn.Dropout(0.5).train(), (torch.ones(3),))
    assert "train=True" in caught.value.hint


def test_a_network_of_a_private_name_is_no_entry(model):
    program = model.load(
        """
        import aotc, torch

        _net = aotc.from_torch(torch.nn.ReLU(), (torch.ones(3),))

        @aotc.entry(x=aotc.Spec((3,)))
        def f(x):
            return _net(x)
        """
    )
    assert [entry.name for entry in program.entries] == ["f"]
