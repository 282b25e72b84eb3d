"""Loading and calling models."""

import copy
import functools
import gc
import mmap
import os
import pickle
import subprocess
import sys
import threading

import iree.runtime as iree
import ml_dtypes
import numpy as np
import pytest

from aotc import runtime
from aotc.artifacts import write_bundle
from aotc.artifacts.manifest import Leaf, Manifest
from aotc.artifacts.trust import development_key
from aotc.dtypes import to_numpy
from aotc.errors import InputError, SetupError, VerificationError
from aotc.runtime import buffers, engine, function, transfers
from aotc.runtime.small import is_small
from aotc.target import Target
from tests.refusals import refused

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def parts(n=2, m=3):
    return {
        "bits": [np.ones(n, bool), np.arange(n, dtype=np.uint8) + 250],
        "halves": (np.ones(n, np.float16), np.ones(m, ml_dtypes.bfloat16)),
        "l": np.array(2**40),
    }


def test_computes_what_numpy_computes(model, w):
    np.testing.assert_allclose(model.predict(x=X), X @ w)
    np.testing.assert_allclose(model.entry("predict")(x=X), X @ w)


def test_names_its_entries(model):
    assert list(model.entries) == ["predict", "train", "same", "echo"]
    assert "predict" in dir(model)
    assert "f32[batch, 4]" in repr(model.predict)
    assert "small 1.0.0" in repr(model)


def test_accepts_dimensions_of_size_zero(model):
    assert model.predict(x=X[:0]).shape == (0, 3)


def test_takes_arrays_of_any_memory_layout(model, w):
    for x in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1]):
        np.testing.assert_allclose(model.predict(x=x), x @ w)


def test_rebuilds_nested_structures_and_every_dtype(model):
    given = parts()
    got = model.same(parts=given)
    assert type(got["bits"]) is list
    assert type(got["halves"]) is tuple
    pairs = zip(
        [*got["bits"], *got["halves"]], [*given["bits"], *given["halves"]], strict=True
    )
    for a, b in pairs:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert got["l"] == 2**40
    assert got["l"].shape == ()


@pytest.mark.parametrize("backend", ["vmvx", "vulkan-spirv"])
@pytest.mark.parametrize("dtype", ["bool", "i8", "u16", "f16", "bf16", "f32", "i64"])
def test_reads_back_what_it_sent_to_a_device(backend, dtype):
    try:
        device = engine.device(backend, 1)
    except SetupError:
        pytest.skip("this machine has no such device")
    for shape in ((3,), (), (0, 2), (5, 7)):
        leaf = Leaf("x", dtype, shape)
        count = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        sent = (count % 2).astype(to_numpy(dtype))
        staged = engine.call_memory(device).is_kept
        moves = transfers.Transfers(device, None, [leaf], [leaf], True, staged=staged)
        arguments = moves.send([sent])
        [found] = moves.fetch([arguments.get_as_object(0, iree.HalBufferView)])
        assert found.dtype == sent.dtype
        np.testing.assert_array_equal(found, sent)


@pytest.mark.parametrize("reader", [buffers.viewer, transfers.Fetcher])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_views_of_a_result_keep_its_memory(reader, dtype):
    device = engine.device("vmvx", 1)
    for shape in ((350,), (5, 70), (2, 5, 35)):
        leaf = Leaf("x", dtype, shape)
        send, read = buffers.sender(device, leaf), reader(device, leaf)
        sent = np.arange(350).reshape(shape).astype(to_numpy(dtype))
        found = read(send(sent)).T  # a view of what nothing else refers to
        others = [send(np.zeros_like(sent)) for _ in range(100)]
        np.testing.assert_array_equal(found, sent.T)
        del others


def test_results_outlive_the_model_and_are_read_only(bundle, trust, w):
    y = runtime.load(bundle, trust=trust, threads=1).predict(x=X)
    gc.collect()
    np.testing.assert_allclose(y, X @ w)
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1


