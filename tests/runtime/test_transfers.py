"""Calls of models on a GPU: what is given where it lies, and what stays there."""

import ctypes
import gc

import iree.runtime as iree
import ml_dtypes
import numpy as np
import pytest

from aotc import runtime
from aotc.artifacts.manifest import Leaf
from aotc.core.dtypes import to_numpy
from aotc.errors import InputError
from aotc.machine import gpus
from aotc.runtime import engine, foreign_tensors, transfers
from aotc.runtime.foreign_tensors import DlpackTensor
from tests.fake_gpu import HOST, Lent, LentByTorch, pretend
from tests.refusals import refused


class Waits:
    """Counts how often the host has waited for the GPU."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
def gpu(waits, monkeypatch):
    return pretend(monkeypatch, waits)


@pytest.fixture
def model(bundle, trust, gpu):
    """The model of other tests, on a device that counts as a GPU."""
    return runtime.load(bundle, trust=trust, threads=1)


X = np.arange(20, dtype=np.float32).reshape(5, 4)


def test_results_of_arrays_are_arrays_and_those_of_tensors_stay(model, w):
    found = model.predict(x=X)
    assert type(found) is np.ndarray
    kept = model.predict(x=Lent(X))
    assert type(kept) is transfers.DeviceArray
    assert kept.shape == (5, 3)
    assert kept.dtype == np.float32
    assert kept.nbytes == 60
    assert (kept.ndim, kept.size) == (2, 15)
    assert "float32 array of shape [5, 3]" in repr(kept)
    np.testing.assert_array_equal(kept.numpy(), found)
    np.testing.assert_array_equal(np.asarray(kept), found)
    assert np.asarray(kept, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="has to be copied"):
        np.asarray(kept, copy=False)


def test_a_result_that_stays_is_lent_where_it_lies(model, gpu):
    kept = model.predict(x=Lent(X))
    assert kept.__dlpack_device__() == (HOST, 0)
    lent = np.from_dlpack(kept)
    expected = lent.copy()
    address = np.from_dlpack(kept).ctypes.data
    assert lent.ctypes.data == address
    del kept
    others = [model.predict(x=Lent(X + i)) for i in range(20)]
    np.testing.assert_array_equal(lent, expected)
    assert address not in {np.from_dlpack(each).ctypes.data for each in others}
    with pytest.raises(BufferError):
        others[0].__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        others[0].__dlpack__(copy=True)
    assert others[0].__dlpack__(dl_device=(HOST, 0), max_version=(1, 0))


def test_memory_of_lent_results_is_used_for_lent_results_alone(model):
    """Who has dropped them may still have work on the GPU that reads them."""
    for _ in range(3):  # inputs and results of one size, whose memory is free now
        model.echo(x=np.zeros(500, np.float32))
        model.write_state(model.read_state())
    kept = model.echo(x=Lent(np.ones(500, np.float32)))
    address = np.from_dlpack(kept).ctypes.data
    del kept
    for i in range(5):
        model.echo(x=np.full(500, i + 2, np.float32))
    np.testing.assert_array_equal(
        np.frombuffer(ctypes.string_at(address, 2000), np.float32), 1
    )
    again = model.echo(x=Lent(np.ones(500, np.float32)))
    assert np.from_dlpack(again).ctypes.data == address


def test_a_result_can_be_given_to_the_next_call(model):
    kept = model.echo(x=Lent(np.arange(7, dtype=np.float32)))
    again = model.echo(x=kept)
    np.testing.assert_array_equal(again.numpy(), np.arange(7))


@pytest.fixture
def copies(monkeypatch):
    """All copies on the device that are begun."""
    begun = []
    begin = transfers.Copies.begin
    monkeypatch.setattr(
        transfers.Copies, "begin", lambda *given: begun.append(given) or begin(*given)
    )
    return begun


def test_a_tensor_is_used_in_place_by_what_cannot_keep_it(model, w, copies):
    x = Lent(X)
    found = model.predict(x=x)
    assert len(copies) == 1  # the result alone
    np.testing.assert_allclose(found.numpy(), X @ w)
    np.testing.assert_array_equal(x.array, X)
    copies.clear()
    model.train(x=Lent(np.ones(3, np.float32)), scale=1)
    assert len(copies) == 3


def test_every_dtype_and_shape_is_lent_both_ways(model):
    halves = (np.ones(2, np.float16), np.ones(3, ml_dtypes.bfloat16))
    for n, m in ((2, 3), (2, 1)):
        given = {
            "bits": [Lent(np.ones(n, bool)), Lent(np.full(n, 250, np.uint8))],
            "halves": (Lent(halves[0][:n]), halves[1][:m]),  # NumPy lends no bf16
            "l": Lent(np.array(2**40)),
        }
        found = model.same(parts=given)
        assert found["l"].shape == ()
        assert found["l"].numpy() == 2**40
        assert found["bits"][0].numpy().dtype == bool
        np.testing.assert_array_equal(found["bits"][1].numpy(), [250] * n)
        assert np.from_dlpack(found["bits"][1]).dtype == np.uint8
        assert found["halves"][1].dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found["halves"][1].numpy(), halves[1][:m])
        np.testing.assert_array_equal(np.from_dlpack(found["halves"][0]), [1] * n)
    empty = model.predict(x=Lent(X[:0]))
    assert empty.numpy().shape == np.from_dlpack(empty).shape == (0, 3)


def test_tensors_of_torch_come_and_go_without_a_copy_through_numpy(model, w):
    torch = pytest.importorskip("torch")
    x = torch.arange(200, dtype=torch.float32).reshape(50, 4)
    found = torch.from_dlpack(model.predict(x=LentByTorch(x)))
    np.testing.assert_allclose(found.numpy(), x.numpy() @ w)
    parts = {
        "bits": [
            LentByTorch(torch.ones(2, dtype=torch.bool)),
            LentByTorch(torch.ones(2, dtype=torch.uint8)),
        ],
        "halves": (
            LentByTorch(torch.ones(2).half()),
            LentByTorch(torch.ones(3).bfloat16()),
        ),
        "l": LentByTorch(torch.tensor(7)),
    }
    same = model.same(parts=parts)
    assert torch.from_dlpack(same["halves"][1]).dtype == torch.bfloat16
    assert torch.from_dlpack(same["halves"][1]).tolist() == [1, 1, 1]
    assert torch.from_dlpack(same["bits"][0]).dtype == torch.bool
    assert torch.from_dlpack(same["l"]).item() == 7
    grad = LentByTorch(torch.ones(5, 4, requires_grad=True))
    assert "x.detach()" in refused(InputError, "input-type", model.predict, x=grad)
    turned = LentByTorch(torch.ones(4, 5).T)
    words = refused(InputError, "input-strides", model.predict, x=turned)
    assert "shape [5, 4] with strides [1, 5]" in words
    assert "x.contiguous()" in words
    halves = LentByTorch(torch.ones(5, 4).half())
    words = refused(InputError, "dtype-mismatch", model.predict, x=halves)
    assert "x.to(torch.float32)" in words


def test_contracts_hold_for_tensors(model):
    assert "[batch, 4]" in refused(
        InputError, "rank-mismatch", model.predict, x=Lent(X[0])
    )
    assert "[5, 3]" in refused(
        InputError, "shape-mismatch", model.predict, x=Lent(X[:, :3])
    )
    words = refused(InputError, "dtype-mismatch", model.predict, x=Lent(X.astype("f8")))
    assert "an array of float64" in words
    words = refused(InputError, "input-device", model.predict, x=Lent(X, (HOST, 1)))
    assert "computes the call" in words
    words = refused(InputError, "input-device", model.predict, x=Lent(X, (2, 0)))
    assert "cuda:0" in words


def test_states_keep_no_tensor_of_the_caller(model):
    ones = Lent(np.ones(3, np.float32))
    model.write_state({"params": {"a": ones}, "step": Lent(np.array(4, np.int32))})
    ones.array[:] = 9
    np.testing.assert_array_equal(model.read_state()["params"]["a"], 1)
    kept = model.train(x=Lent(np.ones(3, np.float32)), scale=Lent(np.float32(2)[...]))
    assert type(kept) is transfers.DeviceArray
    read = model.read_state()
    for _ in range(3):
        model.train(x=np.ones(3, np.float32), scale=2)
    np.testing.assert_array_equal(kept.numpy(), 3)  # as it was after the first
    np.testing.assert_array_equal(read["params"]["a"], 3)
    assert model.read_state()["step"] == 8


def test_the_host_waits_for_producers_once_a_call_and_never_for_arrays(model, waits):
    model.train(x=np.ones(3, np.float32), scale=1)
    assert waits.count == 0
    x, scale = Lent(np.ones(3, np.float32)), Lent(np.float32(1)[...])
    model.train(x=x, scale=scale)
    assert waits.count == 2  # for both tensors, and before memory of results is used
    assert x.streams == scale.streams == [1]


def test_all_results_are_waited_for_once(model, monkeypatch):
    fences = []
    fence = iree.HalFence
    monkeypatch.setattr(iree, "HalFence", lambda n: fences.append(n) or fence(n))
    parts = {
        "bits": [np.ones(2, bool), np.ones(2, np.uint8)],
        "halves": (np.ones(2, np.float16), np.ones(3, ml_dtypes.bfloat16)),
        "l": np.array(7),
    }
    model.same(parts=parts)
    assert fences == [5, 5]


def test_results_that_are_kept_stay_and_others_lend_their_memory_on(model):
    # what the shared device kept for calls of other tests
    model.echo.function._give_back()
    kept = model.echo(x=np.arange(5000, dtype=np.float32))
    view = kept[10:]
    del kept
    addresses = {
        model.echo(x=np.full(5000, i, np.float32)).ctypes.data for i in range(50)
    }
    assert len(addresses) <= 2
    np.testing.assert_array_equal(view, np.arange(10, 5000))


def test_calls_of_several_sizes_take_turns_without_new_memory(model):
    sizes = range(1000, 1000 + 8 * engine._KEPT_CALLS["cuda"], 8)
    allocator = model.echo.function._transfers._device.allocator
    # what the shared device kept for calls of other tests
    model.echo.function._give_back()

    def allocated_by(size):
        before = allocator.statistics["device_bytes_allocated"]
        model.echo(x=np.ones(size, np.float32))
        return allocator.statistics["device_bytes_allocated"] - before

    first = [allocated_by(size) for size in sizes]
    assert all(first)
    assert not any(allocated_by(size) for size in [*sizes, *sizes])
    assert allocated_by(4)
    gc.collect()
    assert allocated_by(sizes[0])  # given back for the ninth kind of call


def test_calls_that_move_much_leave_their_memory_to_no_other(model, monkeypatch):
    trims = []
    memory = model.echo.function._give_back.__self__
    monkeypatch.setattr(memory, "_trim", lambda: trims.append(0))
    x, large = np.ones(10, np.float32), np.ones(2000, np.float32)
    monkeypatch.setattr(engine, "_KEPT_BYTES", 15_000)
    for given in (x, large, x):  # 80 and 16,000 bytes in and out
        model.echo(x=given)
    assert len(trims) == 2  # before the first, and after the large one
    model.echo(x=x)
    model.predict(x=X)
    model.echo(x=x)
    assert len(trims) == 2


def test_the_dtypes_of_dlpack_are_those_of_numpy():
    for name in ("bool", "i8", "u16", "i64", "f16", "f32", "f64"):
        array = np.zeros((2, 3), to_numpy(name))
        tensor = DlpackTensor(array.__dlpack__())
        assert tensor.dtype == array.dtype
        assert tensor.shape == (2, 3)
        assert tensor.is_row_major
    assert foreign_tensors._dtype(4, 16) == ml_dtypes.bfloat16
    assert "type 10" in foreign_tensors._dtype(10, 8)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((3, 4)).T, False),
        (np.zeros((3, 4))[:, :2], False),
        (np.zeros((3, 4))[:1], True),
        (np.zeros((3, 1, 4)).transpose(1, 0, 2), True),
        (np.zeros((0, 4)).T, True),
        (np.zeros(()), True),
        (np.zeros(4)[::-1], False),
    ],
)
def test_row_major_is_what_elements_say_and_not_strides_of_one(array, expected):
    assert DlpackTensor(array.__dlpack__()).is_row_major == expected


def test_memory_that_begins_anywhere_is_not_taken_in_place(gpu, copies):
    device = engine.device("llvm-cpu", 1)
    leaf = Leaf("x", "f32", (8,))
    moves = transfers.Transfers(device, gpu, [leaf], [leaf], True, staged=True)
    tensor = gpu.tensor(Lent(np.ones(8, np.float32)), None)
    moves.send([tensor])
    assert not copies
    tensor = gpu.tensor(Lent(np.ones(8, np.float32)), None)
    tensor.is_aligned = False
    moves.send([tensor])
    assert len(copies) == 1


def test_the_default_stream_of_cuda_is_waited_for_in_its_context(monkeypatch):
    calls = []

    class Library:
        def __getattr__(self, name):
            return lambda *given: calls.append(name) or 0

    monkeypatch.setattr(gpus, "library", lambda *names: Library())
    for driver, last in (("cuda", "cuCtxPopCurrent_v2"), ("hip", "hipSetDevice")):
        gpu = foreign_tensors.gpu_of.__wrapped__(driver)
        calls.clear()
        gpu.synchronize()
        assert any("Synchronize" in name for name in calls)
        assert calls[-1] == last
    assert str(foreign_tensors.gpu_of.__wrapped__("cuda")) == "cuda:0"
    assert foreign_tensors.gpu_of.__wrapped__("vulkan") is None
