"""Modules of PyTorch, hybrid and as they are, compared call by call."""

import copy

import pytest

import aotc

torch = pytest.importorskip("torch")


nn = torch.nn

trees = torch.utils._pytree


class Deciding(nn.Module):
    """`forward` decides on values, which torch.export refuses."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.rest = nn.ModuleList([nn.Linear(8, 8), nn.Tanh()])
        self.last = nn.Linear(8, 2)
        self.never = nn.Linear(3, 3)

    def forward(self, x, *, scale=1.0):
        h = self.first(x)
        if h.sum().item() > 1e6:
            return self.never(h)
        for each in self.rest:
            h = each(h)
        return {"logits": self.last(h) * scale, "hidden": (h,)}


# ---- compared with the original, call by call


def _hybrid(module, **asked):
    return aotc.from_torch(module.eval(), breaks="island", **asked)


def _require_same(got, expected):
    """Trees of the same containers, types, dtypes and values."""
    found, form = trees.tree_flatten(got)
    wanted, wanted_form = trees.tree_flatten(expected)
    assert form == wanted_form
    for one, other in zip(found, wanted, strict=True):
        assert type(one) is type(other)
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        else:
            assert one == other


def _compare(module, *calls):
    """Compute calls by a hybrid module and by the original; arguments alike, too."""
    hybrid, original = _hybrid(module), copy.deepcopy(module).eval()
    for args, kwargs in calls:
        own, others = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        with torch.no_grad():
            expected = original(*others[0], **others[1])
        _require_same(hybrid(*own[0], **own[1]), expected)
        _require_same(own, others)
    return hybrid


def _reasons(hybrid):
    return {each.place: each.reason for each in hybrid.boundaries}


def _regions(hybrid):
    return {each["module"]: each for each in hybrid.report()["regions"]}


def _decide(x):
    """Decide on a value, which torch.export refuses (it takes an `assert`)."""
    if x.sum().item() >= 1e6:
        raise ValueError("too large")


# ---- state


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.n = nn.Linear(4, 4), 0

    def forward(self, x):
        self.n += 1
        return self.fc(x) * self.n


# ---- kinds of calls


class Inside(nn.Module):
    """A module as part of one that is an island."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, *args, **kwargs):
        found = self.part(*args, **kwargs)
        _decide(torch.zeros(1))
        return found