def test_lends_no_python_memory_to_iree(bundle, trust):
    """IREE may release it on a thread without the interpreter's lock, and die."""
    before = _mappings()
    model = runtime.load(bundle, trust=trust)
    assert model.entries
    assert _mappings() <= before


def _mappings() -> set[int]:
    gc.collect()
    return {id(held) for held in gc.get_objects() if issubclass(type(held), mmap.mmap)}


def test_results_of_later_calls_do_not_change_earlier_ones(model, w):
    first = model.predict(x=X)
    model.predict(x=X * 2)
    np.testing.assert_allclose(first, X @ w)


@pytest.mark.parametrize("shift", [0, 4, 16, 64])
def test_takes_large_inputs_at_any_alignment(model, shift):
    memory = np.zeros(300_000 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    x = memory[start : start + 300_000].view(np.float32)
    x[:] = np.arange(75_000)
    y = model.echo(x=x)
    x[:] = 0
    np.testing.assert_array_equal(y, np.arange(75_000))


def test_what_is_out_of_range_before_a_call_is_no_result_of_it(model, monkeypatch):
    said = "cannot map buffer: c/runtime/src/iree/hal/buffer.c:1: OUT_OF_RANGE; of 8"

    def fail(*_):
        raise IndexError(said)

    monkeypatch.setattr(function.Function, "_arguments", fail)
    assert said in refused(SetupError, "run-failed", model.predict, x=X)


def test_takes_large_read_only_inputs(model):
    x = np.arange(75_000, dtype=np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(model.echo(x=x), x)


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"x": X.astype(np.float64)}, "dtype-mismatch", ["f32", "float64", "astype"]),
        ({"x": X.astype(">f4")}, "dtype-mismatch", [">f4"]),
        ({"x": X[0]}, "rank-mismatch", ["[batch, 4]", "[4]"]),
        ({"x": X[:, :3]}, "shape-mismatch", ["[batch, 4]", "[5, 3]"]),
        ({"x": np.zeros((65, 4), "f4")}, "shape-contract", ["at most 64", "65"]),
        ({"x": X.tolist()}, "input-type", ["list", "numpy"]),
        ({"x": 3}, "rank-mismatch", ["[]"]),
        ({"x": None}, "input-type", ["NoneType"]),
        ({}, "missing-input", ["x is missing"]),
        ({"X": X}, "unknown-input", ["did you mean 'x'"]),
        ({"x": X, "y": X}, "unknown-input", ["'y'"]),
    ],
)
def test_refuses_inputs_that_break_the_contract(model, given, code, words):
    message = refused(InputError, code, model.predict, **given)
    for word in ["predict", *words]:
        assert word in message


def test_takes_the_only_input_without_its_name(model):
    assert np.array_equal(model.predict(X), model.predict(x=X))


def test_refuses_other_positional_inputs(model):
    code, predict = "input-positional", model.predict
    assert "predict(x=...)" in refused(InputError, code, predict, X, X)
    assert "predict(x=...)" in refused(InputError, code, predict, X, x=X)


def test_refuses_wrong_structures(model):
    given = parts()
    for wrong in [given | {"bits": given["bits"][:1]}, given | {"halves": 3}, [1]]:
        refused(InputError, "input-structure", model.same, parts=wrong)
    message = refused(InputError, "missing-input", model.same, parts={"l": given["l"]})
    assert "bits, halves" in message


def test_binds_a_symbol_over_all_inputs(model):
    wrong = parts()
    wrong["bits"][1] = np.zeros(4, np.uint8)
    message = refused(InputError, "shape-mismatch", model.same, parts=wrong)
    assert "n = 4" in message
    assert "n = 2" in message


@pytest.mark.parametrize("n", [1, 3])
def test_refuses_symbols_outside_their_range(model, n):
    message = refused(InputError, "shape-contract", model.same, parts=parts(n))
    assert "a multiple of 2" in message


