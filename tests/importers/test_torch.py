"""PyTorch modules and exported programs, against PyTorch itself."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dtypes import canonical
from aotc.errors import AotcError, InputError
from aotc.importers import load
from aotc.importers.common.imported import Imported
from aotc.passes import run_passes
from aotc.pytree import flatten
from aotc.tracing.assembly import trace
from tests.refusals import refusal

torch = pytest.importorskip("torch")

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


class Call(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, torch.nn.ModuleList(parts)

    def forward(self, *args, **named):
        return self.function(*self.parts, *args, **named)


class Turned(torch.nn.Module):
    """Positions as angles, in complex numbers: a constant, and the last axis of x."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
        turns = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("turns", turns)

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.turns).flatten(-2)


def stored(net: Imported) -> list:
    """The weights and the state as the network's function takes them."""
    return [part.tree for part in (net.weights, net.state) if part is not None]


def agrees(module, *args, **options) -> None:
    """The imported module gives what the module does."""
    net = aotc.from_torch(module.eval(), args, **options)
    found = net(*stored(net), *(np.asarray(arg) for arg in args))
    with torch.no_grad():
        expected = module(*args)
    for one, other in zip(
        torch.utils._pytree.tree_leaves(found),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    ):
        values = np.asarray(one, np.float64), torch.as_tensor(other).double()
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)


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
    return aotc.Spec(tree.shape, canonical(tree.dtype))


def test_a_pt2_file_is_a_program(tmp_path):
    batch = torch.export.Dim("batch")
    module = torch.nn.Linear(3, 2)
    program = torch.export.export(
        module, (torch.ones(2, 3),), dynamic_shapes=({0: batch},)
    )
    file = tmp_path / "linear.pt2"
    torch.export.save(program, file)
    loaded = load(file)
    assert [entry.name for entry in loaded.entries] == ["main"]
    assert loaded.source["kind"] == "torch"
    with pytest.raises(InputError, match="it has main"):
        load(file, ("forward",))


class Large(torch.nn.Module):
    """A module with tensors of each kind that a .pt2 file maps, or does not."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(400, 256)
        self.head = torch.nn.Linear(256, 400, bias=False)
        self.head.weight = self.words.weight
        turned = torch.randn(256, 300, dtype=torch.bfloat16).T
        self.turned = torch.nn.Parameter(turned, requires_grad=False)
        whole = torch.randn(200, 200)
        self.register_buffer("part", whole[50:, 1:101], persistent=False)
        self.register_buffer("whole", whole)
        self.small = torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        """Something of all of them."""
        sums = self.part.sum() + self.whole.sum() + self.turned.float().sum()
        return self.head(self.words(x)) + sums + self.small.sum()


def test_the_large_tensors_of_a_pt2_file_are_mapped_and_equal(tmp_path):
    exported = torch.export.export(Large(), (torch.arange(2),))
    file = tmp_path / "large.pt2"
    torch.export.save(exported, file)
    from aotc.importers.torch import mapped_archive

    mapped, copied = mapped_archive.load(file), torch.export.load(file)
    for kind in ("state_dict", "constants"):
        found, expected = getattr(mapped, kind), getattr(copied, kind)
        assert [*found] == [*expected]
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor)
            assert type(found[name]) is type(tensor)
            assert found[name].stride() == tensor.stride()
            assert found[name].requires_grad == tensor.requires_grad
    weights = mapped.state_dict
    assert weights["words.weight"].data_ptr() == weights["head.weight"].data_ptr()
    x = torch.arange(3, 5)
    assert torch.equal(mapped.module()(x), copied.module()(x))
    content = bytearray(file.read_bytes())
    first = content.index(weights["words.weight"].detach().numpy().tobytes())
    content[first + 5] ^= 1
    file.write_bytes(content)
    assert "checksum" in refused_file(file)


def test_weights_of_a_pt2_file_take_no_memory(tmp_path):
    module = torch.nn.Linear(4096, 4096)
    exported = torch.export.export(module, (torch.ones(2, 4096),))
    torch.export.save(exported, tmp_path / "linear.pt2")
    code = """
