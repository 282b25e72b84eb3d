"""Modules of PyTorch whose forward changes something, or sees what others change."""

import copy
import pickle
import random
import threading

import numpy
import pytest

import aotc
from aotc.errors import InputError

torch = pytest.importorskip("torch")
from tests.hybrid_programs.hybrid_modules import (  # noqa: E402
    Counting,
    _compare,
    _decide,
    _hybrid,
    _reasons,
    _regions,
    _require_same,
    nn,
)

# ---- state


class Logging(Counting):
    def __init__(self):
        super().__init__()
        self.log = []

    def forward(self, x):
        self.log.append(len(x))
        return self.fc(x) * len(self.log)


class Buffered(Counting):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.fc(x) * self.count


class Unregistered(Buffered):
    def __init__(self):
        super().__init__()
        del self.count
        self.count = torch.zeros(())


class Normalizing(nn.Module):
    """Uses the statistics of a call, and updates those that it keeps."""

    def __init__(self):
        super().__init__()
        self.bn, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x):
        self.bn.train()
        trained = self.bn(x)
        self.bn.eval()
        return self.fc(trained) + self.bn(x)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (Counting, "'n'"),
        (Logging, "'log'"),
        (Buffered, "'count'"),
        (Unregistered, "'count'"),
        (Normalizing, "'bn."),
    ],
)
def test_what_forward_changes_is_not_compiled_in(kind, changed):
    calls = [((torch.randn(3, 4),), {}) for _ in range(3)]
    hybrid = _compare(nn.Sequential(kind()), *calls)
    assert changed in _reasons(hybrid)["Sequential.0"]
    assert _regions(hybrid)["Sequential.0.fc"]["variants"][0]["calls"] == 3


def test_what_forward_changes_in_a_container_that_it_is_given_is_changed():
    class Caching(nn.Module):
        def forward(self, x, cache):
            cache["keys"] = torch.cat([cache["keys"], x])
            return x + cache["keys"].sum()

    call = (torch.ones(1, 2), {"keys": torch.ones(1, 2)}), {}
    assert "container" in _reasons(_compare(Caching(), call))["Caching"]


def test_random_numbers_are_drawn_once_for_each_call():
    class Drawing(nn.Module):
        def forward(self, x):
            return x * random.randint(1, 1000) * numpy.random.rand()

    hybrid, found = _hybrid(Drawing()), []
    for module in (Drawing(), hybrid):
        random.seed(1)
        numpy.random.seed(1)
        found.append([module(torch.ones(2)) for _ in range(3)])
    _require_same(*found)
    assert "random" in _reasons(hybrid)["Drawing"]


class Scaled(nn.Module):
    scale = 1.0

    def forward(self, x):
        return x * self.scale


class Changing(nn.Module):
    """Changes the modules in it between calls of them."""

    def __init__(self):
        super().__init__()
        self.scaled, self.written, self.replaced = Scaled(), *_two_linears()
        self.scaled.scale, self.kept = 1.0, nn.Linear(4, 4)

    def forward(self, x):
        _decide(x)
        self.scaled.scale += 1
        self.replaced.weight.data = self.replaced.weight * 2
        with torch.no_grad():
            self.written.weight.mul_(2)
        return self.kept(self.scaled(self.written(self.replaced(x))))


def _two_linears():
    return nn.Linear(4, 4), nn.Linear(4, 4)


def test_what_python_changes_between_calls_is_seen():
    hybrid = _compare(Changing(), *[((torch.ones(2, 4),), {})] * 3)
    reasons = _reasons(hybrid)
    assert "'scale' has changed" in reasons["Changing.scaled"]
    assert "'weight' has changed" in reasons["Changing.written"]
    assert "'weight' has changed" in reasons["Changing.replaced"]
    assert "Changing.kept" not in reasons


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda net: net.train(), "inference-only"),
        (lambda net: nn.Sequential(net).train(), "inference-only"),
        (lambda net: net.load_state_dict(net.state_dict()), "fixed-weights"),
        (lambda net: net.half(), "fixed-weights"),
        (lambda net: nn.Sequential(net).to(torch.float64), "fixed-weights"),
        (lambda net: net(torch.ones(2, 4, requires_grad=True)), "bad-call"),
        (lambda net: aotc.from_torch(print, breaks="island"), "bad-model"),
        (lambda net: _hybrid(_Uncopied()), "bad-model"),
        (lambda net: _hybrid(nn.Tanh(), max_compiles=0), "bad-option"),
        (lambda net: _hybrid(nn.Tanh(), dynamic_shapes={}), "bad-option"),
    ],
)
def test_what_cannot_be_honoured_is_refused_at_the_line_of_the_user(act, code):
    net = _hybrid(nn.Linear(4, 4))
    with pytest.raises(InputError) as caught:
        act(net)
    assert caught.value.code == code
    # lines of these tests: of this file, or of the helper that it calls
    lines = ("test_torch_module_states.py:", "hybrid_modules.py:")
    assert caught.value.where.startswith(lines), caught.value.where
    assert caught.value.hint


class _Uncopied(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_copies_compile_anew_and_pickles_are_refused():
    module = nn.Linear(4, 4)
    hybrid = _hybrid(module)
    assert [*hybrid.eval().state_dict()] == ["weight", "bias"]
    assert [*nn.Sequential(hybrid).state_dict()] == ["0.weight", "0.bias"]
    other = copy.deepcopy(hybrid)
    _require_same(other(torch.ones(2, 4)), module(torch.ones(2, 4)).detach())
    assert (len(_regions(other)), len(_regions(hybrid))) == (1, 0)
    with pytest.raises(InputError, match="another process") as caught:
        pickle.dumps(hybrid)
    assert caught.value.code == "not-picklable"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (1, 1.0, False),
        (1, True, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        (numpy.float32(1), numpy.float64(1), False),
        ("a" * 99, "".join(["a"] * 99), True),
    ],
)
def test_types_and_signs_of_numbers_are_part_of_the_state(before, after, is_same):
    from aotc.hybrid_programs.torch.states import StateSnapshot

    module = nn.Linear(1, 1)
    module.n, module.kept = before, [(before,)]
    snapshot = StateSnapshot(module)
    assert snapshot.difference() is None
    module.n = after
    assert snapshot.difference() == (None if is_same else "n")
    module.n, module.kept[0] = before, (after,)
    assert snapshot.difference() == "kept"  # another object
