"""`load`: from a path to a model, with everything checked on the way."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import iree.runtime as iree

from aotc.artifacts import vmfb
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.files import Buffer
from aotc.artifacts.manifest import DeviceAxis, Manifest, ManifestWeights, Variant
from aotc.artifacts.pack import VerifiedBundle, read_bundle, retry_if_replaced
from aotc.core import options
from aotc.errors import InputError, VerificationError
from aotc.errors.system import raise_system_error, translate_system_errors
from aotc.parallel import Device, LocalDevices, current
from aotc.runtime import engine, prints
from aotc.runtime.callbacks import Callbacks, require_callbacks
from aotc.runtime.choice import choose
from aotc.runtime.collectives import Exchange
from aotc.runtime.device_models import DeviceModels
from aotc.runtime.foreign_tensors import gpu_of
from aotc.runtime.huge_pages import header_size, huge_pages_for
from aotc.runtime.model import Model
from aotc.runtime.module import LoadedModule
from aotc.runtime.small import is_small

if TYPE_CHECKING:
    from aotc.artifacts.trust import Trust
    from aotc.runtime.iree_types import HalDevice, ParameterIndex

_MODULE_NAME = "aotc"


def load(
    path: Path | str,
    *,
    trust: Trust | str | os.PathLike[str] | None = None,
    allow_unsigned: bool = False,
    threads: int | None = None,
    target: str | None = None,
    fallback: bool = True,
    callbacks: Callbacks | None = None,
    weights: str | None = None,
) -> Model:
    """Load a bundle.

    1. verify signature, manifest and list of files
    2. choose the variant for this machine
    3. verify all files but the modules and weights of other variants; what is used,
       into memory that cannot change
    4. map weights and code

    Args:
        path: the bundle's directory.
        trust: whose signature to accept: a public key file or PEM text, or a `Trust`;
            by default the user's own development key.
        allow_unsigned: accept a bundle without a signature. It is native code.
        threads: how many threads compute, by default `AOTC_THREADS` or the number of
            physical cores; 1 computes in the calling thread, 256 are the most. One
            process has one number (besides 1). A model of which one thread computes
            calls faster than several, because they are short, has one thread.
        target: the variant to use, by its id or as a target such as `cpu` or
            `cuda:sm_89`; by default the best for this machine.
        fallback: whether a processor may run what has code for an accelerator too, if
            that code cannot be used here. Each such load is counted
            (`fallback_count`); where there is an accelerator of the kind, the first of
            each bundle warns. A variant that `target` names is no fallback.
        callbacks: functions that compute calls of sizes without code, by the names in
            policies `callback:NAME`: of the inputs by name, with the entry's result.
        weights: where weights lie, by default as AOTC_WEIGHTS says. `private`: they are
            copied to memory of this process, in huge pages where there are such, and
            verified as they are copied: nobody can change them any more. `mapped`: they
            are verified and then mapped from the bundle's files, which takes less time,
            and no memory of its own in several processes; whoever may write to these
            files can change what the model computes, or end it by making them shorter.

    Raises:
        InputError: there is no bundle, or an argument is wrong.
        VerificationError: the bundle is damaged or not trusted.
        SetupError: `incompatible`, `no-driver`, or `fallback-refused`; or the machine
            refuses to read it: `file-access` or `out-of-memory`.
    """
    with translate_system_errors():
        asked = _Asked(
            path, trust, allow_unsigned, threads, target, fallback, _is_mapped(weights)
        )
        model = retry_if_replaced(path, lambda: _load(asked, _part_of_process))
        _connect(model, callbacks or {})
        return model


def load_devices(
    path: Path | str,
    *,
    trust: Trust | str | os.PathLike[str] | None = None,
    allow_unsigned: bool = False,
    threads: int | None = None,
    target: str | None = None,
    fallback: bool = True,
    callbacks: Callbacks | None = None,
    weights: str | None = None,
) -> DeviceModels:
    """Load a bundle whose entries take several devices, once for each of them here.

    The devices are divided evenly among the ranks of the group that this process
    belongs to (`aotc run --ranks`, torchrun, mpirun). A process that none of these has
    started has all of them.

    Args:
        path: the bundle's directory.
        trust: as for `load`.
        allow_unsigned: likewise.
        threads: likewise; all devices of the process share them.
        target: likewise.
        fallback: likewise.
        callbacks: likewise.
        weights: likewise.

    Raises:
        InputError: `bad-ranks`: the devices cannot be divided so; and as `load`.
        VerificationError, SetupError: as `load`; `no-engine`.
    """
    with translate_system_errors():
        asked = _Asked(
            path, trust, allow_unsigned, threads, target, fallback, _is_mapped(weights)
        )
        models = retry_if_replaced(path, lambda: _load_all(asked))
        for model in models:
            _connect(model, callbacks or {})
        return models


def _connect(model: Model, callbacks: Callbacks) -> None:
    """Connect all entries of a model to each other and to the callbacks."""
    require_callbacks(callbacks, model.manifest.symbols.values())
    for entry in model.entries.values():
        entry.connect(model.entries, callbacks)


@dataclass(frozen=True)
class _Asked:
    """The arguments of `load`, without callbacks."""

    path: Path | str
    trust: Trust | str | os.PathLike[str] | None
    allow_unsigned: bool
    threads: int | None
    target: str | None
    fallback: bool
    is_mapped: bool


_PartOf = Callable[[Manifest], Device | None]


def _part_of_process(manifest: Manifest) -> Device | None:
    """Return the device of this process; None if the model has none, or here
    several.
    """
    if manifest.devices is None:
        return None
    devices = LocalDevices(current(), manifest.devices)
    return devices.device(0) if len(devices.numbers) == 1 else None


def _load_all(asked: _Asked) -> DeviceModels:
    """Load one model for each device of this process."""
    first = _load(asked, _first_part)
    assert first.device is not None
    devices = first.device.devices
    models = [first]
    for place in range(1, len(devices.numbers)):
        part = devices.device(place)
        models.append(_load(asked, functools.partial(_known_part, part)))
    return DeviceModels(models, devices)


def _known_part(part: Device, manifest: Manifest) -> Device:
    """Return the given device; the manifest is not needed."""
    return part


def _first_part(manifest: Manifest) -> Device:
    """Return the first of the devices that this process computes."""
    return LocalDevices(current(), manifest.devices or DeviceAxis("", 1)).device(0)


def _load(asked: _Asked, part_of: _PartOf) -> Model:
    """Verify a bundle, choose its variant and load it as the device that `part_of`
    returns.
    """
    # 1. verify
    bundle = read_bundle(asked.path, asked.trust, asked.allow_unsigned)
    manifest = bundle.manifest
    # 2. choose
    selection, variant = choose(manifest, asked.target, asked.fallback)
    wanted = engine.threads(variant.backend, asked.threads)
    small = is_small(manifest, variant, wanted)
    device = engine.device(variant.backend, asked.threads, is_small=small)
    part = part_of(manifest)
    exchange = Exchange(device, manifest.devices, part) if manifest.devices else None
    # 3. verify the files, 4. map
    bundle.check_small()
    code = _map(bundle, variant, device, exchange, asked.is_mapped)
    return Model(manifest, variant, code, selection, part)


# Note [no Python memory in IREE]: IREE may drop its last reference to a buffer on a
# worker thread, without the interpreter's lock. If that buffer is a Python object, the
# process dies, now and then, when a call or the interpreter ends. So code is copied,
# weights are mapped by IREE itself, and inputs are never borrowed.


def _map(
    bundle: VerifiedBundle,
    variant: Variant,
    device: HalDevice,
    exchange: Exchange | None,
    is_mapped: bool,
) -> LoadedModule:
    """Map the weights and load the code of a variant; return the running module."""
    scopes = _parameters(bundle, variant, is_mapped)
    providers = [index.create_provider(scope=name) for name, index in scopes.items()]
    try:
        code = bundle.load(variant.file)
        _check_backend(code, variant)
        return start(code, variant.backend, device, providers, exchange)
    except (RuntimeError, ValueError, IndexError) as error:
        raise_system_error(error, variant.file)
        first_line = str(error).partition("\n")[0]
        raise VerificationError(
            "module-rejected",
            f"IREE rejects the module: {first_line}",
            where=variant.file,
        ) from error


def _check_backend(code: Buffer, variant: Variant) -> None:
    """Raise if a variant declared as portable holds native code."""
    backend = BACKENDS[variant.backend]
    if not backend.is_portable:
        return
    native = vmfb.formats(code) - {backend.portable_format}
    if native:
        raise VerificationError(
            "backend-mismatch",
            f"expected portable code, as the backend is {backend.name}, "
            f"got {', '.join(native)}",
            where=variant.file,
        )


def start(
    code: Buffer,
    backend: str,
    device: HalDevice,
    providers: Sequence[object] = (),
    exchange: Exchange | None = None,
) -> LoadedModule:
    """Load a variant's code in a new VM context on a device; return the running module.

    Args:
        code: the .vmfb, which nobody has verified here.
        backend: that it is for.
        device: what runs it.
        providers: of its parameters.
        exchange: what it calls for collectives, if it is of a model that has any.
    """
    instance = engine.instance()
    row = BACKENDS[backend]
    on_cpu = row.on_cpu
    module = iree.VmModule.copy_buffer(instance, code)
    if module.name != _MODULE_NAME:
        raise ValueError(f"its name is {module.name!r}, expected {_MODULE_NAME!r}")
    sink = prints.sink(device, on_cpu)
    modules = [iree.create_hal_module(instance, device, debug_sink=sink)]
    if providers:
        modules.append(iree.create_io_parameters_module(instance, *providers))
    if exchange is not None:
        modules.append(exchange.module(instance))
    context = iree.VmContext(instance, modules=[*modules, module])
    return LoadedModule(
        context, module, device, on_cpu, gpu_of(row.drivers[0]), exchange
    )


def _is_mapped(weights: str | None) -> bool:
    """Return whether weights are to be mapped from files; raise for unknown modes."""
    mode = options.get("AOTC_WEIGHTS") if weights is None else weights
    if mode not in options.WEIGHTS_MODES:
        known = " or ".join(options.WEIGHTS_MODES)
        raise InputError("bad-option", f"expected weights={known}; got {mode!r}")
    return bool(mode == "mapped")


def _load_weights(
    bundle: VerifiedBundle,
    weights: ManifestWeights,
    index: ParameterIndex,
    *,
    on_cpu: bool,
    mapped: bool,
) -> None:
    """Verify a weights file and add it to a parameter index, in huge pages if
    possible.
    """
    if mapped:
        with bundle.mapped_path(weights.file) as path:
            index.load(path, weights.format)
        return
    if on_cpu:
        with huge_pages_for(bundle.manifest.files[weights.file].size) as pages:
            if pages is not None:
                bundle.load_into(weights.file, pages.view)
                header = header_size(pages.view)
                if header is not None:
                    load = functools.partial(index.load, format=weights.format)
                    pages.put_in_place(header, load)
                    return
    with bundle.sealed_path(weights.file) as path:
        index.load(path, weights.format)


def _parameters(
    bundle: VerifiedBundle, variant: Variant, is_mapped: bool
) -> dict[str, ParameterIndex]:
    """Load the weights that `variant` needs; return the parameter indexes by scope."""
    scopes: dict[str, ParameterIndex] = {}
    for weights in bundle.manifest.weights:
        if weights.required_by and variant.id not in weights.required_by:
            continue
        index = scopes.setdefault(weights.scope, iree.ParameterIndex())
        try:
            on_cpu = BACKENDS[variant.backend].on_cpu
            _load_weights(bundle, weights, index, on_cpu=on_cpu, mapped=is_mapped)
        except (RuntimeError, ValueError, IndexError) as error:
            raise_system_error(error, weights.file)
            first_line = str(error).partition("\n")[0]
            raise VerificationError(
                "weights-rejected",
                f"IREE rejects the weights: {first_line}",
                where=weights.file,
            ) from error
    return scopes
