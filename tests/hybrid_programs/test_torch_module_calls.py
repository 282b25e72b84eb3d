"""Kinds of calls of hybrid modules of PyTorch: sizes, values, trees, dtypes."""

import collections
import threading

import pytest

from aotc.errors import InputError

torch = pytest.importorskip("torch")
from tests.hybrid_programs.hybrid_modules import (  # noqa: E402
    Inside,
    _compare,
    _decide,
    _hybrid,
    _regions,
    _require_same,
    nn,
)

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
    from aotc.hybrid_programs.torch import parts as torch_parts

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