def test_takes_python_numbers_that_fit(model):
    x = np.ones(3, "f4")
    np.testing.assert_allclose(model.train(x=x, scale=0.1), 1.1 + np.arange(3))
    for wrong in (True, 1e39, 2**24 + 1, 10**400):
        refused(InputError, "dtype-mismatch", model.train, x=x, scale=wrong)
    given = parts()
    for wrong in (2**63, 1.0, False):
        refused(InputError, "dtype-mismatch", model.same, parts=given | {"l": wrong})
    assert model.same(parts=given | {"l": -5})["l"] == -5
    assert np.isnan(model.train(x=x, scale=float("nan"))).all()
    assert np.isinf(model.train(x=x, scale=float("inf"))[:0]).all()


def test_keeps_state_between_calls_and_restores_it(model):
    one = np.ones(3, np.float32)
    saved = model.read_state()
    np.testing.assert_array_equal(saved["params"]["a"], [1, 2, 3])
    first = model.train(x=one, scale=1)
    second = model.train(x=one, scale=1)
    np.testing.assert_array_equal(first, [2, 3, 4])
    np.testing.assert_array_equal(second, [3, 4, 5])
    assert model.read_state()["step"] == 2
    np.testing.assert_array_equal(saved["params"]["a"], [1, 2, 3])
    model.write_state(saved)
    np.testing.assert_array_equal(model.train(x=one, scale=1), first)


def test_does_not_share_memory_with_a_written_state(model):
    state = model.read_state()
    model.write_state(state)
    state["params"]["a"][:] = 100
    np.testing.assert_array_equal(model.read_state()["params"]["a"], [1, 2, 3])


def test_a_wrong_call_leaves_the_state_untouched(model):
    one = np.ones(3, np.float32)
    for x, scale in [(one[:2], 1), (one, one), (one.astype(int), 1)]:
        with pytest.raises(InputError):
            model.train(x=x, scale=scale)
    with pytest.raises(InputError):
        model.write_state({"params": {"a": one}, "step": 1.5})
    assert model.read_state()["step"] == 0


def test_states_of_two_models_are_independent(bundle, trust, model):
    other = runtime.load(bundle, trust=trust, threads=1)
    model.train(x=np.ones(3, np.float32), scale=1)
    assert other.read_state()["step"] == 0


