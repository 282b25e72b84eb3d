"""StableHLO modules are split into pieces; none of these tests needs jax."""

import sys

import numpy
import pytest

import aotc
from aotc.errors import InputError, SetupError
from aotc.hybrid_programs.graphs.pieces import split
from aotc.hybrid_programs.graphs.stablehlo_nodes import MainFunction
from aotc.importers.stablehlo.copying import excerpt
from aotc.importers.stablehlo.reading import parse

# the graph has no elements of 8-bit floats
ROUND = """
  %{0}h = stablehlo.convert %{0} : (tensor<{2}xf32>) -> tensor<{2}xf8E4M3FN>
  %{1} = stablehlo.convert %{0}h : (tensor<{2}xf8E4M3FN>) -> tensor<{2}xf32>
"""


def rounded(before, after, shape="4"):
    """Ops without importer: elements are rounded to 8 bits."""
    return ROUND.format(before, after, shape)


def module(body, arguments="%x: tensor<4xf32>", results="tensor<4xf32>"):
    """A module of one function."""
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


def pieces(text):
    """Operations of the islands, and how many nodes each region has."""
    nodes = MainFunction(parse(text, "text"), "main").nodes
    known = {x for each in nodes for x in each.reads}
    known -= {x for each in nodes for x in each.makes}
    found = split("text", nodes, range(len(nodes)), known)
    islands = [each.boundary.operation for each in found if each.boundary]
    return islands, [len(each.nodes) for each in found if not each.boundary]


def test_islands_and_regions_are_as_large_as_they_can_be():
    text = module(
        "%a = stablehlo.tanh %x : tensor<4xf32>"
        + rounded("a", "b")
        + "%c = stablehlo.negate %a : tensor<4xf32>"
        + rounded("c", "d")
        + "%e = stablehlo.add %b, %d : tensor<4xf32>\nreturn %e : tensor<4xf32>"
    )
    assert pieces(text) == (["stablehlo.convert"], [2, 1])


def test_constants_belong_to_each_piece_that_reads_them():
    text = module(
        "%k = stablehlo.constant dense<2.0> : tensor<f32>\n"
        "%w = stablehlo.broadcast_in_dim %k, dims = []"
        " : (tensor<f32>) -> tensor<4xf32>\n"
        "%a = stablehlo.add %x, %w : tensor<4xf32>"
        + rounded("a", "b")
        + "%e = stablehlo.add %b, %w : tensor<4xf32>\nreturn %e : tensor<4xf32>"
    )
    main = MainFunction(parse(text, "text"), "main")
    assert [each.operation for each in main.nodes] == [
        "stablehlo.add",
        "stablehlo.convert",
        "stablehlo.convert",
        "stablehlo.add",
    ]
    for node in (0, 3):
        value = main.values[min(main.nodes[node].reads)]
        given = {value: value.type}
        operations = [main.operations[node]]
        made, _ = excerpt(main.module, operations, given, [], main.should_copy)
        assert str(made).count("stablehlo.constant") == 1


def test_calls_are_inlined_so_that_an_island_has_no_more_than_it_must():
    text = (
        "func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        + "%t = stablehlo.tanh %a : tensor<4xf32>"
        + rounded("t", "u")
        + "%v = func.call @g(%u) : (tensor<4xf32>) -> tensor<4xf32>\n"
        + "return %v : tensor<4xf32> }\n"
        "func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%t = stablehlo.negate %a : tensor<4xf32>\nreturn %t : tensor<4xf32> }\n"
        + module(
            "%a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "%b = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "return %b : tensor<4xf32>"
        )
    )
    assert pieces(text) == (["stablehlo.convert"] * 2, [1, 2, 1])


def test_a_function_that_calls_itself_is_refused():
    text = (
        "func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%t = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "return %t : tensor<4xf32> }\n"
        + module(
            "%a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "return %a : tensor<4xf32>"
        )
    )
    with pytest.raises(InputError, match="@f calls itself"):
        aotc.from_stablehlo(text, breaks="island")


def test_an_op_is_an_island_if_something_in_its_regions_is():
    text = module(
        "%n = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
        "%i = stablehlo.constant dense<0> : tensor<i32>\n"
        "%a = stablehlo.tanh %x : tensor<4xf32>\n"
        '%r = "stablehlo.case"(%i) ({'
        + rounded("a", "b")
        + "stablehlo.return %b : tensor<4xf32>\n}, {\n"
        "stablehlo.return %n : tensor<4xf32>\n}) : (tensor<i32>) -> tensor<4xf32>\n"
        "%e = stablehlo.negate %r : tensor<4xf32>\nreturn %e : tensor<4xf32>"
    )
    assert pieces(text) == (["stablehlo.case"], [1, 1])
    (reason,) = [
        x.reason for x in MainFunction(parse(text, ""), "main").nodes if x.reason
    ]
    assert reason.startswith("stablehlo.convert: the graph has no elements")


def test_what_nothing_reads_is_left_out():
    text = module(
        "%a = stablehlo.tanh %x : tensor<4xf32>\n"
        "%b = stablehlo.negate %a : tensor<4xf32>\nreturn %a : tensor<4xf32>"
    )
    assert pieces(text) == ([], [1])


