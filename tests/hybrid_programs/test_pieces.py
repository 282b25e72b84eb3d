"""Graphs are taken apart into regions and islands that are as large as they can be."""

import numpy
import pytest

from aotc.errors import InputError
from aotc.hybrid_programs.pieces import Node, connect, split
from aotc.hybrid_programs.split_graphs import SplitGraph


def _nodes(*rows):
    """Nodes of rows like `a b -> c`; those with an `!` have no importer."""
    found = []
    for number, row in enumerate(rows):
        reads, _, makes = row.strip("!").partition("->")
        reason = "no importer" if row.startswith("!") else ""
        places = frozenset(reads.split()), (*makes.split(),)
        found.append(Node(*places, f"op{number}", f"file:{number}", reason))
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

    def compiled(self, piece, given):
        if self.bad in piece.nodes:
            raise InputError("unsupported", "found while it was traced\nmore")
        return self.loaded(piece, given)

    def loaded(self, piece, given):
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
    assert [each["nodes"] for each in graph.report()["regions"]] == [1, 1, 1]
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
        def compiled(self, piece, given):
            raise InputError("shape-mismatch", "sizes differ")

    graph = Refusing("sums", _nodes("x -> a"), "x", "a")
    with pytest.raises(InputError, match="sizes differ"):
        graph.compute({"x": numpy.ones(1)})
    assert not graph.boundaries
