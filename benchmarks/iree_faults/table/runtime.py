"""Faults of IREE's runtime and tools."""

from __future__ import annotations

import numpy as np

from .. import runs
from ..fault import Fault, Symptom
from ..witnesses import Dies, Elsewhere, Fails, Shows, Source

ROWS = (
    Fault(
        "reference-passed-twice",
        Symptom.DIES,
        "Moves a reference with the last use of it; where that is a branch which "
        "passes it several times, the others may pass null.",
        ("aotc/worker/references.py: module",),
        Fails(
            Source("reference-passed-twice"),
            (np.arange(4, dtype=np.float32),),
            "binding table slot requires a buffer but none was provided",
        ),
        upstream=("https://github.com/iree-org/iree/pull/24781",),
    ),
    Fault(
        "scatter-into-an-argument",
        Symptom.UNSAFE,
        "Writes into its caller's buffer where an op starts from an argument.",
        ("dialects/ops/scatter_lowering.py: Note [scatter]",),
        Shows(runs.scatter_into_an_argument),
    ),
    Fault(
        "scatter-out-of-bounds",
        Symptom.UNSAFE,
        "Checks no position of a scatter.",
        (
            "dialects/ops/scatter_lowering.py: _keep_writable",
            "dialects/ops/indexing.py: Note [out of bounds]",
        ),
        Dies(runs.scatter_out_of_bounds, "SIGSEGV"),
    ),
    Fault(
        "reads-of-nothing",
        Symptom.DIES,
        "Divides by the sizes of all axes but the first where it reads many elements "
        "by their number in memory: a size of 0 ends the process.",
        ("dialects/lowering/reads.py: Note [reads of nothing]",),
        Dies(runs.read_from_an_empty_axis, "SIGFPE"),
    ),
    Fault(
        "no-shared-memory-on-hip",
        Symptom.UNSAFE,
        "Launches kernels on HIP without the memory that the threads of a program are "
        "to share, whatever an export of compiled code says (workgroup_local_memory).",
        ("aotc/kernels/gpu/compiling.py: _as_iree_launches",),
        Elsewhere("tests/kernels/gpu/test_modules.py finds none in the module"),
    ),
    Fault(
        "empty-launches-on-cuda",
        Symptom.DIES,
        "Launches grids of no workgroups on CUDA, which the driver refuses; on HIP it "
        "leaves them out.",
        ("aotc/worker/empty_work.py: module",),
        Elsewhere("takes an NVIDIA GPU: stream_command_buffer.c, line 601"),
    ),
    Fault(
        "no-bytes-on-cuda",
        Symptom.DIES,
        "Allocates blocks of 0 bytes from CUDA's pools, which the driver then does not "
        "take back.",
        ("aotc/worker/empty_work.py: module",),
        Elsewhere("takes an NVIDIA GPU: `hal.device.queue.dealloca` fails"),
    ),
    Fault(
        "empty-bindings-on-vulkan",
        Symptom.DIES,
        "Binds memory of 0 bytes to a dispatch, as to one that sums over nothing, and "
        "refuses that on Vulkan.",
        ("aotc/worker/empty_work.py: module",),
        Elsewhere("tests/e2e/test_vulkan.py has such sums"),
    ),
    Fault(
        "memory-between-calls-on-gpus",
        Symptom.SLOW,
        "Makes the pools of CUDA and HIP so that they give all memory back to the "
        "driver at the end of each call.",
        ("aotc/worker/workspaces.py: module",),
        Elsewhere("takes a GPU; read in memory_pools.c: the release threshold is 0"),
    ),
    Fault(
        "launches-recorded-in-each-call",
        Symptom.SLOW,
        "Records the launches of an entry anew in each call where a number of one is "
        "behind a barrier, comes from a size of the call, or tells where a state lies.",
        ("aotc/worker/recordings.py: module",),
        Elsewhere("tests/aotc/test_gpu_rewrites.py has an entry with both"),
    ),
    Fault(
        "caches-in-front-of-gpu-allocators",
        Symptom.UNSAFE,
        "Takes whatever allocator a device has for its driver's own on HIP and Vulkan, "
        "so that a cache in front of it is read as something else.",
        ("aotc/runtime/engine.py: Note [memory between calls on a GPU]",),
        Elsewhere("with a cache for Vulkan, tests/e2e/test_vulkan.py fails"),
    ),
    Fault(
        "results-on-cuda-are-not-lent",
        Symptom.MISSING,
        "Exports no memory of CUDA's stream-ordered pools, of which results are.",
        ("aotc/runtime/transfers.py: Transfers.keep",),
        Elsewhere("takes an NVIDIA GPU; read in cuda_allocator.c"),
    ),
    Fault(
        "no-cuda-graph-twice",
        Symptom.MISSING,
        "Makes no CUDA graph of a recording that calls share, and a new one in each "
        "call of any other.",
        ("aotc/worker/recordings.py: module",),
        Elsewhere("tests/runtime/test_cuda_driver.py counts what calls launch"),
    ),
    Fault(
        "no-python-memory",
        Symptom.DIES,
        "Drops references to buffers on its own threads, without the interpreter's "
        "lock.",
        ("aotc/runtime/loader.py: Note [no Python memory in IREE]",),
        Elsewhere("shows by chance: 1 of 50 processes died when it ended"),
    ),
    Fault(
        "view-of-mapped-memory",
        Symptom.UNSAFE,
        "Lets go of mapped memory to which views of its array still refer.",
        ("aotc/runtime/buffers.py: _MappedBuffer",),
        Shows(runs.view_of_mapped_memory),
    ),
    Fault(
        "single-state-is-mapped",
        Symptom.DIES,
        "Copies the initial values of several states into one buffer, but starts with "
        "a single one where its file is mapped to be read.",
        ("passes/update_in_place.py: module", "passes/state_windows.py: module"),
        Elsewhere("takes an archive of parameters and a device that maps it"),
    ),
    Fault(
        "threads-and-forks",
        Symptom.DIES,
        "Loses its threads in a fork, and a process that ends with a call in flight.",
        ("aotc/runtime/lifetime.py: module",),
        Elsewhere("tests/runtime/test_lifetime.py has the cases"),
    ),
    Fault(
        "more-threads-than-256",
        Symptom.MISSING,
        "Makes a pool of 256 threads where more are asked for, without a word.",
        ("aotc/core/options.py: MAX_THREADS",),
        Elsewhere("takes a machine of more cores"),
    ),
    Fault(
        "no-temporary-folder",
        Symptom.DIES,
        "Cannot compile where the folder for temporary files is not there.",
        ("aotc/backend/__init__.py: _run_worker",),
        Shows(runs.compile_without_a_temporary_folder),
    ),
    Fault(
        "profiling-from-python",
        Symptom.MISSING,
        "Does not profile from Python, nor CUDA and ROCm devices at all.",
        ("aotc/timing/dispatches.py: module",),
        Elsewhere("`HalDevice.begin_profiling` has nowhere to write to"),
    ),
    Fault(
        "notes-of-several-threads",
        Symptom.MISSING,
        "Has its threads spoil each other's notes of dispatches now and then.",
        ("aotc/timing/dispatches.py: _profile_calls",),
        Elsewhere("shows by chance, in calls of thousands of dispatches"),
    ),
    Fault(
        "modules-under-older-runtimes",
        Symptom.UNSAFE,
        "Loads modules of 3.13 under 3.12, some of which then fail.",
        ("artifacts/compat.py: _other_release",),
        Elsewhere("takes wheels of both: `python -m benchmarks.compat.sweep`"),
    ),
)
