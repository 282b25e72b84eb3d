"""Which of several exports computes a call."""

import numpy as np
import pytest

from aotc.artifacts import write_bundle
from aotc.artifacts.manifest import Code, EntryPoint
from aotc.errors import VerificationError
from aotc.runtime import load


@pytest.fixture
def load_with(manifest, files, signer, trust, tmp_path):
    """The model whose entry `echo` has some specializations."""

    def make(*specializations):
        (echo,) = (e for e in manifest["entry_points"] if e["name"] == "echo")
        echo["specializations"] = list(specializations)
        bundle = write_bundle(tmp_path, manifest, files, signer)
        return load(bundle, trust=trust, threads=1)

    return make


def test_calls_of_its_sizes_have_the_specialization_and_others_the_general_code(
    load_with,
):
    model = load_with({"export": "echo__k_4", "sizes": {"k": 4}})
    for size in (4, 3, 4, 0, 5, 4):
        x = np.arange(size, dtype="f4")
        factor = 2 if size == 4 else 1  # the export that is for 4 doubles
        np.testing.assert_array_equal(model.echo(x=x), factor * x)


def test_more_shapes_than_are_remembered_have_their_code_all_the_same(load_with):
    model = load_with({"export": "echo__k_4", "sizes": {"k": 4}})
    for size in [*range(300), 4]:
        assert model.echo(x=np.ones(size, "f4")).sum() == size * (1 + (size == 4))


def test_a_specialization_that_the_module_does_not_export_is_refused(load_with):
    with pytest.raises(VerificationError, match="'echo__k_8'") as caught:
        load_with({"export": "echo__k_8", "sizes": {"k": 8}})
    assert caught.value.code == "entry-missing"


@pytest.mark.parametrize(
    "specialization",
    [
        {"export": "echo__k_4", "sizes": {"batch": 4}},
        {"export": "echo__k_4", "sizes": {"elephants": 4}},
        {"export": "echo__k_4", "sizes": {"k": -4}},
        {"export": "echo__k_4", "sizes": {"k": "4"}},
        {"export": "echo k", "sizes": {"k": 4}},
        {"sizes": {"k": 4}},
    ],
)
def test_a_manifest_with_sizes_that_no_input_decides_is_refused(
    load_with, specialization
):
    with pytest.raises(VerificationError) as caught:
        load_with(specialization)
    assert caught.value.code == "manifest-invalid"


def test_the_code_that_was_made_for_most_sizes_is_the_one_that_is_called():
    point = EntryPoint(
        "f", "infer", (), {}, (), 0, (), (),
        specializations=(
            Code("one", {"n": 1}),
            Code("both", {"n": 1, "m": 2}),
            Code("other", {"m": 3}),
        ),
    )  # fmt: skip
    sizes = {"one": (1, 3), "both": (1, 2), "other": (2, 3), "f": (2, 2)}
    found = {k: point.code_for({"n": n, "m": m}) for k, (n, m) in sizes.items()}
    assert {k: code.export for k, code in found.items()} == {k: k for k in sizes}
    assert point.exports == ("f", "one", "both", "other")


def test_a_call_is_padded_as_little_as_there_is_code_for():
    point = EntryPoint(
        "f", "infer", (), {}, (), 0, (), (),
        specializations=(
            Code("small", {"n": 8}, ("n",), ("n", "m")),
            Code("large", {"n": 64}, ("n",), ("n", "m")),
            Code("fixed", {"n": 64, "m": 2}, ("n",), ("n",)),
        ),
        has_general_code=False,
    )  # fmt: skip
    sizes = {(1, 1): "small", (8, 2): "small", (9, 1): "large", (64, 2): "fixed"}
    found = {(n, m): point.code_for({"n": n, "m": m}).export for n, m in sizes}
    assert found == sizes
    assert point.code_for({"n": 65, "m": 2}) is None
    assert point.exports == ("small", "large", "fixed")
