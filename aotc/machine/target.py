"""Targets that variants of a bundle are compiled for, as one table.

`Target.parse("cuda:sm_89")` reads a name that a user writes, `str(target)` gives the
canonical name back, and ``Target.parse(str(t)) == t``. Only names in the table are
accepted, because IREE's compiler crashes on targets that it does not know. What
depends on the target is a field here and what depends on its backend a field there
(`aotc.artifacts.backends`), so a new target is a new row and no code.

A CPU row names its triple and its features, never ``host``: the same command gives the
same bytes on every build machine, and the loader knows what the device must have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from aotc.core import options
from aotc.errors import InputError, SetupError
from aotc.machine import processor


@dataclass(frozen=True)
class Target:
    """A compilation target: a row of the table of targets.

    Args:
        name: canonical name, such as ``cuda:sm_89``.
        summary: what it is for, in a few words.
        backend: IREE compiler backend: a row of `aotc.artifacts.backends`.
        needs: what the device must have, in words.
        flags: flags for ``iree-compile``, the selection of the device included.
        arch: machine architecture, if the code is native CPU code.
        cpu_features_required: ISA features, by LLVM name, that the code may use.
        sm: CUDA architecture that the PTX is generated for.
        ptx_isa: version of the PTX text; an older driver refuses it.
        min_cuda_driver_api: lowest `cuDriverGetVersion` that reads that PTX.
        min_vulkan_api: lowest Vulkan version that the code needs.
        gfx: AMD processor that the code is for.
        gains_narrow_types_alone: whether only products of bf16 and small integers are
            faster than by code that more devices run.
    """

    name: str
    summary: str
    backend: str
    needs: str
    flags: tuple[str, ...]
    arch: str | None = None
    cpu_features_required: tuple[str, ...] = ()
    sm: str | None = None
    ptx_isa: str | None = None
    min_cuda_driver_api: int | None = None
    min_vulkan_api: str | None = None
    gfx: str | None = None
    gains_narrow_types_alone: bool = False

    @classmethod
    def parse(cls, text: str) -> Target:
        """Return the target of a name; of the set `cpu`, the most common one.

        Raises:
            InputError: no such target; the hint lists those that there are.
        """
        name = text.strip().lower()
        if name == "cpu":
            name = _cpu_set()[0]
        name = _ALIASES.get(name, name)
        if name not in TARGETS:
            raise _unknown(text)
        return TARGETS[name]

    @classmethod
    def named(cls, text: str) -> tuple[Target, ...]:
        """Return all targets of a name: `cpu` and `cuda` are sets, `native` is this
        machine's.

        `cpu` are the levels that common processors of the architecture of this machine
        have, and the loader takes the best one that a device runs. `cuda` are the GPUs
        that kernels differ for, where there is what compiles them, and else PTX for all
        of them. `native` is the best level of this machine, and never its model.

        Raises:
            InputError: no such target; the hint lists those that there are.
        """
        name = text.strip().lower()
        if name == "cpu":
            return tuple(TARGETS[each] for each in _cpu_set())
        if name == "cuda" and find_spec("triton") is not None:
            return tuple(TARGETS[each] for each in _CUDA_SET)
        if name == "native":
            return (_native(),)
        return (cls.parse(text),)

    @classmethod
    def listed(cls, given: str | Iterable[Target | str]) -> tuple[Target, ...]:
        """Return the distinct targets among targets and names.

        Raises:
            InputError: one of them is none; the hint lists those that there are.
        """
        found: list[Target] = []
        for each in [given] if isinstance(given, str | Target) else given:
            if not isinstance(each, str | Target):
                raise _unknown(each)
            found += cls.named(each) if isinstance(each, str) else [each]
        return tuple(dict.fromkeys(found))

    @classmethod
    def default(cls) -> tuple[Target, ...]:
        """Return the targets of a build that names none: those of AOTC_TARGETS, or else
        `cpu`.

        Raises:
            InputError: AOTC_TARGETS names one that there is not.
        """
        texts = options.get("AOTC_TARGETS").replace(",", " ").split() or ["cpu"]
        try:
            return cls.listed(texts)
        except InputError as error:
            error.where = "AOTC_TARGETS"
            raise

    def __str__(self) -> str:
        return self.name

    @property
    def id(self) -> str:
        """The name in a form that is valid as a file name."""
        return self.name.replace(":", "-")

    @property
    def family(self) -> str:
        """The family of the target: its members differ in speed, not in
        capabilities.
        """
        return self.name.partition(":")[0].partition("-v")[0]

    def to_json(self) -> dict[str, object]:
        """Return the `target` object of a variant in the manifest."""
        facts: dict[str, object] = {
            "name": self.name,
            "arch": self.arch,
            "cpu_features_required": list(self.cpu_features_required),
            "sm": self.sm,
            "ptx_isa": self.ptx_isa,
            "min_cuda_driver_api": self.min_cuda_driver_api,
            "min_vulkan_api": self.min_vulkan_api,
            "gfx": self.gfx,
        }
        return {key: value for key, value in facts.items() if value}


# The psABI levels of x86-64; each has what the one before it has.
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = _V2 + ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V3_DOT = _V3 + ("avxvnni",)
_V4 = _V3 + ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_V4_DOT = _V4 + ("avx512bf16", "avx512vnni")


def _cpu(
    name: str,
    summary: str,
    cpu: str,
    features: tuple[str, ...],
    *more_flags: str,
    gains_narrow_types_alone: bool = False,
) -> Target:
    """Return a target of native CPU code in an embedded ELF, independent of the OS."""
    arch, _, _ = name.partition("-v")
    return Target(
        name=name,
        summary=summary,
        backend="llvm-cpu",
        needs="any such CPU, whatever the OS",
        arch=arch,
        cpu_features_required=tuple(sorted(features)),
        flags=(
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-triple={arch}-unknown-linux-gnu",
            f"--iree-llvmcpu-target-cpu={cpu}",
            "--iree-llvmcpu-target-cpu-features="
            + ",".join(f"+{feature}" for feature in sorted(features)),
            *more_flags,
        ),
        gains_narrow_types_alone=gains_narrow_types_alone,
    )


# What does not fill a vector is peeled off as a loop of its own. For AVX-512 IREE would
# mask it, and code for AVX2 was faster than that (docs/benchmarks.md).
PEELING = "--iree-llvmcpu-vector-pproc-strategy=peel"

# IREE 3.13 distributes a reduction over vectors with "failed to distribute" when an
# elementwise op is fused into it and the result is a scalar.
_PLAIN_REDUCTIONS = "--iree-codegen-llvmgpu-use-reduction-vector-distribution=false"

# What is launched is recorded by a function of its own, apart from the memory that it
# is bound to, whatever numbers it takes (`aotc.worker.recordings`).
_RECORDINGS = "--iree-hal-force-indirect-command-buffers"


def _cuda(
    sm: str, summary: str, ptx_isa: str, driver_api: int, others: str = ""
) -> Target:
    """Return a target of PTX, which drivers translate for this GPU generation or newer
    ones.

    Args:
        sm: that kernels of aotc's own are for; with an `a`, it is that one alone.
        summary: of the target.
        ptx_isa: version of the PTX text.
        driver_api: the lowest that reads it.
        others: the architecture that IREE generates other code for, if it does not
            know the first.
    """
    newer = "" if sm.endswith("a") else " or newer"
    return Target(
        name=f"cuda:{sm}",
        summary=summary,
        backend="cuda",
        needs=f"NVIDIA GPU {sm.removesuffix('a')}{newer}, driver with CUDA "
        f"{driver_api // 1000}.{driver_api % 1000 // 10} or newer",
        sm=sm,
        ptx_isa=ptx_isa,
        min_cuda_driver_api=driver_api,
        flags=(
            "--iree-hal-target-device=cuda",
            f"--iree-cuda-target={others or sm}",
            _PLAIN_REDUCTIONS,
            _RECORDINGS,
        ),
    )


# IREE's baseline of Vulkan devices, with numbers of 8 and 16 bits besides: without them
# IREE 3.13 writes f16 as f32, over what lies behind it, and the last bytes of an array
# whose length is no multiple of four may be lost. What code uses of these the device
# has to offer (`vulkan_features` of a variant).
_VULKAN_DEVICE = (
    '#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", '
    '"vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<'
    'arch = "vp_android_baseline_2022", features = "spirv:v1.3,cap:Shader", wgp = <'
    "compute = fp32|fp16|int32|int16|int8, storage = b32|b16|b8, subgroup = none, "
    "subgroup_size_choices = [64], max_workgroup_sizes = [128, 128, 64], "
    "max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384, "
    "max_workgroup_counts = [65535, 65535, 65535]>>}>]> : !hal.device"
)


def _rocm(chip: str, summary: str) -> Target:
    """Return a target of an AMD GPU."""
    return Target(
        name=f"rocm:{chip}",
        summary=summary,
        backend="rocm",
        needs=f"AMD GPU {chip} with the ROCm runtime",
        gfx=chip,
        flags=(
            "--iree-hal-target-device=hip",
            f"--iree-rocm-target={chip}",
            _PLAIN_REDUCTIONS,
            _RECORDINGS,
        ),
    )


_TABLE = [
    _cpu("x86_64-v2", "x86-64 with SSE4.2, from 2009", "x86-64-v2", _V2),
    _cpu("x86_64-v3", "x86-64 with AVX2 and FMA, from 2013", "x86-64-v3", _V3),
    _cpu(
        "x86_64-v3-dot",
        "x86-64 with AVX2 and dot products of bytes, from 2021",
        "x86-64-v3",
        _V3_DOT,
        gains_narrow_types_alone=True,
    ),
    _cpu("x86_64-v4", "x86-64 with AVX-512, from 2017", "x86-64-v4", _V4, PEELING),
    _cpu(
        "x86_64-v4-dot",
        "x86-64 with AVX-512 and dot products of bf16 and bytes, from 2020",
        "x86-64-v4",
        _V4_DOT,
        PEELING,
        gains_narrow_types_alone=True,
    ),
    _cpu("aarch64", "64-bit Arm, from Armv8.0", "generic", ("fp-armv8", "neon")),
    _cpu(
        "aarch64-v8.2",
        "64-bit Arm with dot products and half floats, from 2018",
        "generic",
        ("dotprod", "fp-armv8", "fullfp16", "neon"),
    ),
    _cpu(
        "aarch64-v8.6",
        "64-bit Arm with dot products of bf16 and bytes, from 2020",
        "generic",
        ("bf16", "dotprod", "fp-armv8", "fullfp16", "i8mm", "neon"),
        gains_narrow_types_alone=True,
    ),
    _cpu(
        "riscv64",
        "64-bit RISC-V, RV64GC",
        "generic-rv64",
        ("m", "a", "f", "d", "c"),
        "--iree-llvmcpu-target-abi=lp64d",
    ),
    _cpu(
        "riscv64-v",
        "64-bit RISC-V with vectors (V 1.0), RV64GCV",
        "generic-rv64",
        ("m", "a", "f", "d", "c", "v"),
        "--iree-llvmcpu-target-abi=lp64d",
    ),
    # This IREE knows neither sm_90 nor sm_100: such GPUs run its PTX of sm_89.
    _cuda("sm_80", "NVIDIA A100 and newer", "7.6", 11060),
    _cuda("sm_86", "NVIDIA RTX 30, A10 and newer", "7.6", 11060),
    _cuda("sm_89", "NVIDIA RTX 40, L4, H100 and newer", "8.4", 12040),
    _cuda("sm_90a", "NVIDIA H100, H200 and GH200", "8.4", 12040, others="sm_89"),
    _cuda("sm_100a", "NVIDIA B200 and GB200", "8.6", 12070, others="sm_89"),
    _cuda("sm_120", "NVIDIA RTX 50 and newer", "8.7", 12080),
    Target(
        name="vulkan",
        summary="any GPU with Vulkan 1.3, newer phones included",
        backend="vulkan-spirv",
        needs="Vulkan 1.3 driver (the code needs 1.1, IREE's driver more)",
        min_vulkan_api="1.1",
        flags=(f"--iree-hal-target-device={_VULKAN_DEVICE}",),
    ),
    _rocm("gfx942", "AMD Instinct MI300"),
    _rocm("gfx1100", "AMD Radeon RX 7900"),
    _rocm("gfx1201", "AMD Radeon RX 9070"),
    Target(
        name="metal",
        summary="Apple GPU under macOS",
        backend="metal-spirv",
        needs="macOS with Metal",
        # Shader source, because only a Mac has the tool that makes a metallib.
        flags=(
            "--iree-hal-target-device=metal",
            "--iree-metal-target-platform=macos",
            "--iree-metal-compile-to-metallib=false",
        ),
    ),
    Target(
        name="vmvx",
        summary="portable bytecode for any CPU: slow, runs everywhere",
        backend="vmvx",
        needs="any CPU",
        flags=(
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=vmvx",
        ),
    ),
]

TARGETS = {target.name: target for target in _TABLE}

_ALIASES = {
    "cuda": "cuda:sm_80",
    "x86-64-v2": "x86_64-v2",
    "x86-64-v3": "x86_64-v3",
    "x86-64-v4": "x86_64-v4",
    "arm64": "aarch64",
}

# machine of the build host → what `cpu` means there, the most common level first
_X86, _ARM = ("x86_64-v3", "x86_64-v4"), ("aarch64", "aarch64-v8.2")
_CPU_SETS = {
    "x86_64": _X86,
    "amd64": _X86,
    "aarch64": _ARM,
    "arm64": _ARM,
    "riscv64": ("riscv64",),
}


# PTX for all GPUs, and code for those that have instructions of their own for matrices
_CUDA_SET = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a")


# what is added to `cpu` for programs with weights of bytes
_BYTES_LEVELS: dict[tuple[str, ...], str] = {_X86: "x86_64-v4-dot"}


def for_bytes(targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return targets for a program with i8 or u8 weights: the set `cpu` gets a
    dot-product level.

    Those that are `cpu` get the level that has instructions for products of bytes; what
    others name stays what they name.
    """
    level = _BYTES_LEVELS.get(tuple(map(str, targets)))
    return (*targets, TARGETS[level]) if level else (*targets,)


