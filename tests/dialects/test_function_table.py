"""The table of a module's functions says what a walk over the module would."""

import pytest

from aotc.dialects import context
from aotc.dialects.functions import functions
from aotc.dialects.functions.function_table import erase, index_functions, table_of
from aotc.dialects.functions.transform import Jvp, Vjp, derive
from aotc.dialects.types import Tensor
from aotc.mlir import func, ir

F32 = Tensor((3,), "f32")


@pytest.fixture
def module():
    """A module with the function `f` of an array; ops are inserted there."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        kind = F32.to_mlir()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([kind], [kind]))
        with ir.InsertionPoint(function.add_entry_block()):
            yield module


def identity(name: str) -> str:
    """Define the identity by this name."""
    return functions.define(name, [F32], lambda values: values)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_names_take_the_least_number_that_is_free(module, is_indexed):
    def names():
        found = [identity("g"), identity("g"), identity("g_1"), identity("g")]
        erase(functions.find("g_1"))
        return [*found, identity("g"), identity("g")]

    if is_indexed:
        with index_functions(module):
            found = names()
    else:
        found = names()
    assert found == ["g", "g_1", "g_1_1", "g_2", "g_1", "g_3"]


def test_what_is_declared_meanwhile_is_found_and_what_is_erased_is_not(module):
    with index_functions(module) as table:
        name = identity("g")
        assert functions.find(name) == table[name]
        erase(table[name])
        with pytest.raises(KeyError):
            functions.find(name)
        assert [*table] == ["f"]


def test_a_derivative_is_declared_once_and_anew_when_it_was_erased(module):
    with index_functions(module):
        one, other = derive(Vjp("f", (0,))), derive(Jvp("f", (0,)))
        assert one != other  # of different kinds, though equal as tuples
        assert derive(Vjp("f", (0,))) == one
        erase(functions.find(one))
        assert derive(Vjp("f", (0,))) == one
        assert functions.find(one).is_external
        assert derive(Jvp("f", (0,))) == other


def test_a_function_made_behind_its_back_is_an_error_of_aotc(module):
    with (
        pytest.raises(AssertionError, match="behind the table's back"),
        index_functions(module),
        ir.InsertionPoint(module.body),
    ):
        func.FuncOp("g", ([], []), visibility="private")


def test_a_table_is_for_its_module_only(module):
    with index_functions(module):
        assert [*table_of(ir.Module.create())] == []
        assert [*table_of(module)] == ["f"]