import sys
from pathlib import Path
import torch
from aotc.importers.torch import load

def held():
    rows = Path("/proc/self/status").read_text().splitlines()
    return int(dict(row.split(":", 1) for row in rows)["RssAnon"].split()[0]) << 10

load(Path(sys.argv[1]).with_name("small.pt2"))
before = held()
kept = load(Path(sys.argv[1]))
print(held() - before)
"""
    small = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(2, 2),))
    torch.export.save(small, tmp_path / "small.pt2")
    given = [sys.executable, "-c", code, str(tmp_path / "linear.pt2")]
    taken = int(subprocess.check_output(given))
    assert taken < module.weight.nbytes / 4


def test_damaged_pt2_files_are_refused(tmp_path):
    whole, file = tmp_path / "whole.pt2", tmp_path / "broken.pt2"
    module = torch.nn.Linear(3, 2)
    torch.export.save(torch.export.export(module, (torch.ones(2, 3),)), whole)
    data = whole.read_bytes()
    for broken in (b"", b"PK\x03\x04nothing", data[: len(data) // 2], data[:-1]):
        file.write_bytes(broken)
        refused_file(file)
    torch.save(module.state_dict(), file)
    assert "archive_format" in refused_file(file)


def refused_file(file) -> str:
    """Why a file cannot be read."""
    return refusal(InputError, "bad-file", load, file).message


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(AotcError) as caught:
        aotc.from_torch(None)
    assert caught.value.code == "missing-extra"
    assert "[torch]" in caught.value.hint


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


@dataclasses.dataclass
class Output:
    """What a model of a library may return."""

    values: torch.Tensor
    rest: dict


torch.export.register_dataclass(Output, serialized_type_name="test.Output")


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


# ---- control flow -------------------------------------------------------------------


def test_branches_run_one_side():
    def forward(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    agrees(Call(forward), torch.ones(3))
    agrees(Call(forward), -torch.ones(3))


def test_loops_run_as_long_as_their_condition_holds():
    from torch._higher_order_ops import while_loop

    def forward(x):
        return while_loop(
            lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)
        )

    agrees(Call(forward), torch.ones(3))


def test_scans_carry_and_stack():
    from torch._higher_order_ops import scan

    def forward(xs):
        return scan(lambda c, x: (c + x, c * x), torch.zeros(2), xs)

    agrees(Call(forward), torch.randn(4, 2))


def test_maps_apply_a_graph_to_each_row():
    from torch._higher_order_ops.map import map as torch_map

    def forward(xs, y):
        return torch_map(lambda x, y: (x @ y, x.sum()), xs, y)

    agrees(Call(forward), torch.randn(3, 4), torch.randn(4, 2))


def test_graphs_within_graphs_are_inlined():
    from torch.utils.checkpoint import checkpoint

    def forward(layer, x):
        with torch.no_grad():
            y = layer(x)
        return y + checkpoint(lambda x: torch.relu(layer(x)), x, use_reentrant=False)

    agrees(Call(forward, torch.nn.Linear(4, 4)), torch.randn(2, 4))


# ---- complex numbers -----------------------------------------------------------------


def test_complex_numbers_inside_a_module_agree():
    agrees(Turned(), torch.randn(3, 5, 4))
    agrees(Call(lambda x: torch.fft.ifft(torch.fft.fft(x) * 1j).abs()), torch.randn(6))
    agrees(Call(lambda x: torch.fft.irfft2(torch.fft.rfft2(x))), torch.randn(2, 6, 4))
    agrees(Call(lambda x: torch.fft.rfft(x).angle()), torch.randn(2, 9))


ON_COMPLEX = {
    "logarithms and powers": lambda z: [
        *(z.log(), z.log2(), z.log10(), z.log1p(), z.exp2(), z.expm1(), z.sqrt()),
        *(z.rsqrt(), z.square(), z.sigmoid(), torch.nn.functional.silu(z)),
        *(z**3, z**-2, z**0.5, z ** (1 - 2j), z**z, 2**z, torch.float_power(z, z)),
    ],
    "trigonometric functions": lambda z: [
        *(z.sin(), z.cos(), z.tan(), z.asin(), z.acos(), z.atan()),
        *(z.sinh(), z.cosh(), z.tanh(), z.asinh(), z.acosh(), z.atanh()),
    ],
    "comparisons": lambda z: [
        *(z == z.conj(), z != 3, z.real + 0 == z, z.sgn(), z.isnan(), z.isfinite()),
        *(z.logical_not(), z.logical_and(z.real), z.any(), z.all(0)),
        *(torch.where(z.real > 0, z, 2j), z.masked_fill(z.imag > 0, 1.0)),
    ],
    "real numbers among complex ones": lambda z: [
        *(torch.cat([z, z.real]), torch.stack([z.imag, z]), 2 - z, z - z.real),
        *(z * torch.tensor(2.0, dtype=torch.float64), torch.full_like(z, 2.0)),
        *(torch.nn.functional.pad(z, (1, 2), value=3.0), z.clone().fill_(4.0)),
        *(z.clone().copy_(z.real), torch.eye(2, dtype=torch.complex64)),
    ],
    "elements and products": lambda z: [
        *(z.index_copy(0, torch.tensor([1]), z[:1]), torch.take(z, torch.tensor([3]))),
        *(torch.vdot(z[0], z[1]), z[0].dot(z[1]), z.sum(0, dtype=torch.complex128)),
        *(
            z.var(),
            z.std(0),
            torch.addmm(z, z, z, beta=2j),
            z.masked_scatter(z != 0, z),
        ),
        torch.nn.functional.linear(z, z, z[0]),
    ],
}


@pytest.mark.parametrize("functions", ON_COMPLEX.values(), ids=ON_COMPLEX)
def test_functions_of_complex_numbers_agree_on_both_sides_of_their_cuts(functions):
    real = torch.tensor([-2.0, -0.5, 0.25, 3.0]).repeat(4, 1)
    imag = torch.tensor([[-1.5], [-0.0], [0.0], [0.75]]).expand(4, 4)
    z = torch.complex(real, imag)
    net = aotc.from_torch(Call(functions), (z,))
    found = net(aotc.complexes.Complex(real.numpy(), imag.numpy()))
    for number, (one, other) in enumerate(zip(found, functions(z), strict=True)):
        parts = [one.real, one.imag] if isinstance(one, tuple) else [one]
        theirs = (
            torch.view_as_real(other.resolve_conj()).movedim(-1, 0)
            if other.is_complex()
            else other[None]
        )
        for mine, part in zip(parts, theirs, strict=True):
            assert canonical(mine.dtype) == canonical(part.numpy().dtype), number
            ours = np.asarray(mine, np.float64)
            np.testing.assert_allclose(ours, part.double(), 2e-5, 2e-6, str(number))


def test_complex_inputs_and_results_are_pairs():
    z = torch.randn(3, dtype=torch.complex64)
    net = aotc.from_torch(Call(lambda z: (z * z).conj()), (z,))
    found = net(aotc.complexes.Complex(z.real.numpy(), z.imag.numpy()))
    expected = (z * z).conj().resolve_conj().numpy()
    np.testing.assert_allclose(np.asarray(found.real), expected.real, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found.imag), expected.imag, rtol=1e-5)
    assert net.program("f").entries[0].name == "f"


# ---- what is refused ----------------------------------------------------------------


def test_all_unsupported_ops_are_named_at_once():
    def forward(x):
        return torch.rand(3) + x, torch.special.airy_ai(x), torch.randn(3)

    with pytest.raises(InputError) as caught:
        aotc.from_torch(Call(forward), (torch.ones(3),))
    assert caught.value.code == "unsupported-ops"
    for part in ("aten.rand.default", "aten.randn.default", "special_airy_ai"):
        assert part in caught.value.message
    assert "test_torch.py:" in caught.value.message


def test_a_branch_on_values_is_refused_at_its_line(model):
    error = model.refused(
        """
        import aotc, torch

        class Net(torch.nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    return x
                return -x

        net = aotc.from_torch(Net(), (torch.ones(2),))
        """
    )
    assert error.code == "torch-export"
    assert error.where == "model.py:6"
    assert "torch.cond" in error.hint


def test_attention_with_dropout_is_refused():
    def forward(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    with pytest.raises(InputError, match="draws random numbers"):
        aotc.from_torch(Call(forward), (torch.ones(1, 2, 3, 4),))


def test_shapes_that_depend_on_values_are_refused():
    with pytest.raises(InputError, match="depends on values"):
        aotc.from_torch(Call(lambda x: x.nonzero()), (torch.ones(3),))


def test_a_module_that_writes_to_its_input_is_refused():
    with pytest.raises(InputError, match="writes to its input"):
        aotc.from_torch(Call(lambda x: x.add_(1)), (torch.ones(3),))


READS_TWO = {
    "an element": lambda x: x[:, 1] + x[:, -2],
    "the largest": lambda x: x.topk(2, 1).values,
}


@pytest.mark.parametrize("function", READS_TWO.values(), ids=READS_TWO)
def test_the_promise_that_the_hint_asks_for_is_enough(function):
    rows, x = torch.export.Dim("rows"), torch.arange(12.0).reshape(3, 4)

    def imported(columns):
        shapes = (({0: rows, 1: columns},),)
        return aotc.from_torch(Call(function), (x,), dynamic_shapes=shapes)

    with pytest.raises(InputError) as caught:
        imported(torch.export.Dim("columns")).program()
    assert "torch.export.Dim('n', min=2" in caught.value.hint
    net = imported(torch.export.Dim("columns", min=2))
    contracts = net.program().entries[0].symbols
    assert [(each.name, each.min) for each in contracts] == [
        ("rows", 1),
        ("columns", 2),
    ]
    few = x[:1, :2]
    np.testing.assert_array_equal(net(few.numpy()), function(few).numpy())


def test_a_minimum_of_2_is_1_for_a_module_that_can_be_so_small(tmp_path):
    size, x = torch.export.Dim("size", min=2), torch.arange(6.0).reshape(3, 2)
    least = {}
    for name, function in {"any": torch.sin, "two": lambda x: x[1]}.items():
        options = {"dynamic_shapes": (({0: size},),)}
        net = aotc.from_torch(Call(function), (x,), **options)
        torch.export.save(
            torch.export.export(Call(function), (x,), **options), tmp_path / "net.pt2"
        )
        programs = net.program(), load(tmp_path / "net.pt2")
        least[name] = [each.entries[0].symbols[0].min for each in programs]
    assert least == {"any": [1, 1], "two": [2, 2]}


# ---- ops ----------------------------------------------------------------------------

IMAGE = torch.linspace(-2, 2, 2 * 4 * 9 * 7).reshape(2, 4, 9, 7)

MODULES = {
    "strided convolution": torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
    "transposed convolution": torch.nn.ConvTranspose2d(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=2
    ),
    "max pooling": torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "mean pooling": torch.nn.AvgPool2d(3, 2, 1),
    "adaptive pooling": torch.nn.AdaptiveAvgPool2d((3, 2)),
    "group norm": torch.nn.GroupNorm(2, 4),
    "instance norm": torch.nn.InstanceNorm2d(4),
    "upsampling": torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    "shuffled pixels": torch.nn.PixelShuffle(2),
    "softmax over channels": torch.nn.Softmax2d(),
    "reflected padding": torch.nn.ReflectionPad2d(2),
    "padding that goes round": torch.nn.CircularPad2d((1, 2, 3, 0)),
    "padding that goes round what is left": torch.nn.CircularPad2d((3, -1, -2, 4)),
    "mirrored padding that cuts": torch.nn.ReflectionPad2d((3, -1, -2, 4)),
    "padding with a number": torch.nn.ConstantPad2d((1, -2, 0, 3), 0.5),
    "parts": Call(lambda x: x.chunk(3, -1)),
}


@pytest.mark.parametrize("name", MODULES)
def test_layers_of_images_agree(name):
    agrees(MODULES[name], IMAGE)


def quantized(x):
    """`x` in 8 bits and back, with a scale for each column."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops = torch.ops.quantized_decomposed
    scales, zeros = torch.tensor([0.1, 0.3]), torch.tensor([0, 3])
    limits = 1, -128, 127, torch.int8
    levels = ops.quantize_per_channel(x, scales, zeros, *limits)
    return levels, ops.dequantize_per_channel(levels, scales, zeros, *limits)


def quantized_halves(x):
    """`x` in 16 bits and 8 and back, from numbers of half precision."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops, found = torch.ops.quantized_decomposed, []
    scales, zeros = torch.tensor([0.003, 0.3]), torch.tensor([9, 100])
    for half in x.half(), x.bfloat16():
        limits = -32768, 32767, torch.int16
        levels = ops.quantize_per_tensor(half, 0.003, 3, *limits)
        found += [
            levels,
            ops.quantize_per_channel(half, scales, zeros, 1, *limits),
            torch.fake_quantize_per_tensor_affine(half, 0.3, 100, 0, 255).float(),
            torch.fake_quantize_per_channel_affine(
                half, scales, zeros.int(), 1, 0, 255
            ).float(),
        ]
    wide = -(2**31), 2**31 - 1, torch.int32
    ends = torch.where(x > 0, 2**31 - 1, -(2**31)).int()
    return *found, ops.dequantize_per_tensor(ends, 0.5, -5, *wide)


def dynamically_quantized(x):
    """Levels spread over what `x` holds, in half precision too."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops = torch.ops.quantized_decomposed
    limits = -128, 127, torch.int8
    half = x.bfloat16()
    scale, zero = ops.choose_qparams(half, -128, 127, 1e-5, torch.int8)
    levels = ops.quantize_per_tensor.tensor(half, scale, zero, *limits)
    found = ops.dequantize_per_tensor.tensor(levels, scale, zero, *limits)
    return scale, zero, levels, found


def test_parameters_of_dynamic_quantization_agree_and_are_vectors():
    x = torch.linspace(-0.3, 1.7, 33).reshape(3, 11)
    agrees(Call(dynamically_quantized), x)
    agrees(Call(dynamically_quantized), x[0, 0].clone())
    found = aotc.from_torch(Call(dynamically_quantized), (x,))(x.numpy())
    assert [np.shape(part) for part in found[:2]] == [(1,), (1,)]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_factors_that_lead_to_equal_or_double_sizes_agree(rank):
    """PyTorch copies or repeats pixels there in some kernels, and not in others."""
    smooth = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[rank]

    def forward(x):
        return [
            torch.nn.functional.interpolate(x, scale_factor=factor, mode=mode)
            for mode in (*smooth, "nearest", "nearest-exact")
            for factor in (1.2, 2.3)
        ]

    image = torch.linspace(0, 1, 3**rank).reshape(1, 1, *[3] * rank) ** 2
    agrees(Call(forward), image)


def interpolated(**options):
    """A function that resizes an image."""
    return lambda x: torch.nn.functional.interpolate(x[None, None], **options)


ROWS = torch.tensor([[3.0, 1, 2, 1], [0, torch.nan, 5, 4]])
LONG = torch.arange(244.0).reshape(122, 2)
FUNCTIONS = {
    "casts": (lambda x: (x.to(torch.float64), x.long(), x.bool(), x.half()), LONG),
    "mirrored samples": (
        lambda x: torch.nn.functional.grid_sample(
            x[None, None], x[None, None] / 30 - 2, "bicubic", "reflection", True
        ),
        LONG[:9],
    ),
    "the nearest pixels in single precision": (interpolated(size=(128, 3)), LONG),
    "resizing by a factor": (interpolated(scale_factor=1.3), LONG[:9, :1]),
    "smooth resizing": (
        interpolated(size=(5, 3), mode="bilinear", antialias=True, align_corners=True),
        LONG[:9],
    ),
    "medians": (lambda x: (*x.median(1), x.median(), *x.nanmedian(1)), ROWS),
    "modes": (lambda x: x.mode(1), ROWS),
    "elements up to a number": (lambda x: x.histc(4, 0, 4), ROWS[0]),
    "places": (lambda x: torch.nonzero_static(x > 1, size=4), ROWS),
    "searched rows": (lambda x: torch.searchsorted(x.sort(1)[0], x), ROWS[:1]),
    "adaptive maxima": (
        lambda x: torch.nn.functional.adaptive_max_pool2d(x[None], (3, 2), True),
        LONG[:7].reshape(2, 7, 1),
    ),
    "combined rows": (
        lambda x: x.index_reduce(0, torch.tensor([1, 1]), x, "amax"),
        ROWS[:, [0, 2, 3]],
    ),
    "bags": (
        lambda x: torch.nn.functional.embedding_bag(
            torch.tensor([1, 0, 1]), x, torch.tensor([0, 2]), mode="mean"
        ),
        ROWS[:, :1],
    ),
    "checked inverses": (lambda x: torch.linalg.tensorinv(x, 1), ROWS[:, 2:]),
    "levels": (quantized, torch.tensor([[0.26, -9.0], [99.0, 1.5]])),
    "levels of half precision": (
        quantized_halves,
        torch.linspace(-99, 99, 64).reshape(32, 2),
    ),
}


def shifted(x):
    """Numbers and sizes that are shifted, also in place."""
    y = x.clone()
    y <<= 2
    bytes = x.to(torch.uint8)
    return x >> 1, -x >> 2, x << x, bytes << 7, bytes >> 1, y, x.new_ones(len(x) << 1)


def copied(x):
    """What is a copy, in each way to ask for one."""
    return [
        x.to("cpu", copy=True),
        x.to(copy=True),
        x.to(torch.float64, copy=True),
        x.to(x.double(), copy=True),
        x.to("cpu", torch.float16, copy=True).float(),
    ]


def checked(x):
    """What is asserted of all elements, as the models of transformers do it."""
    torch._check_tensor_all(x > -1e9)
    return x * 2, torch.ops.aten._is_all_true(x > 0), torch.ops.aten._is_any_true(x > 0)


def integer_products(x):
    """What torchao's dynamic quantization multiplies on CPUs: u8 and i8."""
    left = (x * 9 + 128).to(torch.uint8).repeat(17, 1)
    right = (x.T * 7).to(torch.int8).repeat(1, 8)
    return torch._int_mm(left, right), torch._int_mm(left.to(torch.int8), right)


FUNCTIONS |= {
    "integer products": (integer_products, torch.linspace(-9, 9, 16).reshape(1, 16)),
    "shifts": (shifted, torch.arange(6)),
    "copies": (copied, ROWS[0]),
    "checks": (checked, ROWS[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree(name):
    function, x = FUNCTIONS[name]
    agrees(Call(function), x)


def test_a_size_is_chosen_by_a_condition():
    def forward(x):
        return x * torch.sym_ite(x.shape[0] > 4, x.shape[0] * 2, x.shape[0])

    x, rows = torch.randn(7, 2), torch.export.Dim("rows")
    net = aotc.from_torch(Call(forward), (x,), dynamic_shapes=(({0: rows},),))
    module = net.program().module
    for size in (3, 4, 5, 7):
        x = torch.randn(size, 2)
        (found,) = reference.evaluate(module, "main", [x.numpy()])
        np.testing.assert_allclose(found, forward(x))


def test_an_argument_that_no_rule_takes_is_named(monkeypatch):
    from aotc.importers.torch.ops import OPS

    monkeypatch.setitem(OPS, "aten.neg", lambda: None)
    with pytest.raises(InputError, match="does not import aten.neg.default so") as got:
        aotc.from_torch(Call(lambda x: -x), (ROWS,)).program()
    assert got.value.code == "unsupported-ops"


def test_files_with_derived_sizes_are_read(tmp_path):
    """torch.export.load takes the range of `2*s0` for one of a symbol."""

    def forward(x):
        parts = torch.cat(x.chunk(2, 2), 1)
        return torch.nn.functional.pixel_unshuffle(x, 2), parts

    h, w = torch.export.Dim("h"), torch.export.Dim("w")
    shapes = (({2: 2 * h, 3: 2 * w},),)
    example = (torch.randn(1, 3, 8, 16),)
    program = torch.export.export(Call(forward), example, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "net.pt2")
    module = load(tmp_path / "net.pt2").module
    for size in ((8, 16), (6, 10), (2, 4)):
        x = torch.randn(1, 3, *size)
        found = reference.evaluate(module, "main", [x.numpy()])
        for ours, theirs in zip(found, forward(x), strict=True):
            np.testing.assert_allclose(ours, theirs)


SAVED = """
import sys, torch
{register}
class Net(torch.nn.Module):
    def forward(self, x):
        {body}
torch.export.save(torch.export.export(Net(), (torch.ones(3),)), sys.argv[1])
"""
PT2E = """
        ops, levels = torch.ops.quantized_decomposed, (0.5, 0, -128, 127, torch.int8)
        y = ops.quantize_per_tensor(x, *levels)
        return ops.dequantize_per_tensor(y, *levels)
"""
OWN = """
library = torch.library.Library("own", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
library._register_fake("twice", torch.empty_like)
"""


def saved(file, register, body):
    """A .pt2 file that another process has written."""
    text = SAVED.format(register=register, body=body.strip())
    subprocess.run([sys.executable, "-c", text, str(file)], check=True)
    return file


def test_files_of_pt2e_need_no_import(tmp_path):
    register = "import torch.ao.quantization.fx._decomposed"
    module = load(saved(tmp_path / "net.pt2", register, PT2E)).module
    (found,) = reference.evaluate(module, "main", [np.float32([0.6, 1.3, -9])])
    np.testing.assert_array_equal(found, [0.5, 1.5, -9])


def test_an_op_of_a_package_that_is_not_imported_is_named(tmp_path):
    file = saved(tmp_path / "net.pt2", OWN, "return torch.ops.own.twice(x)")
    with pytest.raises(InputError, match=r"torch.ops.own.twice.default, which is") as e:
        load(file)
    assert "build a model.py that imports it" in e.value.hint
    assert "torch.ao.quantization.fx._decomposed" in e.value.hint


def test_memory_of_another_layout_is_not_read_by_steps():
    def forward(x, strides):
        return x.as_strided((2, 2), strides)

    x = torch.randn(2, 2)
    agrees(Call(forward), x, (1, 2))
    with pytest.raises(InputError, match="row by row"):
        aotc.from_torch(Call(forward), (x.t(), (1, 2)))


SEQUENCE = torch.linspace(-1, 1, 2 * 5 * 3).reshape(2, 5, 3)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("ways", [False, True])
def test_recurrent_networks_agree(kind, ways):
    module = getattr(torch.nn, kind)(3, 4, 2, batch_first=True, bidirectional=ways)
    agrees(module, SEQUENCE)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_the_length_of_what_recurrent_networks_read_may_vary(kind):
    module = getattr(torch.nn, kind)(3, 4, batch_first=True).eval()
    length = torch.export.Dim("length", min=2)
    net = aotc.from_torch(module, (SEQUENCE,), dynamic_shapes=({1: length},))
    longer = torch.cat([SEQUENCE, 2 * SEQUENCE], 1)
    found = net(*stored(net), longer.numpy())[0]
    np.testing.assert_allclose(
        np.asarray(found), module(longer)[0].detach(), rtol=1e-5, atol=1e-6
    )


def test_rows_in_groups_are_multiplied_by_matrices_of_their_own():
    def forward(x, kernels):
        numbers = torch.tensor([0.0, 2.0, 2.0, 0.0, 2.0]).sort()[0]
        ends = torch.histc(numbers, 3, 0, 2).cumsum(0, dtype=torch.int32)
        return torch.nn.functional.grouped_mm(x, kernels, offs=ends).float()

    x, kernels = torch.arange(40.0).view(5, 8) % 3, torch.arange(192.0) % 5
    agrees(
        Call(lambda *a: forward(*(b.bfloat16() for b in a))), x, kernels.view(3, 8, 8)
    )


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_whole_and_agrees(causal):
    def forward(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal
        )

    q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
    agrees(Call(forward), q, k, v)
    net = aotc.from_torch(Call(forward), (q, k, v))
    assert "graph.attention" in str(net.program("f").module)


class Reshaped(torch.nn.Module):
    """Rows of a fixed length."""

    def forward(self, x):
        return x.reshape(-1, 8)


def test_what_a_size_divides_by_is_part_of_its_contract():
    shapes = ({0: torch.export.Dim.AUTO},)
    net = aotc.from_torch(Reshaped(), (torch.ones(24),), dynamic_shapes=shapes)
    (contract,) = net.program().entries[0].symbols
    assert contract.multiple_of == 8


def test_flags_are_those_that_the_module_was_exported_with():
    class Scaled(torch.nn.Module):
        def forward(self, x, flag, k=3):
            return x * k if flag else x

    net = aotc.from_torch(Scaled(), (torch.ones(3), True), {"k": 4})
    assert list(net.inputs) == ["x"]
    net.program()
    x = np.ones(3, "f4")
    np.testing.assert_array_equal(net(x), [4, 4, 4])
    np.testing.assert_array_equal(net(x, True, k=4), [4, 4, 4])
    with pytest.raises(InputError, match="exported for flag=True; got False"):
        net(x, False, 4)
    assert list(net.original.example) == ["x"]
    net.original.run({"x": np.ones(3, "f4")})


def test_roots_are_named_and_what_follows_is_counted():
    def forward(x):
        one, other = (torch.tril(x[x > bound][:, None]) for bound in (0, 1))
        return (one * 2).sum() + other.sum()

    with pytest.raises(InputError, match="1 kind of op") as caught:
        aotc.from_torch(Call(forward), (torch.ones(4),))
    assert "aten.tril.default (2×)" in caught.value.message
    assert "no rule for their padding" in caught.value.message
    assert "(3 more ops compute with that)" in caught.value.message


def test_a_file_that_returns_an_unknown_type_names_its_module(tmp_path):
    @dataclasses.dataclass
    class Output:
        y: torch.Tensor

    name = "zoo.outputs.Output"
    torch.export.register_dataclass(Output, serialized_type_name=name)
    torch.export.save(
        torch.export.export(Call(Output), (torch.ones(3),)), tmp_path / "net.pt2"
    )
    torch.utils._pytree._deregister_pytree_node(Output)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "net.pt2")
    assert "`import zoo.outputs`" in caught.value.hint
    assert "torch.export.load('net.pt2')" in caught.value.hint


@pytest.mark.parametrize(
    ("args", "shapes", "hint"),
    [
        (torch.ones(3), None, "(x,)"),
        ((np.ones(3, "f4"),), None, "torch.from_numpy"),
        ((), None, "aotc.from_torch(module, (x,))"),
        ((torch.ones(16),), ({0: torch.export.Dim("n")},), "8 * torch.export.Dim('n')"),
        ((torch.ones(16),), ({0: aotc.Dim("n")},), "with torch.export.Dim"),
    ],
)
def test_refusals_of_arguments_say_what_to_write(args, shapes, hint):
    with pytest.raises(InputError) as caught:
        aotc.from_torch(Reshaped(), args, dynamic_shapes=shapes)
    assert hint in caught.value.hint


def test_promises_of_sizes_are_told_in_the_words_of_torch():
    auto = torch.export.Dim.AUTO
    net = aotc.from_torch(
        Reshaped(), (torch.ones(3, 16),), dynamic_shapes=({0: auto, 1: auto},)
    )
    with pytest.raises(InputError, match="do not provably divide") as caught:
        net.program()
    assert "8 * torch.export.Dim('n')" in caught.value.hint
