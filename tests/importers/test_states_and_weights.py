"""Weights and states: what entries read and return, and what is refused."""

import numpy as np
import pytest

import aotc
from aotc.errors import InputError
from aotc.tracing.archives import load_arrays
from tests.importers.entries import HEAD, refused_model

# ---- weights and state --------------------------------------------------------------


def entry(parameters, result, *sources):
    """The source of an entry."""
    listed = ", ".join(("x=aotc.Spec(3)", *sources))
    return f"@aotc.entry({listed})\ndef f({parameters}, x): return {result}\n"


NEW = "{'w': state['w'] + x, 'n': state['n'] + 1}"


def test_a_state_is_returned_first_and_its_results_are_no_outputs(model):
    for result, outputs in (
        (NEW, 0), (f"{NEW}, x", 1), (f"({NEW}, x, x)", 2), (f"({NEW}, {{'a': x}})", 1),
        (f"({NEW}, None)", 0),
    ):  # fmt: skip
        (made,) = model.load(HEAD + entry("state", result)).entries
        assert [p.kind for p in made.results] == ["state"] * 2 + ["output"] * outputs
        assert made.updates == made.reads == ("state",)


def test_a_frozen_state_is_read_and_shared(model):
    program = model.load(
        HEAD
        + entry("state", NEW)
        + entry("s", "s['w'] + x", "s=state.frozen").replace("f(", "g(")
    )
    assert [e.updates for e in program.entries] == [("state",), ()]
    assert [e.reads for e in program.entries] == [("state",), ("state",)]
    assert list(program.parameters) == ["state.n", "state.w"]
    assert len(program.states) == 1


def test_python_numbers_in_a_state_have_the_widths_of_aotc(model):
    program = model.load(HEAD + entry("state", NEW))
    assert program.parameters["state.n"].dtype == np.int32


def test_named_tuples_are_states(model):
    program = model.load(
        HEAD
        + "class Pair(NamedTuple):\n    w: object\n    n: object\n"
        + "pair = aotc.State(Pair(one, 0))\n"
        + entry("pair", "(Pair(pair.w + x, pair.n), pair.w)")
    )
    assert program.states[0].leaves == ("pair.w", "pair.n")
    assert [p.name for p in program.entries[0].results] == [
        "pair.w",
        "pair.n",
        "output",
    ]


def test_two_states_are_returned_in_the_order_of_the_parameters(model):
    program = model.load(
        HEAD
        + "other = aotc.State(one)\n"
        + entry("other, state", f"(other + x, {NEW}, x)")
    )
    (made,) = program.entries
    assert [p.name for p in made.results] == ["other", "state.n", "state.w", "output"]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("x", "must return its new value first"),
        ("None", "must return its new value first"),
        ("({'w': x}, x)", "in another form: expected {n: *, w: *}; got {w: *}"),
        ("(x, x)", "in another form"),
        (
            "({'w': x.sum(), 'n': 1}, x)",
            "returns state 'state.w' as f32[]; it is f32[3]",
        ),
        ("({'w': x, 'n': x[0]}, x)", "returns state 'state.n' as f32[]; it is i32[]"),
    ],
)
def test_a_state_must_come_back_in_its_form_and_types(model, result, message):
    error = refused_model(model, entry("state", result))
    assert error.code == "bad-entry"
    assert message in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("None", "returns nothing"),
        ("[]", "returns nothing"),
        ("'text'", "returns str as 'output'"),
        ("{'a': [x, 'text']}", "returns str as 'a.1'"),
        ("(i for i in [x])", "returns generator as 'output'"),
    ],
)
def test_outputs_are_arrays(model, result, message):
    error = refused_model(model, entry("weights", result))
    assert error.code == "bad-entry"
    assert message in error.message


def test_python_numbers_and_numpy_arrays_are_outputs(model):
    source = HEAD + entry("weights", "(1, 2.5, True, one)")
    types = [str(p.type) for p in model.load(source).entries[0].results]
    assert types == ["i32[]", "f32[]", "bool[]", "f32[3]"]


def test_one_state_comes_in_once(model):
    error = refused_model(model, entry("state, again", NEW, "again=state"))
    assert error.message == (
        "parameters 'state' and 'again' of entry 'f' are the same State"
    )


