"""The cache of an imported decoder: written and read where it lies."""

import warnings

import numpy as np
import pytest

import aotc
from aotc.dialects.functions.functions import functions_of
from aotc.errors import InputError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

torch = pytest.importorskip("torch")


class Step(torch.nn.Module):
    """Attention of one token to the positions up to its own."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.projection = torch.nn.Linear(32, 96)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 64, 16))

    def forward(self, x, position):
        q, k, v = self.projection(x).view(1, 1, 3, 2, 16).permute(2, 0, 3, 1, 4)
        self.write(self.keys, position, k)
        self.write(self.values, position, v)
        seen = torch.arange(64) <= position
        return torch.nn.functional.scaled_dot_product_attention(
            q, self.keys, self.values, seen[None, None, None]
        )


def copy(buffer, position, new):
    buffer.index_copy_(2, position, new)


def assign(buffer, position, new):
    buffer[:, :, position] = new


@pytest.mark.parametrize("write", [copy, assign])
def test_a_module_writes_one_position_and_reads_its_cache_as_it_lies(write, tmp_path):
    given = torch.ones(1, 1, 32), torch.tensor([3])
    torch.export.save(torch.export.export(Step(write), given), tmp_path / "step.pt2")
    unit = Unit(load(tmp_path / "step.pt2")).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    text = str(functions_of(unit.module)["main"].operation)
    assert "call @decoder" in text
    assert "graph.transpose" not in text
    run_passes(unit, PASS_STAGES[2].passes())
    assert str(unit.module).count("call @iree.write_window") == 2


# ---- caches in the form of transformers' StaticCache ---------------------------------


class Cache:
    """Keys that are written at the position of a call."""

    def __init__(self):
        self.keys = torch.zeros(1, 8, 4)

    def update(self, new, position):
        self.keys.index_copy_(1, position, new)
        return self.keys


class Registered(torch.nn.Module):
    """Attention to keys that a cache object and the module hold."""

    def __init__(self, register=True):
        super().__init__()
        self.cache = Cache()
        if register:
            self.register_buffer("keys", self.cache.keys)

    def forward(self, x, position):
        return x @ self.cache.update(x, position).transpose(1, 2)


class Given(torch.nn.Module):
    """The same with the cache as an argument."""

    def forward(self, x, position, cache):
        return x @ cache.update(x, position).transpose(1, 2)


class Pair(Cache):
    """A cache that torch takes as an argument."""


def restored(parts, _):
    cache = Pair.__new__(Pair)
    (cache.keys,) = parts
    return cache


torch.utils._pytree.register_pytree_node(
    Pair,
    lambda cache: ([cache.keys], None),
    restored,
    flatten_with_keys_fn=lambda cache: (
        [(torch.utils._pytree.GetAttrKey("keys"), cache.keys)],
        None,
    ),
)


TOKEN = torch.ones(1, 1, 4), torch.tensor([3])


def test_a_cache_object_whose_tensors_are_buffers_is_state():
    program = torch.export.export(Registered(), TOKEN, strict=True)
    net = aotc.from_torch(program)
    expected = program.module()
    state = net.state.tree
    for number in (3, 5, 3):
        given = torch.full((1, 1, 4), float(number)), torch.tensor([number])
        state, found = net(state, *(each.numpy() for each in given))
        assert (np.asarray(found) == expected(*given).numpy()).all()


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        (Registered(), TOKEN, "strict=True"),
        (Registered(register=False), TOKEN, "register_buffer"),
        (Given(), (*TOKEN, Cache()), "buffers of a module"),
        (Given(), (*TOKEN, Pair()), "buffer of the module"),
    ],
    ids=["buffer of both", "no buffer", "argument", "registered argument"],
)
def test_a_cache_that_cannot_be_exported_so_is_told_how_it_can(module, given, said):
    with pytest.raises(InputError) as caught:
        aotc.from_torch(module, given)
    assert said in str(caught.value.hint)


class Forgetful(torch.nn.Module):
    """Gives attributes values that no call of an exported program keeps."""

    def __init__(self, forget):
        super().__init__()
        self.forget, self.cache, self.past, self.count = forget, Cache(), [], 0
        self.last, self.mask = torch.zeros(1, 1, 4), None
        self.register_buffer("total", torch.zeros(1, 1, 4))

    def forward(self, x):
        last = self.last + self.count + self.cache.keys.sum() + self.total
        self.forget(self, x)
        return x + last


def assign_tensor(module, x):
    module.last = x


def assign_in_object(module, x):
    module.cache.keys = torch.cat([module.cache.keys, x], 1)


def count(module, x):
    module.count += 1


def append(module, x):
    module.past.append(x)


def update_buffer(module, x):
    module.total = module.total + x


def make_mask_again(module, x):
    module.same = tuple(x.shape)


@pytest.mark.parametrize(
    ("forget", "name"),
    [
        (assign_tensor, "self.last"),
        (assign_in_object, "self.cache.keys"),
        (count, "self.count"),
        (append, "the length of self.past"),
    ],
)
def test_what_forward_changes_and_no_call_keeps_is_a_warning(forget, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aotc.from_torch(Forgetful(forget), TOKEN[:1])
    (text,) = [str(each.message) for each in caught if "forward" in str(each.message)]
    assert f"forward changes {name} once" in text
    assert "test_torch_caches.py" in text


@pytest.mark.parametrize("forget", [update_buffer, make_mask_again])
def test_what_calls_keep_or_make_again_is_no_warning(forget):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        aotc.from_torch(Forgetful(forget), TOKEN[:1])


def test_an_island_that_changes_attributes_keeps_them_and_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        net = aotc.from_torch(Forgetful(count), TOKEN[:1], breaks="island")
        first, second = net(TOKEN[0]), net(TOKEN[0])
    assert (second - first == 1).all()
