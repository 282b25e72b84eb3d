"""`load`: from a path to a model, with everything checked on the way."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import iree.runtime as iree

from aotc.artifacts import vmfb
from aotc.artifacts.compat import Host, select
from aotc.artifacts.files import Buffer
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.pack import VerifiedBundle, read_bundle, read_steadily
from aotc.artifacts.trust import Trust
from aotc.errors import InputError, SetupError, VerificationError
from aotc.runtime import engine, prints
from aotc.runtime.function import Module
from aotc.runtime.model import Model
from aotc.target import Target

_MODULE_NAME = "aotc"


def load(
    path: Path | str,
    *,
    trust: Trust | str | os.PathLike[str] | None = None,
    allow_unsigned: bool = False,
    threads: int | None = None,
    target: str | None = None,
) -> Model:
    """Load a bundle.

    1. verify signature, manifest and list of files
    2. choose the variant for this machine
    3. verify the files of that variant, into memory that cannot change
    4. map weights and code

    Args:
        path: the bundle's directory.
        trust: whose signature to accept: a public key file or PEM text, or a `Trust`;
            by default the user's own development key.
        allow_unsigned: accept a bundle without a signature. It is native code.
        threads: how many threads compute, by default `AOTC_THREADS` or the number of
            physical cores; 1 computes in the calling thread. One process has one number
            (besides 1).
        target: the variant to use, by its id or as a target such as `cpu` or
            `cuda:sm_89`; by default the best for this machine.

    Raises:
        InputError: there is no bundle, or an argument is wrong.
        VerificationError: the bundle is damaged or not trusted.
        SetupError: `incompatible` or `no-driver`.
    """
    return read_steadily(
        path, lambda: _load(path, trust, allow_unsigned, threads, target)
    )


def _load(
    path: Path | str,
    trust: Trust | str | os.PathLike[str] | None,
    allow_unsigned: bool,
    threads: int | None,
    target: str | None,
) -> Model:
    # 1. verify
    bundle = read_bundle(path, trust, allow_unsigned)
    # 2. choose
    variant = _choose(bundle.manifest, target)
    device = engine.device(variant.backend, threads)
    # 3. verify the files, 4. map
    return Model(bundle.manifest, variant, _map(bundle, variant, device))


def _choose(manifest: Manifest, target: str | None) -> Variant:
    host = engine.host({variant.backend for variant in manifest.variants.values()})
    if target is not None:
        target = _variant_id(manifest, target, host)
    selection = select(manifest, host, target)
    if selection.variant is None:
        driver = all("[no-driver]" in reason for reason in selection.reasons)
        raise SetupError(
            "no-driver" if driver else "incompatible",
            f"{manifest.name} {manifest.version} does not run on this machine "
            f"({selection.verdict}): {'; '.join(selection.reasons)}",
            hint=_advice(manifest, host, target),
        )
    if selection.reasons:
        warnings.warn("; ".join(selection.reasons), stacklevel=6)
    return selection.variant


def _advice(manifest: Manifest, host: Host, target: str | None) -> str:
    """What to do when no variant runs here, or not the one that was asked for."""
    other = select(manifest, host).variant if target is not None else None
    if other is not None:
        return f"this machine ({host.arch}) runs the variant {other.id}: name no target"
    return (
        f"the bundle has {', '.join(manifest.variants)}, and this machine is "
        f"{host.arch} with IREE {host.runtime_version}: build it with a --target for "
        "this machine, see `aotc targets`"
    )


def _variant_id(manifest: Manifest, target: str, host: Host) -> str:
    """The variant that `target` means: its id, or a target's name such as `cpu`."""
    try:
        wanted = target if target in manifest.variants else Target.parse(target).id
    except InputError:
        wanted = target
    if wanted not in manifest.variants:
        known = ", ".join(manifest.variants)
        raise InputError(
            "unknown-variant",
            f"expected one of the bundle's variants ({known}), got {target!r}",
            hint=_advice(manifest, host, target),
        )
    return wanted


# Note [no Python memory in IREE]: IREE may drop its last reference to a buffer on a
# worker thread, without the interpreter's lock. If that buffer is a Python object, the
# process dies, now and then, when a call or the interpreter ends. So code is copied,
# weights are mapped by IREE itself, and inputs are never borrowed.


def _map(bundle: VerifiedBundle, variant: Variant, device: Any) -> Module:
    scopes = _parameters(bundle, variant)
    providers = [index.create_provider(scope=name) for name, index in scopes.items()]
    try:
        code = bundle.load(variant.file)
        _check_backend(code, variant)
        return start(code, variant.backend, device, providers)
    except (RuntimeError, ValueError, IndexError) as error:
        first_line = str(error).partition("\n")[0]
        raise VerificationError(
            "module-rejected",
            f"IREE rejects the module: {first_line}",
            where=variant.file,
        ) from error


def _check_backend(code: Buffer, variant: Variant) -> None:
    """What every CPU is said to run must hold no code that only some can run."""
    if variant.backend != "vmvx":
        return
    native = vmfb.formats(code) - {"vmvx-bytecode-fb"}
    if native:
        raise VerificationError(
            "backend-mismatch",
            f"expected portable code, as the backend is vmvx, got {', '.join(native)}",
            where=variant.file,
        )


def start(
    code: Buffer, backend: str, device: Any, providers: Sequence[Any] = ()
) -> Module:
    """The code of a variant, running on a device of `engine.device`.

    Args:
        code: the .vmfb, which nobody has verified here.
        backend: that it is for.
        device: what runs it.
        providers: of its parameters.
    """
    instance = engine.instance()
    on_cpu = backend in engine.CPU_BACKENDS
    module = iree.VmModule.copy_buffer(instance, code)
    if module.name != _MODULE_NAME:
        raise ValueError(f"its name is {module.name!r}, expected {_MODULE_NAME!r}")
    sink = prints.sink(device, on_cpu)
    modules = [iree.create_hal_module(instance, device, debug_sink=sink)]
    if providers:
        modules.append(iree.create_io_parameters_module(instance, *providers))
    context = iree.VmContext(instance, modules=[*modules, module])
    return Module(context, module, device, on_cpu)


def _parameters(bundle: VerifiedBundle, variant: Variant) -> dict[str, Any]:
    """The weights that `variant` needs, as parameter indexes by scope."""
    scopes: dict[str, Any] = {}
    for weights in bundle.manifest.weights:
        if weights.required_by and variant.id not in weights.required_by:
            continue
        index = scopes.setdefault(weights.scope, iree.ParameterIndex())
        try:
            with bundle.sealed_path(weights.file) as path:
                index.load(path, weights.format)
        except (RuntimeError, ValueError, IndexError) as error:
            first_line = str(error).partition("\n")[0]
            raise VerificationError(
                "weights-rejected",
                f"IREE rejects the weights: {first_line}",
                where=weights.file,
            ) from error
    return scopes
