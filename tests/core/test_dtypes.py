"""Element types have one name in aotc, and are recognised by every other."""

import numpy as np
import pytest

from aotc import pipeline
from aotc.core import dtypes
from aotc.errors import InputError
from aotc.machine.target import PEELING, Target


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_every_dtype_is_numpys_and_back(name):
    numpy_dtype = dtypes.to_numpy(name)
    assert dtypes.canonical_dtype(name) == name
    assert dtypes.canonical_dtype(numpy_dtype) == name
    assert dtypes.canonical_dtype(numpy_dtype.type) == name
    assert dtypes.canonical_dtype(dtypes.numpy_name(name)) == name
    assert numpy_dtype.itemsize * 8 == dtypes.bits(name)


def test_python_types_mean_the_widths_that_every_target_computes_with():
    assert [dtypes.canonical_dtype(t) for t in (float, int, bool)] == [
        "f32",
        "i32",
        "bool",
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("float", "f64"), ("int", "i64"), ("f8", "f64"), ("i4", "i32"), ("<i8", "i64"),
     ("half", "f16"), ("long", "i64")],
)  # fmt: skip
def test_text_of_which_the_width_is_unclear_is_refused_with_what_numpy_means(
    name, meant
):
    with pytest.raises(InputError) as caught:
        dtypes.canonical_dtype(name)
    assert caught.value.code == "unknown-dtype"
    assert f"NumPy means {meant} by it" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["c64", "complex64", "U3", object, "float8_e4m3fn", None]
)
def test_other_types_are_refused(name):
    with pytest.raises(InputError) as caught:
        dtypes.canonical_dtype(name)
    assert caught.value.code == "unknown-dtype"
    assert "bf16" in caught.value.hint


def test_kinds_are_told_apart():
    assert [name for name in dtypes.NAMES if dtypes.is_float(name)] == list(
        dtypes.FLOATS
    )
    assert set(dtypes.NUMBERS) | {"bool"} == set(dtypes.NAMES)
    for name in dtypes.UNSIGNED:
        assert np.issubdtype(dtypes.to_numpy(name), np.unsignedinteger)


def test_products_of_f64_matrices_compile_for_vectors_of_64_bytes(tmp_path):
    model = tmp_path / "wide.py"
    model.write_text(
        "import numpy, aotc\n"
        "w = aotc.Weights({'a': numpy.eye(32)})\n"
        "@aotc.entry(x=aotc.Spec(('n', 32), 'f64'))\n"
        "def f(w, x):\n"
        "    return (x @ w['a']).T\n"
    )
    build = pipeline.build(  # which compares with the reference, where this machine can
        model, output=tmp_path, targets=[Target.parse("x86_64-v4")], sign=False
    )
    (variant,) = build.variants
    assert PEELING not in variant.flags
