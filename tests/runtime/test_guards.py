"""Every guard of an entry has a name, under which it refuses calls and is listed."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from aotc.artifacts.call_guards import call_guards
from aotc.artifacts.manifest import EntryPoint, Guard, Leaf, Symbol
from aotc.errors import InputError
from aotc.runtime.contract import CallContract

SYMBOLS = {
    "batch": Symbol(2, 64, 2, where="model.py:3"),
    "length": Symbol(1, None, 1),
}
X = Leaf("x", "f32", ("batch", "length", 3), where="model.py:7")
Y = Leaf("tree.y", "i32", ("batch", "length * 2"), where="model.py:8")
Z = Leaf("z", "f32", ("length * batch * 1000000000",))
GUARD = Guard("batch != length", "it was traced so", "model.py:20")
ENTRY = EntryPoint(
    "f", "infer", (X, Y), {}, (Z,), 0, (), (), guards=(GUARD,), intermediates=()
)
GOOD = {"x": ("f4", (4, 3, 3)), "y": ("i4", (4, 6))}


class Elsewhere:
    """An array of another framework."""

    def __init__(self, device):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __array__(self, dtype=None, copy=None):
        if self.device[0] == 1:
            return np.zeros((4, 3, 3), "f4")
        raise TypeError("cannot convert a device array")


def refused_call(x=GOOD["x"], y=GOOD["y"], entry=ENTRY):
    """The error of a call with such inputs, each a dtype and sizes, or a value."""
    contract = CallContract(
        "f", entry.inputs, SYMBOLS, entry.guards, (*entry.outputs, *entry.intermediates)
    )
    values = [
        np.empty(given[1], given[0]) if isinstance(given, tuple) else given
        for given in (x, y)
    ]
    with pytest.raises(InputError) as caught:
        contract.arrays(values)
    return caught.value


BROKEN = [
    ({"x": "text"}, "type of x", "model.py:7"),
    ({"x": Elsewhere((2, 0))}, "device of x", "model.py:7"),
    ({"x": ("f8", (4, 3, 3))}, "dtype of x", "model.py:7"),
    ({"x": ("f4", (4, 3))}, "rank of x", "model.py:7"),
    ({"y": [1, 2]}, "type of tree.y", "model.py:8"),
    ({"y": Elsewhere((10, 1))}, "device of tree.y", "model.py:8"),
    ({"y": 1.5}, "dtype of tree.y", "model.py:8"),
    ({"y": ("i4", (4,))}, "rank of tree.y", "model.py:8"),
    ({"x": ("f4", (4, 3, 2))}, "x.shape[2]", "model.py:7"),
    ({"y": ("i4", (6, 6))}, "tree.y.shape[0] = x.shape[0]", "model.py:8"),
    ({"y": ("i4", (4, 7))}, "tree.y.shape[1]", "model.py:8"),
    (
        {"x": ("f4", (66, 3, 3)), "y": ("i4", (66, 6))},
        "range of batch",
        "model.py:3",
    ),
    ({"x": ("f4", (5, 3, 3)), "y": ("i4", (5, 6))}, "step of batch", "model.py:3"),
    ({"x": ("f4", (4, 0, 3)), "y": ("i4", (4, 0))}, "range of length", "model.py:7"),
    ({"x": ("f4", (4, 4, 3)), "y": ("i4", (4, 8))}, "batch != length", "model.py:20"),
    (
        {"x": ("f4", (64, 10**5, 3)), "y": ("i4", (64, 2 * 10**5))},
        "bytes of result z",
        None,
    ),
]


@pytest.mark.parametrize(("given", "guard", "where"), BROKEN)
def test_a_call_that_breaks_a_guard_is_told_its_name_and_line(given, guard, where):
    error = refused_call(**given)
    assert (error.guard, error.where) == (guard, where)
    assert f"guard: {guard}" in str(error)
    assert error.to_json()["guard"] == guard


def test_the_guards_of_an_entry_are_those_that_refuse_calls():
    listed = {each.name: each.where or None for each in call_guards(ENTRY, SYMBOLS)}
    assert listed == {guard: where for _, guard, where in BROKEN}


def test_sizes_without_code_are_a_guard():
    entry = replace(ENTRY, has_general_code=False)
    *_, last = call_guards(entry, SYMBOLS)
    assert last.name == "code for the sizes"


def test_arrays_of_other_frameworks_in_the_memory_of_the_host_are_taken():
    contract = CallContract("f", [X], SYMBOLS)
    (array,), _ = contract.arrays([Elsewhere((1, 0))])
    assert array.shape == (4, 3, 3)


@pytest.mark.parametrize(
    ("device", "name"), [((2, 1), "cuda:1"), ((10, 0), "rocm:0"), ((99, 0), "type 99")]
)
def test_an_array_of_an_accelerator_is_refused_and_its_device_named(device, name):
    error = refused_call(x=Elsewhere(device))
    assert error.code == "input-device"
    assert name in error.message
    assert "copy it to the host" in error.hint


def test_what_another_framework_cannot_give_to_numpy_is_no_array():
    broken = Elsewhere((3, 0))  # its device is the host's, and `__array__` raises
    error = refused_call(x=broken)
    assert (error.code, error.guard) == ("input-type", "type of x")
    assert "cannot convert a device array" in error.message


def test_tensors_of_torch_are_taken_from_the_host_alone():
    torch = pytest.importorskip("torch")
    contract = CallContract("f", [X], SYMBOLS)
    (array,), _ = contract.arrays([torch.ones(4, 3, 3)])
    assert array.shape == (4, 3, 3)
    tracked = torch.ones(4, 3, 3, requires_grad=True)
    for tensor in (tracked, torch.ones(4, 3, 3, device="meta")):
        error = refused_call(x=tensor)
        assert (error.code, error.guard) == ("input-type", "type of x")
        assert "x.detach().cpu().numpy()" in error.hint


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_hint_for_dtypes_that_numpy_lacks_gives_an_array_of_them(dtype):
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.5, -2.0, 0.25]]).to(getattr(torch, dtype)).t()
    error = refused_call(x=x)
    assert (error.code, error.guard) == ("input-type", "type of x")
    _, _, code = error.hint.partition(": ")
    found = eval(code, {"torch": torch, "ml_dtypes": ml_dtypes, "x": x})
    assert found.dtype == getattr(ml_dtypes, dtype)
    np.testing.assert_array_equal(found.astype("f4"), x.float().numpy())


# ---- layouts ------------------------------------------------------------------------

IMAGE = Leaf("x", "f32", ("batch", 8, 6, 3), "nhwc", "model.py:7")
MASK = Leaf("tree.y", "i32", ("batch", "length"))


def swapped(x, y=("i4", (4, 2)), leaves=(IMAGE, MASK)):
    return refused_call(x, y, replace(ENTRY, inputs=leaves, guards=()))


def test_an_image_in_the_other_layout_is_told_so():
    error = swapped(("f4", (4, 3, 8, 6)))
    assert (error.guard, error.where) == ("layout of x", "model.py:7")
    assert "looks like nchw" in error.message
    assert "layout nhwc" in error.message
    assert error.hint == "transpose it: x.transpose(0, 2, 3, 1)"
    given = np.empty((4, 3, 8, 6)).transpose(0, 2, 3, 1)
    assert given.shape[1:] == IMAGE.shape[1:]  # the advice is right


def test_sizes_that_fit_in_no_layout_are_a_wrong_size():
    assert swapped(("f4", (4, 3, 6, 8))).guard == "x.shape[1]"


def test_images_that_are_all_in_the_other_layout_are_told_so():
    other = Leaf("tree.y", "i32", ("batch", 1, 8, 6), "nchw")
    error = swapped(("f4", (4, 3, 8, 6)), ("i4", (4, 8, 6, 1)), (IMAGE, other))
    assert error.guard == "layout of x"
    error = swapped(("f4", (4, 8, 6, 3)), ("i4", (4, 8, 6, 1)), (IMAGE, other))
    assert error.guard == "layout of tree.y"
    assert "looks like nhwc" in error.message


def test_a_layout_is_listed_among_the_guards():
    found = call_guards(replace(ENTRY, inputs=(IMAGE, MASK), guards=()), SYMBOLS)
    assert ("layout of x", "nhwc") in [(each.name, each.rule) for each in found]
