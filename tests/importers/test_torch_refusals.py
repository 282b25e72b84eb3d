"""PyTorch modules that are refused, and what their errors say."""

import numpy as np
import pytest

import aotc
from aotc.errors import InputError
from aotc.importers import load

torch = pytest.importorskip("torch")
from tests.importers.torch_modules import ROWS, Call  # noqa: E402

# ---- what is refused ----------------------------------------------------------------


def test_all_unsupported_ops_are_named_at_once():
    def forward(x):
        return torch.rand(3) + x, torch.special.airy_ai(x), torch.randn(3)

    with pytest.raises(InputError) as caught:
        aotc.from_torch(Call(forward), (torch.ones(3),))
    assert caught.value.code == "unsupported-ops"
    for part in ("aten.rand.default", "aten.randn.default", "special_airy_ai"):
        assert part in caught.value.message
    assert "test_torch_refusals.py:" in caught.value.message


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


def test_an_argument_that_no_rule_takes_is_named(monkeypatch):
    from aotc.importers.torch.ops import OPS

    monkeypatch.setitem(OPS, "aten.neg", lambda: None)
    with pytest.raises(InputError, match="does not import aten.neg.default so") as got:
        aotc.from_torch(Call(lambda x: -x), (ROWS,)).program()
    assert got.value.code == "unsupported-ops"


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
        one, other = (torch.unique_consecutive(x[x > bound]) for bound in (0, 1))
        return (one * 2).sum() + other.sum()

    with pytest.raises(InputError, match="1 kind of op") as caught:
        aotc.from_torch(Call(forward), (torch.ones(4),))
    assert "aten.unique_consecutive.default (2×)" in caught.value.message
    assert "the shape of its result depends on values" in caught.value.message
    assert "(15 more ops compute with that)" in caught.value.message


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
