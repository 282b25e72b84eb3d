"""Faults in which IREE is right, and slow, or takes too much memory."""

from __future__ import annotations

from .. import runs
from ..fault import Fault, Symptom
from ..witnesses import Code, Elsewhere, Shows, Source

_MEASURED = "a matter of time: measured as the Note says"

ROWS = (
    Fault(
        "loop-carried-tensor",
        Symptom.SLOW,
        "Copies a tensor that a loop carries whenever a step writes a part of it.",
        (
            "dialects/lowering/stacks.py: Note [loop buffers]",
            "dialects/lowering/scans.py: Note [scan in blocks]",
        ),
        Code(Source("loop-carried-tensor"), "stream", "stream.cmd.copy", right=1),
    ),
    Fault(
        "result-of-its-own",
        Symptom.SLOW,
        "Gives every result a buffer of its own, also the new value of a state.",
        ("passes/update_in_place.py: module", "passes/state_windows.py: module"),
        Code(Source("result-of-its-own"), "stream", "stream.resource.alloca", right=1),
    ),
    Fault(
        "known-keys",
        Symptom.SLOW,
        "Evaluates what follows from constants while it compiles, each op on its own, "
        "and copies what it does not evaluate into all that reads it.",
        ("aotc/random/threefry.py: _behind_barrier",),
        Shows(runs.compile_known_numbers),
    ),
    Fault(
        "grouped-convolution",
        Symptom.SLOW,
        "Neither vectorises nor tiles a grouped convolution.",
        ("dialects/ops/convolution_lowering.py: Note [grouped convolution]",),
        Elsewhere(_MEASURED),
    ),
    Fault(
        "patches-fused",
        Symptom.SLOW,
        "Fuses a generic that reads windows into the product that follows, and then "
        "neither vectorises nor tiles that.",
        ("dialects/lowering/patches.py: Note [patches by slices]",),
        Elsewhere(_MEASURED),
    ),
    Fault(
        "masked-remainders",
        Symptom.SLOW,
        "Masks what does not fill a vector for AVX-512, which is slower than AVX2.",
        ("aotc/machine/target.py: PEELING",),
        Elsewhere("a matter of time: `python benchmarks/cpu_level_time.py`"),
    ),
    Fault(
        "conversion-to-bf16",
        Symptom.SLOW,
        "Rounds in each conversion to bf16, also of what is one already.",
        ("aotc/kernels/cpu/vectors.py: as_stored",),
        Elsewhere("a matter of time: `python -m benchmarks.inner_loops`"),
    ),
    Fault(
        "large-blocks-of-the-pool",
        Symptom.SLOW,
        "Gives memory of more than 64 MiB of the thread pool's device back to the "
        "system after each call.",
        ("aotc/worker/workspaces.py: module",),
        Elsewhere("a matter of pages: `aotc bench` tells how many calls take"),
    ),
    Fault(
        "memory-between-calls",
        Symptom.SLOW,
        "Gives large buffers of the device without threads back to the system after "
        "each call, and lets nobody choose how that with threads keeps them.",
        ("aotc/runtime/engine.py: Note [memory between calls]",),
        Elsewhere("a matter of pages: `aotc bench` tells how many calls take"),
    ),
    Fault(
        "caller-woken-too-early",
        Symptom.SLOW,
        "Wakes the calling thread before it marks the call as completed, so that it "
        "spins, perhaps in the place of the thread that would mark it.",
        ("aotc/runtime/scheduling.py: Note [a caller that is woken too early]",),
        Elsewhere("a matter of time, on two quiet cores: `aotc bench`, p90"),
    ),
    Fault(
        "line-numbers-in-vmvx",
        Symptom.SLOW,
        "Keeps line numbers in portable code, so that another comment is another "
        "module.",
        ("aotc/backend/reuse.py: module",),
        Elsewhere("tests/core/test_cache.py compiles both kinds"),
    ),
)
