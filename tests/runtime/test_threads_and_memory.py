"""Threads of a loaded model, and the memory of its weights and calls."""

import gc
import os
import sys

import numpy as np
import pytest

from aotc import runtime
from aotc.artifacts import write_bundle
from aotc.artifacts.manifest import Manifest
from aotc.runtime import engine
from aotc.runtime.small import is_small
from tests.runtime.running import X, run_python


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


def test_an_environment_variable_sets_the_number_of_threads(bundle, signer):
    code = f"""
from aotc import runtime
from aotc.core import options
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
