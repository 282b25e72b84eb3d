"""PyTorch modules with islands give what PyTorch gives."""

import numpy
import pytest

import aotc
from aotc.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn


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


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Deciding()
        self.norm = nn.LayerNorm(2)
        self.same = self.norm

    def forward(self, x, mask=None):
        found = self.inner(x, scale=2.0)["logits"].numpy()  # as a library would have it
        found = torch.from_numpy(found)
        return self.same(self.norm(found)) if mask is None else self.norm(found) * mask


def _tensors(tree):
    return [each.detach().numpy() for each in torch.utils._pytree.tree_leaves(tree)]


def _same(got, expected):
    for one, other in zip(_tensors(got), _tensors(expected), strict=True):
        assert one.dtype == other.dtype
        numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_what_is_around_an_island_is_compiled():
    torch.manual_seed(0)
    module = Outer().eval()
    hybrid = aotc.from_torch(module, (torch.ones(3, 6),), breaks="island")
    for rows in (3, 1, 4):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            _same(hybrid(x), module(x))
            _same(hybrid(x, mask=torch.ones(2)), module(x, mask=torch.ones(2)))
    places = {each.place: each for each in hybrid.boundaries}
    assert set(places) == {"Outer", "Outer.inner"}
    assert places["Outer.inner"].calls == 7
    assert places["Outer"].bytes_in == 2 * 4 * 6 * 8 + 3 * 24 + 3 * 8
    compiled = {each["module"] for each in hybrid.report()["regions"]}
    assert {"Outer.inner.first", "Outer.inner.rest.0", "Outer.norm"} <= compiled
    assert "Outer.inner.never" not in compiled
    assert hybrid.report()["graph_breaks"] == 2


def test_a_module_without_breaks_has_no_boundary():
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU()).eval()
    hybrid = aotc.from_torch(module, (torch.ones(2, 4),), breaks="island")
    with torch.no_grad():
        module[0].weight.zero_()  # the parameters are those that it was made with
    assert abs(hybrid(torch.ones(2, 4))).sum() > 0
    assert hybrid.boundaries == ()
    assert hybrid(torch.ones(2, 4)).add_(1).shape == (2, 4)  # can be written to


def test_by_default_a_break_is_an_error():
    with pytest.raises(InputError):
        aotc.from_torch(Outer().eval(), (torch.ones(3, 6),))


@pytest.mark.parametrize(
    "asked", [{"breaks": "some"}, {"breaks": "island", "train": True}]
)
def test_options_that_contradict_are_refused(asked):
    with pytest.raises(InputError) as caught:
        aotc.from_torch(Outer(), (torch.ones(3, 6),), **asked)
    assert caught.value.code == "bad-option"


def test_gradients_are_refused():
    hybrid = aotc.from_torch(Outer(), (torch.ones(3, 6),), breaks="island")
    with pytest.raises(InputError, match="requires_grad"):
        hybrid(torch.ones(3, 6, requires_grad=True))
