"""Graphs are taken apart into regions and islands that are as large as they can be."""

import numpy
import pytest

from aotc.errors import InputError
from aotc.hybrid_programs.graphs.piece_codes import PieceKind
from aotc.hybrid_programs.graphs.pieces import GraphNode, connect, split
from aotc.hybrid_programs.graphs.split_graphs import SplitGraph


def _nodes(*rows):
    """Nodes of rows like `a b -> c`; those with an `!` have no importer."""
    found = []
    for number, row in enumerate(rows):
        reads, _, makes = row.strip("!").partition("->")
        reason = "no importer" if row.startswith("!") else ""
        places = frozenset(reads.split()), (*makes.split(),)
        found.append(GraphNode(*places, f"op{number}", f"file:{number}", reason))
    return found


def _pieces(nodes, inputs, outputs, stored=()):
    found = split("graph", nodes, range(len(nodes)), {*inputs, *stored})
    connect(found, nodes, outputs, stored)
    return found


def _summary(pieces):
    return [
        ("island" if each.boundary else "region", each.nodes, each.inputs, each.outputs)
        for each in pieces
    ]


def test_an_island_stands_between_two_regions():
    nodes = _nodes("x -> a", "!a -> b", "b a -> c")
    assert _summary(_pieces(nodes, "x", "c")) == [
        ("region", [0], ["x"], ["a"]),
        ("island", [1], ["a"], ["b"]),
        ("region", [2], ["a", "b"], ["c"]),
    ]


def test_nodes_that_are_independent_join_one_piece_of_their_kind():
    nodes = _nodes("!x -> a", "y -> b", "!b -> c", "a -> d", "c -> e")
    assert _summary(_pieces(nodes, "xy", "de")) == [
        ("region", [1], ["y"], ["b"]),
        ("island", [0, 2], ["b", "x"], ["a", "c"]),
        ("region", [3, 4], ["a", "c"], ["d", "e"]),
    ]


def test_what_a_piece_has_by_itself_is_not_handed_over():
    nodes = _nodes("x w -> a", "!a w -> b", "b w -> c")
    pieces = _pieces(nodes, "x", "c", "w")
    assert [each.inputs for each in pieces] == [["x"], ["a"], ["b"]]


def test_a_boundary_names_its_ops_and_the_first_reason():
    (piece,) = _pieces(_nodes("!x -> a", "!a -> b"), "x", "b")
    boundary = piece.boundary
    assert (boundary.place, boundary.operation) == ("file:0", "op0, op1")
    assert boundary.reason == "no importer"


class _Sums(SplitGraph):
    """A graph whose ops add up what they read; compiling ends at the node `bad`."""

    bad = None
    made = ()

    def compile_region(self, piece, given, sizes):
        if self.bad in piece.nodes:
            raise InputError("unsupported", "found while it was traced\nmore")
        return self.load_island(piece, given)

    def kind_of(self, piece, given):
        return PieceKind.of(given.values())

    def load_island(self, piece, given):
        self.made = (*self.made, (*piece.nodes,))

        def run(given):
            env = dict(given)
            for number in piece.nodes:
                node = self.nodes[number]
                env |= dict.fromkeys(node.makes, sum(env[x] for x in node.reads))
            return {name: env[name] for name in piece.outputs}

        return run

    def nodes_at_fault(self, piece):
        return [self.bad]


def test_an_op_that_a_region_turns_out_not_to_take_becomes_an_island_alone():
    nodes = _nodes("x -> a", "a -> b", "a b -> c", "!c -> d", "d -> e")
    graph = _Sums("sums", nodes, "x", "e")
    one = numpy.ones(2, "f")
    assert len(graph.boundaries) == 1
    graph.compute({"x": one})
    graph.bad = 1
    results = graph.compute({"x": numpy.ones(3, "f")})
    assert results["e"].tolist() == [2, 2, 2]
    regions = graph.report()["regions"]
    assert [each["nodes"] for each in regions] == [1, 3, 1, 1]  # of both kinds of calls
    assert [each.reason for each in graph.boundaries] == [
        "found while it was traced",
        "no importer",
    ]
    assert [each.calls for each in graph.boundaries] == [1, 2]


def test_code_is_made_once_for_each_kind_of_inputs():
    graph = _Sums("sums", _nodes("x -> a", "!a -> b"), "x", "b")
    for size in (2, 3, 2):
        graph.compute({"x": numpy.ones(size, "f")})
    assert graph.made == ((0,), (1,), (0,), (1,))


def test_an_error_of_the_call_is_no_reason_to_split():
    class Refusing(_Sums):
        def compile_region(self, piece, given, sizes):
            raise InputError("shape-mismatch", "sizes differ")

    graph = Refusing("sums", _nodes("x -> a"), "x", "a")
    with pytest.raises(InputError, match="sizes differ"):
        graph.compute({"x": numpy.ones(1)})
    assert not graph.boundaries


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("x -> a", "!a lost -> b", "b -> c"), "op1 reads 'lost', which no node"),
        (("x c -> a", "!a -> b", "b -> c"), "op0 reads 'c', and nodes that compute"),
        (("x b -> a", "lost a -> b"), "op1 reads 'lost', which no node"),
    ],
)
def test_a_graph_that_cannot_be_computed_is_refused_with_the_node(rows, told):
    nodes = _nodes(*rows)
    with pytest.raises(InputError, match=told) as caught:
        split("graph", nodes, range(len(nodes)), "x")
    assert caught.value.code == "bad-graph"
    assert caught.value.where.startswith("file:")