def test_two_states_of_one_name_are_refused(model):
    source = entry("s", "s + x", "s=aotc.State(one)")
    error = model.refused(HEAD + source + source.replace("f(", "g("))
    assert error.code == "name-clash"
    assert error.where == "model.py:11"


def test_two_entries_of_one_name_are_refused(model):
    source = (
        "def make(n):\n"
        "    @aotc.entry(x=aotc.Spec(n))\n"
        "    def f(x): return x\n"
        "    return f\n"
        "small, large = make(3), make(4)\n"
    )
    assert model.refused(HEAD + source).code == "name-clash"
    assert len(model.load(HEAD + source + "small = large\n").entries) == 1


def test_an_entry_may_call_another_and_a_differentiated_one(model):
    program = model.load(
        HEAD
        + entry("weights", "(x * weights['w']).sum()")
        + "@aotc.entry(x=aotc.Spec(3))\n"
        + "def g(weights, x): return aotc.grad(f)(weights, x), f(weights, x)\n"
    )
    assert [e.name for e in program.entries] == ["f", "g"]


# ---- stored arrays ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "code"),
    [
        ("{'a': 'text'}", "not-an-array"),
        ("{'a': object()}", "not-an-array"),
        ("{1: one}", "bad-tree"),
        ("{'a.b': one, 'a': {'b': one}}", "bad-tree"),
    ],
)
def test_trees_that_hold_something_else_are_refused(model, tree, code):
    for kind in ("Weights", "State"):
        assert refused_model(model, f"w = aotc.{kind}({tree})").code == code


def test_a_state_without_arrays_is_refused_and_weights_without_are_not(model):
    assert refused_model(model, "s = aotc.State({})").code == "empty-tree"
    program = model.load(
        HEAD
        + "none = aotc.Weights({})\n"
        + "@aotc.entry(x=aotc.Spec(3))\n"
        + "def f(weights, none, x): return x * {**weights, **none}['w']\n"
    )
    assert [e.name for e in program.entries] == ["f"]


def test_stored_arrays_are_copies():
    array = np.ones(2, "f4")
    stored = aotc.Weights({"a": array})
    array[:] = 7
    assert stored.tree["a"].tolist() == [1, 1]


def test_weights_are_read_beside_the_file_that_loads_them(model):
    from safetensors.numpy import save_file

    arrays = {"conv.kernel": np.ones((2, 3), "f4"), "bias": np.arange(3, dtype="i4")}
    save_file(arrays, model.folder / "w.safetensors")
    np.savez(model.folder / "w.npz", **arrays)
    for suffix in ("safetensors", "npz"):
        program = model.load(f"""
            import aotc
            weights = aotc.Weights.load("w.{suffix}")

            @aotc.entry
            def f(weights):
                return weights["conv"]["kernel"] + weights["bias"].astype("f32")
            """)
        assert list(program.parameters) == ["weights.bias", "weights.conv.kernel"]
        np.testing.assert_array_equal(
            program.parameters["weights.conv.kernel"], arrays["conv.kernel"]
        )


def test_weights_stay_in_the_file_that_they_are_mapped_from(tmp_path):
    from safetensors.numpy import save_file

    save_file(
        {"a": np.ones(4, "f4"), "b": np.ones(1, "i8")}, tmp_path / "w.safetensors"
    )
    stored = aotc.Weights.load(tmp_path / "w.safetensors")
    mapped = np.memmap(tmp_path / "w.safetensors", np.uint8, "r")
    assert [array.nbytes for array in stored.arrays] == [16, 8]
    for array in stored.arrays:
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert sum(array.nbytes for array in stored.arrays) < mapped.nbytes


def test_half_precision_weights_keep_their_bits(tmp_path):
    import ml_dtypes
    from safetensors.numpy import save_file

    half = np.array([1.5, -2, 3e38], ml_dtypes.bfloat16)
    save_file({"a": half}, tmp_path / "w.safetensors")
    loaded = aotc.Weights.load(tmp_path / "w.safetensors").tree["a"]
    assert loaded.dtype == half.dtype
    assert loaded.tobytes() == half.tobytes()


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("w.safetensors", b"\x08\0\0\0\0\0\0\0{damaged", "bad-file"),
        ("w.npz", b"PK damaged", "bad-file"),
        ("w.npz", b"", "bad-file"),
        ("w.gguf", b"GGUF\3", "bad-file"),
        ("w.gguf", b"text", "bad-file"),
        ("w.pt", b"", "unknown-format"),
        ("missing.npz", None, "no-such-file"),
    ],
)
def test_weights_that_cannot_be_read_are_refused(model, name, content, code):
    if content is not None:
        (model.folder / name).write_bytes(content)
    error = model.refused(f"import aotc\nw = aotc.Weights.load('{name}')")
    assert error.code == code
    assert error.where == "model.py:2"
    assert error.hint