def test_a_module_without_islands_needs_no_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    text = module(
        "%n = stablehlo.get_dimension_size %x, dim = 0"
        " : (tensor<?x2xf32>) -> tensor<i32>\n"
        "%r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "%c = stablehlo.constant dense<1.5> : tensor<f32>\n"
        "%k = stablehlo.constant dense<7> : tensor<3xi64>\n"
        "%b = stablehlo.dynamic_broadcast_in_dim %c, %r, dims = []"
        " : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>\n"
        "%y = stablehlo.add %x, %x : tensor<?x2xf32>\n"
        "%w = stablehlo.multiply %z, %z : tensor<2xcomplex<f32>>\n"
        "return %y, %b, %x, %k, %w, %y : tensor<?x2xf32>, tensor<?xf32>,"
        " tensor<?x2xf32>, tensor<3xi64>, tensor<2xcomplex<f32>>, tensor<?x2xf32>",
        '%x: tensor<?x2xf32> loc("x"), %z: tensor<2xcomplex<f32>> loc("z")',
        "tensor<?x2xf32>, tensor<?xf32>, tensor<?x2xf32>, tensor<3xi64>,"
        " tensor<2xcomplex<f32>>, tensor<?x2xf32>",
    )
    graph = aotc.from_stablehlo(text, breaks="island")
    assert graph.boundaries == ()
    z = numpy.complex64([1 + 2j, 3])
    for rows in (3, 0):
        x = numpy.ones((rows, 2), "f")
        y, b, same, k, w, again = graph(x=x, z=z)
        assert y.tolist() == again.tolist() == (x + x).tolist()
        assert (b.tolist(), same.shape) == ([1.5] * rows, (rows, 2))
        assert (k.dtype, k.tolist()) == (numpy.int64, [7, 7, 7])
        assert (w.dtype, w.tolist()) == (numpy.complex64, (z * z).tolist())


def test_islands_without_jax_are_one_error_with_the_name_of_the_extra(monkeypatch):
    for name in ("jax", "jaxlib", "jaxlib.mlir"):
        monkeypatch.setitem(sys.modules, name, None)
    body = rounded("x", "y") + "return %y : tensor<4xf32>"
    with pytest.raises(SetupError) as caught:
        aotc.from_stablehlo(module(body), breaks="island")
    assert caught.value.code == "missing-extra"
    assert "[jax]" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "missing-input"),
        ({"x": numpy.ones(4, "f"), "y": 1}, "bad-call"),
        ({"x": numpy.ones(3, "f")}, "shape-mismatch"),
        ({"x": numpy.ones(4)}, "dtype-mismatch"),
    ],
)
def test_inputs_are_held_to_what_the_module_takes(given, code):
    text = module("return %x : tensor<4xf32>", '%x: tensor<4xf32> loc("x")')
    graph = aotc.from_stablehlo(text, breaks="island")
    with pytest.raises(InputError) as caught:
        graph(**given)
    assert caught.value.code == code


def test_a_check_of_sizes_is_made_by_each_call():
    text = module(
        "%n = stablehlo.get_dimension_size %x, dim = 0"
        " : (tensor<?xf32>) -> tensor<i32>\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%r = stablehlo.remainder %n, %two : tensor<i32>\n"
        "%zero = stablehlo.constant dense<1> : tensor<i32>\n"
        "%ok = stablehlo.compare EQ, %r, %zero"
        " : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        'stablehlo.custom_call @shape_assertion(%ok) {error_message = "odd, please",'
        " has_side_effect = true} : (tensor<i1>) -> ()\n"
        "return %x : tensor<?xf32>",
        "%x: tensor<?xf32>",
        "tensor<?xf32>",
    )
    graph = aotc.from_stablehlo(text, breaks="island")
    assert graph(numpy.ones(3, "f")).tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="odd, please"):
        graph(numpy.ones(4, "f"))


OPEN = module(
    "%y = stablehlo.add %x, %x : tensor<?xf32>\nreturn %y : tensor<?xf32>",
    '%x: tensor<?xf32> loc("x")',
    "tensor<?xf32>",
)


def test_code_of_regions_is_kept_for_a_few_shapes():
    graph = aotc.from_stablehlo(OPEN, breaks="island", max_variants=2)
    for size in (1, 2, 3, 0, 3):
        assert graph(numpy.ones(size, "f")).tolist() == [2] * size
    (region,) = graph.report()["regions"]
    assert region == {"nodes": 1, "variants": 2, "compiles": 4, "evictions": 2}


def test_too_many_shapes_are_an_error_that_leaves_what_there_is():
    graph = aotc.from_stablehlo(OPEN, breaks="island", max_compiles=2)
    for size in (1, 2):
        graph(numpy.ones(size, "f"))
    with pytest.raises(InputError, match="at most 2 compilations") as caught:
        graph(numpy.ones(3, "f"))
    assert caught.value.code == "recompile-storm"
    assert graph(numpy.ones(2, "f")).tolist() == [2, 2]


@pytest.mark.parametrize("limit", ["max_variants", "max_compiles"])
def test_limits_are_one_or_more(limit):
    with pytest.raises(InputError, match="1 or more"):
        aotc.from_stablehlo(OPEN, breaks="island", **{limit: 0})


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (numpy.ones((2, 2), "f"), "rank-mismatch"),
        (numpy.ones(2, "f2"), "dtype-mismatch"),
        ([1.0], "input-type"),
    ],
)
def test_inputs_of_open_sizes_are_held_to_the_rest_of_their_types(given, code):
    graph = aotc.from_stablehlo(OPEN, breaks="island")
    with pytest.raises(InputError) as caught:
        graph(given)
    assert caught.value.code == code


def test_by_default_an_op_without_importer_is_an_error():
    body = rounded("x", "y") + "return %y : tensor<4xf32>"
    with pytest.raises(InputError, match="f8E4M3FN"):
        aotc.from_stablehlo(module(body))
    with pytest.raises(InputError, match="breaks"):
        aotc.from_stablehlo(module(body), breaks="islands")