class _RefusesSmall(_Sums):
    """A graph that compiles nothing for fewer than two elements."""

    def compile_region(self, piece, given, sizes):
        if min(shape[0] for shape in sizes) < 2:
            raise InputError("unsupported", "too small")
        return self.load_island(piece, given)

    def nodes_at_fault(self, piece):
        return piece.nodes


def test_what_one_kind_of_calls_is_refused_for_stays_compiled_for_others():
    graph = _RefusesSmall("sums", _nodes("x -> a", "!a -> b"), "x", "b")
    for size in (3, 1, 3, 0, 1):
        found = graph.compute({"x": numpy.ones(size, "f")})
        assert found["b"].shape == (size,)
    assert graph.made == ((0,), (1,), (0, 1), (0, 1))
    whole, last = graph.boundaries
    assert (whole.calls, whole.bytes_in, whole.reason) == (3, 8, "too small")
    assert (last.calls, last.bytes_in, last.reason) == (2, 24, "no importer")
    assert graph.report()["regions"] == [
        {"nodes": 1, "variants": 1, "compiles": 1, "evictions": 0}
    ]


def test_a_region_that_nothing_was_compiled_of_is_not_tried_for_ever():
    class Never(_Sums):
        tried = 0

        def compile_region(self, piece, given, sizes):
            self.tried += 1
            raise InputError("unsupported", "never")

        def nodes_at_fault(self, piece):
            return piece.nodes

    graph = Never("sums", _nodes("x -> a"), "x", "a", limits=(2, 3))
    for size in (1, 2, 3):
        graph.compute({"x": numpy.ones(size)})
    graph.nodes[0].reason = ""
    with pytest.raises(InputError, match="3 compilations"):  # of the island
        graph.compute({"x": numpy.ones(4)})
    assert graph.tried == 3


def test_codes_that_were_not_called_for_longest_go():
    graph = _Sums("sums", _nodes("x -> a"), "x", "a", limits=(2, 32))
    for size in (1, 2, 1, 3, 1, 2):
        graph.compute({"x": numpy.ones(size)})
    assert len(graph.made) == 4  # 2 went for 3, and 3 for 2
    assert graph.report()["regions"] == [
        {"nodes": 1, "variants": 2, "compiles": 4, "evictions": 2}
    ]


def test_too_many_compilations_are_an_error_that_leaves_what_there_is():
    graph = _Sums("sums", _nodes("x -> a"), "x", "a", limits=(8, 3))
    for size in (1, 2, 3):
        graph.compute({"x": numpy.ones(size)})
    with pytest.raises(InputError, match="at most 3 compilations") as caught:
        graph.compute({"x": numpy.ones(4)})
    assert caught.value.code == "recompile-storm"
    assert "region from file:0 on" in caught.value.message
    assert graph.compute({"x": numpy.ones(3)})["a"].tolist() == [1, 1, 1]


class _Dynamic(_Sums):
    """A graph whose code may take all sizes but 7, and none if they are `odd`."""

    has_symbols = True
    odd = False
    asked = ()

    def compile_region(self, piece, given, sizes):
        self.asked = (*self.asked, sizes[0])
        is_number = isinstance(sizes[0][0], int)
        if self.odd and not is_number:
            raise InputError("unsupported", "sizes must be numbers")
        code = self.load_island(piece, given)

        def run(given):
            if not is_number and given["x"].shape == (7,):
                raise InputError("shape-guard", "expected x != 7")
            return code(given)

        return run


def test_after_the_second_size_code_takes_all_sizes():
    graph = _Dynamic("sums", _nodes("x -> a"), "x", "a")
    for size in (3, 4, 5, 0, 6, 3):
        graph.compute({"x": numpy.ones(size)})
    assert [str(each[0]) for each in graph.asked[:1]] == ["3"]
    assert graph.asked[1][0].min == 2
    assert graph.asked[2:] == ((0,),)  # empty arrays have code of their own


def test_sizes_that_code_does_not_take_after_all_have_code_of_their_own():
    graph = _Dynamic("sums", _nodes("x -> a"), "x", "a")
    for size in (3, 4, 7, 8, 7):
        assert len(graph.compute({"x": numpy.ones(size)})["a"]) == size
    assert [each for each in graph.asked if isinstance(each[0], int)] == [(3,), (7,)]


def test_where_sizes_must_be_numbers_each_has_code_of_its_own():
    graph = _Dynamic("sums", _nodes("x -> a"), "x", "a")
    graph.odd = True
    for size in (3, 4, 5):
        graph.compute({"x": numpy.ones(size)})
    assert graph.asked[0] == (3,)
    assert graph.asked[2:] == ((4,), (5,))
    assert not graph.boundaries
