"""Trees of the manifest: containers around the numbers of inputs and outputs."""

from aotc.artifacts import trees


def test_dicts_have_their_keys_in_the_order_of_their_leaves():
    """JSON sorts them by name."""
    build = trees.builder({"dict": {"a": 2, "b": {"list": [0, 1]}, "none": None}})
    assert list(build("xyz").items()) == [("none", None), ("b", ["x", "y"]), ("a", "z")]
    tree = {"dict": {"a": 1, "b": 0}}
    assert trees.flatten(tree, trees.builder(tree)("xy")) == {0: "x", 1: "y"}