def _cpu_set() -> tuple[str, ...]:
    """Return the names of the targets that `cpu` means on this machine."""
    import platform

    machine = platform.machine().lower()
    if machine not in _CPU_SETS:
        raise SetupError(
            "unknown-host",
            f"`cpu` has no meaning on this machine ({machine})",
            hint="name a target, for example `--target x86_64-v3`",
        )
    return _CPU_SETS[machine]


def cpu_level() -> str:
    """Return the name of the best CPU target that this machine runs, else its
    architecture.
    """
    return level_of(processor.arch(), processor.cpu_features())


def level_of(machine: str, features: Collection[str]) -> str:
    """Return the name of the best CPU target for an architecture and features, or
    `machine` if none.
    """
    levels = [
        target
        for target in TARGETS.values()
        if target.arch == machine
        and set(features).issuperset(target.cpu_features_required)
    ]
    best = max(levels, key=lambda target: len(target.cpu_features_required), default="")
    return str(best) or machine


def _native() -> Target:
    """Return the best CPU target that this machine runs."""
    level = cpu_level()
    if level not in TARGETS:
        raise SetupError(
            "unknown-host",
            f"no CPU target runs on this machine ({level})",
            hint="name a target, for example `--target vmvx`",
        )
    return TARGETS[level]


def _unknown(given: object) -> InputError:
    """Return the error for a name that is no target, with similar ones."""
    from difflib import get_close_matches

    known = ["cpu", "native", *TARGETS, *_ALIASES]
    close = get_close_matches(str(given).strip().lower(), known, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return InputError(
        "unknown-target",
        f"{given!r} is not a target",
        hint=f"{meant}targets: cpu, native, {', '.join(TARGETS)}",
    )
