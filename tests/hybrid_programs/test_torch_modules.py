"""PyTorch modules with islands give what PyTorch gives."""

import copy

import numpy
import pytest

import aotc
from aotc.errors import InputError

torch = pytest.importorskip("torch")
from tests.hybrid_programs.hybrid_modules import (  # noqa: E402
    Counting,
    Deciding,
    Inside,
    _compare,
    _decide,
    _hybrid,
    _reasons,
    _regions,
    _require_same,
    nn,
)

functional = torch.nn.functional


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


# ---- compared with the original, call by call


class Touching(nn.Module):
    """`forward` looks into the modules that it has, in all ways that there are."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.scales = nn.ParameterList([torch.full((4,), 2.0)])
        self.shifts = nn.ParameterDict({"last": torch.ones(4)})
        self.nested = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(4, 4)])})

    def forward(self, x):
        _decide(x)
        x = functional.linear(x, self.fc.weight)
        for each in self.seq:
            x = each(x)
        x = self.seq[0](x) * self.scales[0] + self.shifts["last"] * len(self.seq)
        for name in self.nested:
            x = self.nested[name][0](x)
        return self.fc(x) + self.fc.bias


def test_forward_may_look_into_the_modules_in_it():
    hybrid = _compare(Touching(), ((torch.randn(3, 4),), {}))
    assert {*_reasons(hybrid)} == {"Touching"}
    assert {"Touching.seq.0", "Touching.nested.a.0"} <= {*_regions(hybrid)}


def test_a_wrong_call_changes_nothing():
    hybrid = _hybrid(nn.Linear(8, 4))
    wrong, right = torch.ones(2, 7), torch.ones(2, 8)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            hybrid(wrong)
    hybrid(right)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        hybrid(wrong)
    hybrid(right)
    (variant,) = _regions(hybrid)["Linear"]["variants"]
    assert variant["calls"] == 2
    assert hybrid.boundaries == ()


def test_the_reason_of_an_island_is_none_of_a_wrong_call():
    hybrid = _hybrid(nn.Sequential(Counting()))
    with pytest.raises(RuntimeError):
        hybrid(torch.ones(2, 7))
    hybrid(torch.ones(2, 4))
    assert "'n'" in _reasons(hybrid)["Sequential.0"]


def test_calls_that_cannot_be_compiled_leave_the_code_of_others():
    class Flagged(nn.Module):
        def forward(self, x, decides=False):
            if decides:
                _decide(x)
            return x * 2

    x = torch.ones(2)
    hybrid = _compare(
        Flagged(), ((x,), {}), ((x,), {"decides": True}), ((x,), {"decides": False})
    )
    assert hybrid.boundaries[0].calls == 1
    assert len(_regions(hybrid)["Flagged"]["variants"]) == 2


# ---- what PyTorch does around modules


def test_results_that_are_views_stay_views():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(nn.Identity(), nn.Dropout(), nn.Flatten())
            self.both = _Twice()

        def forward(self, x):
            _decide(x)
            self.parts(x).add_(1)
            whole, row = self.both(x)
            whole.mul_(2)
            return whole, row * 1

    hybrid = _compare(Viewing(), ((torch.ones(2, 3),), {}))
    reasons = _reasons(hybrid)
    assert "view" in reasons["Viewing.parts"]
    assert "views of one another" in reasons["Viewing.both"]


class _Twice(nn.Module):
    def forward(self, x):
        found = x * 3
        return found, found[:1]


def test_an_input_that_is_written_to_is_written_to():
    class Writing(nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    assert "writes" in _reasons(_compare(Writing(), ((torch.ones(3),), {})))["Writing"]


def test_hooks_are_called_for_each_call():
    called = []

    def hook(module, args, result):
        called.append(len(called))
        return result * len(called)

    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval()
    module[1].register_forward_hook(hook)
    hybrid, x = _hybrid(module), torch.ones(2, 4)
    with torch.no_grad():
        plain = module(x)
    for turn in (2.0, 3.0):
        _require_same(hybrid(x), plain * turn)
    assert {*_regions(hybrid)} == {"Sequential.0", "Sequential.1"}


def test_gradients_inside_of_an_island():
    class Forces(nn.Module):
        def __init__(self):
            super().__init__()
            self.energy = nn.Sequential(nn.Linear(3, 5), nn.Tanh())

        def forward(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                (found,) = torch.autograd.grad(self.energy(x).sum(), x)
            return self.energy(x.detach()), found

    hybrid = _compare(Forces(), ((torch.randn(4, 3),), {}))
    assert _reasons(hybrid)["Forces.energy"] == "gradients are enabled"
    assert _regions(hybrid)["Forces.energy"]["variants"][0]["calls"] == 1


def test_modes_and_transformations_of_torch():
    class Mapped(Inside):
        def forward(self, x):
            _decide(x)
            return torch.func.vmap(self.part)(x)

    module, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    _compare(Mapped(nn.Linear(4, 4)), ((x,), {}))
    hybrid = _hybrid(module)
    with torch.inference_mode():
        _require_same(hybrid(x), module(x))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        _require_same(hybrid(x), module(x))


def test_shared_tied_and_parametrized_modules():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight
            self.a = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
            self.again = nn.Sequential(self.a, nn.Tanh())

        def forward(self, tokens):
            x = self.embed(tokens)
            _decide(x)
            return self.out(self.again(self.a(x)))

    hybrid = _compare(Tied(), ((torch.tensor([1, 4]),), {}))
    assert {*_reasons(hybrid)} == {"Tied"}


def test_recurrent_networks_and_torchscript():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.Sequential(nn.LSTM(4, 3, batch_first=True))
            self.script = torch.jit.script(nn.Linear(3, 3))

        def forward(self, x):
            return self.script(self.lstm(x)[0])

    hybrid = _compare(Parts(), ((torch.randn(2, 5, 4),), {}))
    assert _reasons(hybrid) == {"Parts": "modules in it are TorchScript's"}
    assert {*_regions(hybrid)} == {"Parts.lstm"}


def test_the_digest_of_the_source_is_of_code_and_weights():
    from aotc.hybrid_programs.torch.calls import signature_of
    from aotc.hybrid_programs.torch.exporting import ModuleTracer

    def digest(module):
        args = (torch.ones(2, 4),)
        call = signature_of(("input",), args, {})
        traced = ModuleTracer(module, "net", "net", True)(call, args, {})
        return traced.program.source["sha256"]

    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    first = digest(module)
    assert digest(copy.deepcopy(module)) == first
    assert digest(nn.Sequential(module[0], nn.ReLU())) != first
    with torch.no_grad():
        module[0].bias.add_(1)
    assert digest(module) != first


def test_modules_with_a_forward_of_their_own_and_lazy_ones():
    module = nn.Module()
    module.fc = nn.Linear(4, 2)
    module.forward = lambda x: torch.ones(2) * len(x)
    hybrid = _hybrid(module)
    _require_same(hybrid(torch.ones(3, 4)), torch.full((2,), 3.0))
    assert {*_regions(hybrid)} == {"Module"}
    assert _hybrid(nn.Sequential(nn.LazyLinear(2)))(torch.ones(3, 4)).shape == (3, 2)


def test_tensors_that_are_not_dense():
    x = torch.eye(4).to_sparse()
    hybrid = _compare(nn.Linear(4, 4), ((x,), {}))
    assert "dense" in _reasons(hybrid)["Linear"]