def test_calls_from_many_threads_take_turns(model):
    def work():
        for _ in range(200):
            model.train(x=np.ones(3, np.float32), scale=1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.read_state()["step"] == 800


def test_suggests_names(model):
    assert "did you mean" in refused(InputError, "unknown-entry", model.entry, "predit")
    refused(InputError, "unknown-state", model.read_state, "sta")
    refused(InputError, "unknown-state", model.write_state, "state", {"step": 1})
    with pytest.raises(AttributeError, match="predict"):
        model.predit  # noqa: B018


def test_loads_only_what_is_trusted(bundle, manifest, files, tmp_path):
    refused(VerificationError, "untrusted-key", runtime.load, bundle)
    own = write_bundle(tmp_path, manifest, files, development_key())
    assert runtime.load(own, threads=1).manifest.channel == "development"
    unsigned = write_bundle(tmp_path / "u.aotc", manifest, files, signer=None)
    message = refused(VerificationError, "unsigned", runtime.load, unsigned)
    assert "--allow-unsigned" in message
    runtime.load(unsigned, allow_unsigned=True, threads=1).predict(x=X)


@pytest.mark.parametrize("name", ["variants/cpu.vmfb", "weights.irpa"])
def test_hands_no_changed_file_to_iree(manifest, files, signer, trust, tmp_path, name):
    bundle = write_bundle(tmp_path, manifest, files, signer)
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    message = refused(
        VerificationError, "digest-mismatch", runtime.load, bundle, trust=trust
    )
    assert name in message


def test_refuses_variants_for_other_machines(manifest, files, signer, trust, tmp_path):
    data = manifest
    data["variants"][0]["target"]["cpu_features_required"].append("warp-drive")
    bundle = write_bundle(tmp_path, data, files, signer)
    message = refused(SetupError, "incompatible", runtime.load, bundle, trust=trust)
    assert "warp-drive" in message


def test_says_when_the_driver_is_missing(manifest, files, signer, trust, tmp_path):
    data = manifest
    data["variants"][0] |= {"backend": "metal-spirv", "target": {"name": "metal"}}
    bundle = write_bundle(tmp_path, data, files, signer)
    refused(SetupError, "no-driver", runtime.load, bundle, trust=trust)


@pytest.fixture
def with_accelerator(manifest, files, signer, tmp_path):
    """A bundle whose best variant is for an accelerator that no test machine has."""
    (cpu,) = manifest["variants"]
    other = {"id": "metal", "backend": "metal-spirv", "target": {"name": "metal"}}
    manifest["variants"] = [cpu, cpu | other]
    return write_bundle(tmp_path, manifest, files, signer)


def test_a_fall_to_the_processor_is_said_and_counted(
    with_accelerator, trust, monkeypatch
):
    monkeypatch.setattr("aotc.gpus.is_present", lambda vendors: True)
    before = runtime.fallback_count()
    with pytest.warns(UserWarning, match=r"metal: .*\[no-driver\] \[cpu-fallback\]"):
        model = runtime.load(with_accelerator, trust=trust, threads=1)
    assert model.selection.fallback
    assert [judged.variant.id for judged in model.selection.passed_over] == ["metal"]
    assert runtime.fallback_count() == before + 1


def test_a_fall_to_the_processor_can_be_refused(with_accelerator, trust):
    before = runtime.fallback_count()
    load = functools.partial(
        runtime.load, with_accelerator, trust=trust, threads=1, fallback=False
    )
    assert "metal" in refused(SetupError, "fallback-refused", load)
    assert load(target="cpu").variant.id == Target.parse("cpu").id
    assert runtime.fallback_count() == before


def test_chooses_a_variant_by_name(bundle, trust):
    name = Target.parse("cpu").id
    model = runtime.load(bundle, trust=trust, threads=1, target=name)
    assert model.variant.id == name
    refused(
        InputError, "unknown-variant", runtime.load, bundle, trust=trust, target="x"
    )


def test_reports_a_module_that_iree_rejects(manifest, files, signer, trust, tmp_path):
    data = manifest
    broken = files | {"variants/cpu.vmfb": b"no module"}
    bundle = write_bundle(tmp_path, data, broken, signer)
    refused(VerificationError, "module-rejected", runtime.load, bundle, trust=trust)
    data["entry_points"][0]["name"] = "missing"
    bundle = write_bundle(tmp_path / "b", data, files, signer)
    refused(VerificationError, "entry-missing", runtime.load, bundle, trust=trust)


def run_python(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env or None
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_number_of_threads_is_one_per_process(bundle, signer):
    code = f"""
from aotc import runtime
from aotc.errors import InputError
import numpy as np
pem = {signer.public_pem!r}
a = runtime.load({str(bundle)!r}, trust=pem, threads=2)
b = runtime.load({str(bundle)!r}, trust=pem)
c = runtime.load({str(bundle)!r}, trust=pem, threads=1)
for model in (a, b, c):
    print(model.predict(x=np.ones((2, 4), np.float32))[0, 0])
for wrong in (3, 0, 257, 1.5, "2", True):
    try:
        runtime.load({str(bundle)!r}, trust=pem, threads=wrong)
    except InputError as error:
        print(error.code)
"""
    assert run_python(code).split() == ["18.0"] * 3 + [
        "threads-fixed",
        *["bad-threads"] * 5,
    ]


@pytest.mark.parametrize("send", [copy.deepcopy, pickle.dumps])
def test_says_that_a_loaded_model_stays_in_its_process(model, send):
    with pytest.raises(InputError, match="not-picklable") as caught:
        send(model)
    assert "load it there" in caught.value.hint


def test_the_edge_loads_nothing_of_the_compiler():
    code = """
import aotc.artifacts, sys
assert not any(name.startswith("iree") for name in sys.modules)
import aotc.runtime
from aotc.runtime import load
heavy = ("torch", "mlir", "iree.compiler", "aotc.dialects", "aotc.passes",
         "aotc.importers", "click", "rich")
print([m for m in sys.modules if m.startswith(heavy)])
"""
    assert run_python(code).strip() == "[]"


def test_an_environment_variable_sets_the_number_of_threads(bundle, signer):
    code = f"""
from aotc import options, runtime
from aotc.errors import InputError
from aotc.runtime import engine
with options.override("AOTC_THREADS", "3"):
    runtime.load({str(bundle)!r}, trust={signer.public_pem!r})
print(engine._pool_size, engine.physical_cores() >= 1)
"""
    assert run_python(code).split() == ["3", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are bound on Linux")
def test_a_thread_for_each_core_is_bound_to_it_and_others_to_none(bundle, signer):
    code = f"""
import os
import numpy as np
from aotc import runtime
from aotc.runtime import engine
may = os.sched_getaffinity(0)
wanted = engine.physical_cores() + int(os.environ["MORE"])
before = set(os.listdir("/proc/self/task"))
model = runtime.load({str(bundle)!r}, trust={signer.public_pem!r}, threads=wanted)
model.predict(x=np.ones((1, 4), np.float32))
pool = set(os.listdir("/proc/self/task")) - before
bound = [os.sched_getaffinity(int(each)) for each in pool]
alone = [each for each in bound if len(each) == 1]
print(len(alone), len(set().union(*alone)), os.sched_getaffinity(0) == may)
"""
    cores = engine.physical_cores()
    bound = str(cores if cores > 1 else 0)
    found = {more: run_python(code, **os.environ, MORE=more).split() for more in "01"}
    assert found == {"0": [bound, bound, "True"], "1": ["0", "0", "True"]}


def _small_memory(manifest, peak, **sizes):
    """Memory plans of all entries, with the greatest batch, or other sizes."""
    plan = {"peak_bytes": peak, "resident_bytes": 0, "sizes": {"batch": 64} | sizes}
    return {each["name"]: plan for each in manifest["entry_points"]}


@pytest.mark.parametrize(
    ("peak", "sizes", "pooled"),
    [
        (100 << 10, {}, False),
        (128 << 10, {}, True),  # beside which there are weights
        (100 << 10, {"batch": 8}, True),  # calls may be larger
        (100 << 10, {"k": 64}, True),  # which has no greatest size
    ],
)
def test_a_small_model_has_one_thread(
    manifest, files, signer, tmp_path, peak, sizes, pooled
):
    memory = _small_memory(manifest, peak, **sizes)
    manifest["variants"][0]["memory"] = memory
    bundle = write_bundle(tmp_path, manifest, files, signer)
    code = f"""
import numpy as np
from aotc import runtime
from aotc.errors import InputError
from aotc.runtime import engine
load = lambda n: runtime.load({str(bundle)!r}, trust={signer.public_pem!r}, threads=n)
print(load(2).predict(x=np.ones((1, 4), np.float32))[0, 0])
print(engine._pool_size is not None)
try:
    load(0)
except InputError as error:
    print(error.code)
"""
    assert run_python(code).split() == ["18.0", str(pooled), "bad-threads"]


@pytest.mark.parametrize(
    ("work", "turns", "small"),
    [
        (30_000_000, 0, {1, 2}),  # 190 µs, of which four threads save 140
        (0, 0, {1, 2, 4, 64}),
        (400_000_000, 0, {1}),
        (400_000_000, 64, {1, 2}),  # a millisecond is saved, and 1.7 lost
        (None, 0, set()),
    ],
)
def test_threads_are_used_if_they_save_more_than_waking_them_takes(
    manifest, files, signer, tmp_path, work, turns, small
):
    names = [each["name"] for each in manifest["entry_points"]]
    shared = {name: {"work": 0, "turns": 0} for name in names}
    shared[names[-1]] = {"work": work, "turns": turns}
    if work is None:
        del shared[names[-1]]
    manifest["variants"][0]["kernels"] = {"regions": [], "shared_work": shared}
    bundle = write_bundle(tmp_path, manifest, files, signer)
    known = Manifest.read((bundle / "manifest.json").read_bytes())
    (variant, *_) = known.variants.values()
    found = {n for n in (1, 2, 4, 64) if is_small(known, variant, n)}
    assert found == small
    assert not is_small(known, variant, None)  # which is for another processor


def test_weights_are_used_where_they_were_verified(bundle, trust):
    allocator = engine.device("llvm-cpu", 1).allocator
    before = allocator.statistics["device_bytes_allocated"]
    model = runtime.load(bundle, trust=trust, threads=1)
    # The two small states are copied, because they change; the weights are not.
    assert allocator.statistics["device_bytes_allocated"] - before <= 128
    assert model.predict(x=X).any()


def test_a_call_takes_the_memory_that_one_like_it_freed(bundle, trust, w):
    allocator = engine.device("llvm-cpu", 1).allocator
    model = runtime.load(bundle, trust=trust, threads=1)

    def allocated_by(rows):
        before = allocator.statistics["device_bytes_allocated"]
        x = np.full((rows, 4), rows, "f")
        np.testing.assert_allclose(model.predict(x=x), x @ w, rtol=1e-6)
        return allocator.statistics["device_bytes_allocated"] - before

    first, *again = [allocated_by(rows) for rows in (64, 64, 8, 64)]
    assert again[0] == 0
    assert again[1] > 0
    assert again[2] == first  # the cache was given back for the call of other sizes


def test_a_model_keeps_its_weights_alive(bundle, trust, w):
    models = [runtime.load(bundle, trust=trust, threads=1) for _ in range(20)]
    kept = models[7]
    del models
    gc.collect()
    np.testing.assert_allclose(kept.predict(x=X), X @ w)


def test_calls_alike_take_no_pages_from_the_system(bundle, signer):
    code = f"""
import resource
from aotc import runtime
import numpy as np
model = runtime.load({str(bundle)!r}, trust={signer.public_pem!r}, threads=1)
x = np.ones(10 << 20, np.float32)  # more than malloc keeps
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    model.echo(x=x)
before = faults()
for _ in range(5):
    model.echo(x=x)
print(faults() - before)
"""
    assert int(run_python(code)) < 100  # of 10,240 pages that each input has


def test_loading_and_calling_leaks_no_memory(bundle, trust):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    for _ in range(20):
        runtime.load(bundle, trust=trust, threads=1).predict(x=X)
    before = resident()
    for _ in range(100):
        runtime.load(bundle, trust=trust, threads=1).predict(x=X)
    assert resident() - before < 512  # pages


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"dtype": "i32"}, "float32"),
        ({"dtype": "f16"}, "float32"),
        ({"dtype": "bf16"}, "elements of type"),
        ({"shape": ["batch", 4]}, "the shape [5, 3]"),
        ({"shape": ["batch"]}, "the shape [5, 3]"),
    ],
)
def test_refuses_results_that_the_manifest_does_not_promise(
    manifest, files, signer, trust, tmp_path, declared, words, monkeypatch
):
    manifest["entry_points"][0]["outputs"][0] |= declared
    path = write_bundle(tmp_path, manifest, files, signer)
    refused(VerificationError, "module-mismatch", runtime.load, path, trust=trust)
    # of modules without declarations, and of sizes that a call decides
    monkeypatch.setattr("aotc.runtime.function.require_signature", lambda *_: None)
    model = runtime.load(path, trust=trust, threads=1)
    assert words in refused(VerificationError, "result-mismatch", model.predict, x=X)


def test_refuses_native_code_that_is_called_portable(
    manifest, files, signer, trust, tmp_path
):
    """Nothing asks for CPU features then, and the first missing one is a SIGILL."""
    manifest["variants"][0]["backend"] = "vmvx"
    path = write_bundle(tmp_path, manifest, files, signer)
    message = refused(
        VerificationError, "backend-mismatch", runtime.load, path, trust=trust
    )
    assert "embedded-elf" in message
