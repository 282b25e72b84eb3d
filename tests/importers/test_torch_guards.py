"""What torch.export takes for granted of sizes and values, every call is held to."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.artifacts.manifest import Guard, Leaf, Symbol
from aotc.checks.inputs import InputOptions, samples_of
from aotc.errors import InputError
from aotc.importers import load
from aotc.runtime.contract import CallContract

torch = pytest.importorskip("torch")
network_of = pytest.importorskip("aotc.importers.torch.network").network_of

AUTO = torch.export.Dim.AUTO


class Branching(torch.nn.Module):
    """Something else for square inputs."""

    def forward(self, x):
        if x.shape[0] == x.shape[1]:
            return x * 2
        return x + 1


class Promising(torch.nn.Module):
    """Promises about sizes, in nested arguments."""

    def forward(self, parts, *more, scale):
        x = parts["x"]
        torch._check(x.shape[0] + more[0].shape[0] < scale.shape[0] ** 2)
        return x.sum() + more[0].sum() + scale.sum()


class Asserting(torch.nn.Module):
    """Assertions about values."""

    def forward(self, x, n):
        torch._assert_async((x > 0).all(), "x is positive")
        count = n.item()
        torch._check(count < 9)
        return x * count


class Alike(torch.nn.Module):
    """Branches on two inputs whose paths are spelled alike."""

    def forward(self, x, x_0):
        if x[0].shape[0] == x_0.shape[0]:
            return x[0].sum() * x_0.sum()
        return x[0].sum() + x_0.sum()


def exported(module, args, shapes, kwargs=None, **options):
    return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, **options)


def branching(**options):
    shapes = {"x": {0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")}}
    return exported(Branching(), (torch.ones(3, 4),), shapes, **options)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_branch_on_sizes_is_a_guard_of_the_entry_with_its_line(deferred):
    program = branching(prefer_deferred_runtime_asserts_over_guards=deferred)
    (entry,) = network_of(program).program().entries
    (guard,) = entry.guards
    assert guard.condition == "rows != columns"
    assert guard.where.startswith("test_torch_guards.py:")


def test_inputs_that_are_spelled_alike_keep_sizes_of_their_own():
    shapes = {"x": [{0: torch.export.Dim("n")}], "x_0": {0: torch.export.Dim("m")}}
    program = exported(Alike(), ([torch.ones(3)], torch.ones(4)), shapes)
    (entry,) = network_of(program).program().entries
    (guard,) = entry.guards
    assert guard.condition in ("n != m", "m != n")


def test_the_reference_refuses_sizes_of_the_other_branch():
    program = network_of(branching()).program()
    (found,) = reference.evaluate(program.module, "main", [np.ones((2, 3), "f4")])
    np.testing.assert_array_equal(found, np.full((2, 3), 2))
    with pytest.raises(InputError, match="columns = 3, rows = 3") as caught:
        reference.evaluate(program.module, "main", [np.ones((3, 3), "f4")])
    assert caught.value.code == "shape-guard"


def test_a_file_keeps_the_guards(tmp_path):
    torch.export.save(branching(), tmp_path / "net.pt2")
    (entry,) = load(tmp_path / "net.pt2").entries
    assert [guard.condition for guard in entry.guards] == ["x_0 != x_1"]


def test_the_loader_refuses_a_call_that_breaks_a_guard():
    leaves = [Leaf("x", "f32", ("n", "m"))]
    symbols = {"n": Symbol(1, None, 1), "m": Symbol(1, None, 1)}
    guard = Guard("n != m", "it was traced so", "model.py:7")
    contract = CallContract("main", leaves, symbols, [guard])
    contract.arrays([np.ones((2, 3), "f4")])
    for _ in range(2):  # what is refused is not remembered as allowed
        with pytest.raises(InputError, match="m = 4, n = 4: it was traced") as caught:
            contract.arrays([np.ones((4, 4), "f4")])
        assert (caught.value.guard, caught.value.where) == ("n != m", "model.py:7")


def test_guards_on_nested_arguments_find_their_sizes():
    args = {"x": torch.ones(3)}, torch.ones(4)
    shapes = {"parts": {"x": {0: AUTO}}, "more": ({0: AUTO},), "scale": {0: AUTO}}
    program = exported(Promising(), args, shapes, {"scale": torch.ones(5)})
    (entry,) = network_of(program).program().entries
    (guard,) = entry.guards
    sizes = {"parts_x_0": 3, "more_0_0": 5, "scale_0": 3}
    assert guard.holds(sizes)
    assert not guard.holds(sizes | {"more_0_0": 6})


@pytest.mark.parametrize("file", [False, True])
def test_what_strict_mode_exports_has_the_same_guards(file, tmp_path):
    """It names the leaves of the arguments by their numbers."""
    args = {"x": torch.ones(3)}, torch.ones(4)
    shapes = {"parts": {"x": {0: AUTO}}, "more": ({0: AUTO},), "scale": {0: AUTO}}
    given = {"scale": torch.ones(5)}
    program = exported(Promising(), args, shapes, given, strict=True)
    torch.export.save(program, tmp_path / "net.pt2")
    found = load(tmp_path / "net.pt2") if file else network_of(program).program()
    (entry,) = found.entries
    (guard,) = entry.guards
    sizes = {"parts_x_0": 3, "more_0_0": 5, "scale_0": 3}
    assert guard.holds(sizes)
    assert not guard.holds(sizes | {"more_0_0": 6})


def test_an_entry_that_calls_a_network_is_held_to_its_guards(model):
    source = """
        import aotc, torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return x * 2 if x.shape[0] == x.shape[1] else x + 1

        any = torch.export.Dim.AUTO
        net = aotc.from_torch(
            Net(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: any, 1: any}}
        )

        @aotc.entry(x=aotc.Spec(SHAPE))
        def f(x):
            return net(x[1:])
        """
    error = model.refused(source.replace("SHAPE", "(4, 3)"))
    assert error.code == "shape-guard"
    assert error.where == "model.py:6"
    program = model.load(source.replace("SHAPE", "(aotc.Dim('n', min=3), 3)"))
    assert [g.condition for g in program.entry("f").guards] == ["n - 1 != 3"]


def test_sizes_to_compare_on_are_those_that_the_guards_allow():
    program = network_of(branching()).program()
    (entry,) = program.entries
    found = samples_of(program.module, entry, InputOptions(samples=4), None)
    assert all(x.sizes["rows"] != x.sizes["columns"] for x in found)


def test_conditions_on_memory_layout_are_no_guards():
    module = torch.nn.Flatten(0)
    program = exported(module, (torch.ones(3, 4),), {"input": {0: AUTO, 1: AUTO}})
    (entry,) = network_of(program).program().entries
    assert entry.guards == ()


def test_assertions_about_values_are_checked_by_each_call():
    program = exported(Asserting(), (torch.ones(2), torch.tensor(3)), None)
    graph = network_of(program).program().module
    x = np.ones(2, "f4")
    (found,) = reference.evaluate(graph, "main", [x, np.array(3)])
    np.testing.assert_array_equal(found, 3 * x)
    with pytest.raises(InputError, match="x is positive"):
        reference.evaluate(graph, "main", [-x, np.array(3)])
    with pytest.raises(InputError, match="u0 <= 8"):
        reference.evaluate(graph, "main", [x, np.array(9)])


def test_an_assertion_that_cannot_hold_is_refused_at_once():
    net = aotc.from_torch(Asserting(), (torch.ones(2), torch.tensor(3)))
    with pytest.raises(InputError, match="x is positive"):
        net(-np.ones(2, "f4"), np.array(3))
