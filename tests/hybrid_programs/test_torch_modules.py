"""PyTorch modules with islands give what PyTorch gives."""

import collections
import copy
import pickle
import random
import threading

import numpy
import pytest

import aotc
from aotc.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional
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
    """What torch.export refuses."""
    assert x.sum().item() < 1e6


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


# ---- state


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.n = nn.Linear(4, 4), 0

    def forward(self, x):
        self.n += 1
        return self.fc(x) * self.n


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
    assert "test_torch_modules.py" in caught.value.where
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


# ---- kinds of calls


def test_sizes_that_vary_share_code():
    sizes = [(2, 3, 4), (3, 4, 5), (5, 6, 2), (7, 8, 9), (5, 1, 2)]

    class Product(nn.Module):
        def forward(self, x, y):
            return x @ y, x.shape[0]

    calls = [((torch.randn(n, k), torch.randn(k, m)), {}) for n, k, m in sizes]
    hybrid = _compare(Product(), *calls)
    exact, dynamic, ones = _regions(hybrid)["Product"]["variants"]
    assert dynamic["sizes"] == [["x_0", "x_1"], ["x_1", "y_1"]]
    assert (exact["calls"], dynamic["calls"], ones["calls"]) == (1, 3, 1)


def test_sizes_that_forward_decides_on_have_code_of_their_own():
    class Deciding(nn.Module):
        def forward(self, x):
            return x * 2 if len(x) > 4 else x + 1

    hybrid = _compare(Deciding(), *[((torch.ones(n),), {}) for n in (3, 5, 2, 0)])
    region = _regions(hybrid)["Deciding"]
    assert [each["sizes"] for each in region["variants"]] == [
        [[3]],
        [[5]],
        [[2]],
        [[0]],
    ]
    assert "for some sizes only" in region["notes"][0]


class Scaling(nn.Module):
    def forward(self, x, factor):
        return x * factor


def test_values_that_vary_are_a_storm():
    hybrid = _hybrid(Scaling(), max_variants=2, max_compiles=3)
    for factor in (1.0, 2.0, 3.0):
        hybrid(torch.ones(3), factor)
    with pytest.raises(InputError, match="factor") as caught:
        hybrid(torch.ones(3), 4.0)
    assert caught.value.code == "recompile-storm"
    assert "max_compiles" in caught.value.hint
    region = _regions(hybrid)["Scaling"]
    assert (region["evictions"], len(region["variants"])) == (1, 2)


def test_what_cannot_be_compiled_is_not_tried_for_ever(monkeypatch):
    from aotc.hybrid_programs import torch_parts

    tried = []

    class Tracer(torch_parts.ModuleTracer):
        def __call__(self, call, *args, **kwargs):
            tried.append(call.shapes)
            return super().__call__(call, *args, **kwargs)

    monkeypatch.setattr(torch_parts, "ModuleTracer", Tracer)

    class Refused(nn.Module):
        def forward(self, x):
            _decide(x)
            return x

    hybrid = _hybrid(Refused())
    for n in (2, 3, 4, 5, 6, 2, 3):
        assert len(hybrid(torch.ones(n))) == n
    assert {*tried} == {((2,),), ((3,),), ((4,),)}
    assert hybrid.boundaries[0].calls == 7


def test_several_threads_share_the_code():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x):
            _decide(x)
            return self.part(x)

    module, errors = Whole(), []
    hybrid = _hybrid(module)

    def call(rows):
        try:
            for n in (rows, rows + 1, rows + 2):
                x = torch.randn(n, 4)
                with torch.no_grad():
                    expected = module(x)
                _require_same(hybrid(x), expected)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in (2, 3, 4, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert hybrid.boundaries[0].calls == 12
    region = _regions(hybrid)["Whole.part"]
    assert region["compiles"] + region["from_cache"] == 2


Pair = collections.namedtuple("Pair", "left right")


class Treed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, extra=(), *rest, mask=None, scale=2.0, flag=True):
        y = self.fc(x["v"]) + sum(extra) + sum(rest)
        y = y if mask is None else y.masked_fill(mask, 0.0)
        y = y * scale if flag else y
        return Pair(y, [{"sum": y.sum()}, None, x["v"].shape[0], 3, True])


class Inside(nn.Module):
    """A module as part of one that is an island."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, *args, **kwargs):
        found = self.part(*args, **kwargs)
        _decide(torch.zeros(1))
        return found


def test_trees_keywords_and_numbers_are_what_they_were():
    x, mask = {"v": torch.randn(2, 4)}, torch.ones(2, 4) > 0
    _compare(
        Inside(Treed()),
        ((x,), {}),
        ((x, [torch.ones(4), 2.0]), {"scale": -0.0}),
        ((x,), {"mask": mask, "flag": False}),
        ((x,), {"flag": False, "mask": mask}),
        ((x, (), torch.ones(4)), {}),
    )


def test_one_tensor_twice_is_another_kind_of_call():
    class Asking(nn.Module):
        def forward(self, query, key):
            return query + 1 if query is key else query - key

    hybrid, x, y = _hybrid(Asking()), torch.ones(3), torch.ones(3)
    _require_same(hybrid(x, x), torch.full((3,), 2.0))
    _require_same(hybrid(x, y), torch.zeros(3))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int64,
        torch.uint8,
        torch.bool,
    ],
)
def test_dtypes_sizes_and_layouts(dtype):
    class Mixed(nn.Module):
        def forward(self, x):
            return x + x, x.sum(), x[:, :1] > 0

    full = torch.arange(24).reshape(4, 6).to(dtype)
    views = (
        full[::2, 1::2],
        full.t()[:2, :3],
        full[:0],
        full[:1],
        full[0].expand(2, 6),
    )
    _compare(Mixed(), *[((view,), {}) for view in views])


def test_complex_and_negated_tensors():
    class Complex(nn.Module):
        def forward(self, x):
            return x * (1 + 2j), x.real

    x = torch.randn(3, dtype=torch.complex64)
    _compare(Complex(), ((x,), {}), ((x.conj(),), {}))
    hybrid = _hybrid(nn.Tanh())
    _require_same(hybrid(x.conj().imag), torch.tanh(x.conj().imag))  # a lazy negation


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
    from aotc.hybrid_programs.torch_calls import signature_of
    from aotc.hybrid_programs.torch_exporting import ModuleTracer

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