def test_arrays_named_inside_of_each_other_are_refused(model):
    np.savez(model.folder / "w.npz", **{"a": np.ones(1), "a.b": np.ones(1)})
    error = model.refused("import aotc\nw = aotc.Weights.load('w.npz')")
    assert error.code == "bad-file"
    assert "'a.b' would lie inside of another array" in error.message


SIZES = """
import aotc

@aotc.entry(x=aotc.Spec(({size},)))
def f(x):
    return x
"""


@pytest.mark.parametrize(
    ("size", "code"),
    [
        ('aotc.Dim("n", min=1.5)', "bad-contract"),
        ('aotc.Dim("n", min=True)', "bad-contract"),
        ('aotc.Dim("n", max="3")', "bad-contract"),
        ('aotc.Dim("n", max=2**70)', "bad-contract"),
        ('aotc.Dim("n", multiple_of=2.0)', "bad-contract"),
        ("aotc.Dim(3)", "bad-contract"),
        ('"größe"', "bad-contract"),
        ("2**70", "bad-spec"),
    ],
)
def test_sizes_that_no_array_has_are_refused_at_their_line(model, size, code):
    error = model.refused(SIZES.format(size=size))
    assert (error.code, error.where) == (code, "model.py:4")


@pytest.mark.parametrize(
    "source",
    [
        SIZES.format(size=3).replace("def f", "def größe"),
        SIZES.format(size=3).replace("return x", "return {1: x}"),
        "import aotc\nclass A:\n  @aotc.entry()\n  def f(self): ...",
    ],
)
def test_entries_that_no_bundle_can_offer_are_refused_with_a_line(model, source):
    error = model.refused(source)
    assert error.code in ("bad-entry", "bad-tree")
    assert error.where.startswith("model.py:")


def test_what_an_entry_takes_in_vain_is_told(model):
    source = """\
        import aotc
        import aotc.numpy as np
        kept = aotc.State(np.zeros(3))
        counted = aotc.State(np.zeros(3))

        @aotc.entry(x=aotc.Spec((3,)), y=aotc.Spec((3,)), z=aotc.Spec(("n",)))
        def f(kept, counted, x, y, z):
            return kept, counted + 1, x + np.ones(z.shape).sum()

        @aotc.entry(x=aotc.Spec((3,)))
        def replaced(kept, x):
            return x
        """
    with pytest.warns(UserWarning, match=r"^model.py:6: the .* of entry 'f'") as told:
        model.load(source)
    unused, kept = (str(each.message) for each in told)
    assert "the input 'y'" in unused
    assert "the State 'kept'" in kept
    assert ".frozen" in kept


def test_npz_weights_are_mapped_and_damaged_ones_refused(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "a.x": rng.standard_normal((100, 30)),
        "a.y": np.asfortranarray(rng.standard_normal((7, 9)).astype("f4")),
        "none": np.zeros((0, 3)),
        "one": np.float32(3),
    }
    for save, is_mapped in ((np.savez, True), (np.savez_compressed, False)):
        save(tmp_path / "w.npz", **arrays)
        found, _ = load_arrays(tmp_path / "w.npz")
        flat = {"none": found["none"], "one": found["one"]}
        flat |= {f"a.{name}": array for name, array in found["a"].items()}
        assert flat.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(flat[name], array)
            assert flat[name].dtype == array.dtype
        assert flat["a.x"].flags.writeable != is_mapped
    np.savez(tmp_path / "w.npz", **arrays)
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[content.find(arrays["a.x"].tobytes()) + 5] ^= 1
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(InputError, match="checksum") as refused:
        load_arrays(tmp_path / "w.npz")
    assert refused.value.code == "bad-file"
