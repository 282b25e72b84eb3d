"""Pytrees come apart and together again, in one order, with names for the leaves."""

from collections import OrderedDict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.core.pytree import (
    OrderedTree,
    flatten,
    flatten_in_order,
    leaf_names,
    subtrees,
    tree_map,
)
from aotc.dialects.plain import plain_tree, tree_of
from aotc.errors import InputError


class Point(NamedTuple):
    x: object
    y: object


trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.builds(Point, inner, inner),
    ),
    max_leaves=8,
)


@given(trees)
def test_a_tree_comes_back_as_it_was(tree):
    leaves, structure = flatten(tree)
    again = structure.unflatten(leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert structure.leaf_count == len(leaves) == len(leaf_names(structure))
    assert flatten(again)[1] == structure


@given(trees)
def test_mapping_keeps_the_form(tree):
    doubled = tree_map(lambda x, y: x + y, tree, tree)
    leaves, structure = flatten(tree)
    assert flatten(doubled) == ([2 * x for x in leaves], structure)


def test_dicts_are_visited_in_sorted_order_whatever_their_kind():
    one, structure = flatten({"b": 2, "a": 1})
    assert one == [1, 2]
    assert flatten(OrderedDict(b=0, a=0))[1] == structure


def test_ordered_trees_keep_their_order():
    tree = OrderedTree(b=2, a=OrderedTree(d=1, c=0))
    leaves, structure = flatten(tree)
    assert leaves == [2, 1, 0]
    again = structure.unflatten(leaves)
    assert type(again) is OrderedTree
    assert [*again] == ["b", "a"]
    assert [*again["a"]] == ["d", "c"]
    assert tree_of(plain_tree(structure)) == structure
    assert flatten(OrderedTree(a=1, b=2))[1] == flatten({"b": 2, "a": 1})[1]


@pytest.mark.parametrize(
    "tree",
    [{"b": 1, "a": 2}, {"b": 1, 2: 3}, {2: {"d": 1, "c": 2}}, OrderedTree(b=1, a=2)],
)
def test_trees_in_their_own_order_are_put_together_as_they_were(tree):
    leaves, structure = flatten_in_order(tree)
    again = structure.unflatten(leaves)
    assert repr(again) == repr(tree)
    assert type(again) is type(tree)


def test_leaves_are_named_by_their_path():
    tree = {"w": [1, (2,)], "p": Point(3, None), "x": {}}
    _, structure = flatten(tree)
    assert leaf_names(structure) == ["p.x", "w.0", "w.1.0"]
    assert leaf_names(structure, "state")[0] == "state.p.x"
    assert leaf_names(flatten(7)[1]) == [""]


def test_forms_differ_by_kind_and_keys():
    forms = [[1], (1,), {"a": 1}, {"b": 1}, Point(1, 1), (1, 1), 1, None, [], ()]
    assert len({str(flatten(tree)[1]) for tree in forms}) >= len(forms) - 1
    structures = [flatten(tree)[1] for tree in forms]
    assert all(a != b for n, a in enumerate(structures) for b in structures[:n])


def test_forms_are_written_for_messages_and_manifests():
    _, structure = flatten({"a": [1, (2, None)], "p": Point(3, 4)})
    assert str(structure) == "{a: [*, (*, None)], p: (*, *)}"
    assert structure.to_json() == {
        "dict": {
            "a": {"list": [0, {"tuple": [1, None]}]},
            "p": {"tuple": [2, 3]},
        }
    }


def test_keys_that_are_no_strings_are_refused():
    with pytest.raises(InputError, match="keys that are strings; got 1"):
        flatten({1: 2})


def test_dicts_that_are_flattened_in_their_order_stay_dicts_with_any_keys():
    for tree in ({"b": 1, "a": 2}, {2: 1, "a": {1: 3}}, OrderedTree(b=1, a=2)):
        leaves, structure = flatten_in_order(tree)
        found = structure.unflatten(leaves)
        assert list(found.items()) == list(tree.items())
        assert type(found) is type(tree)


def test_names_that_clash_are_refused():
    _, structure = flatten({"a.b": 1, "a": {"b": 2}})
    with pytest.raises(InputError, match=r"two leaves of the tree are called 'a\.b'"):
        leaf_names(structure)


def test_mapping_over_trees_of_different_forms_is_refused():
    with pytest.raises(InputError, match=r"got \[\*\] and \(\*\)") as caught:
        tree_map(max, [1], (1,))
    assert caught.value.code == "tree-mismatch"


def test_a_tree_is_cut_where_a_structure_ends():
    tree = {"a": [1, 2], "p": Point(3, None), "z": {}}
    for form in (tree, {"a": 0, "p": Point(0, 0), "z": 0}, 0):
        _, prefix = flatten(form)
        assert prefix.unflatten(subtrees(tree, prefix)) == tree
    assert subtrees(tree, flatten({"a": 0, "p": 0, "z": 0})[1]) == list(tree.values())
    for form in ({"a": 0}, {"a": [0], "p": 0, "z": 0}, {"a": 0, "p": (0, 0), "z": 0}):
        with pytest.raises(InputError, match="expected a tree that starts with"):
            subtrees(tree, flatten(form)[1])
