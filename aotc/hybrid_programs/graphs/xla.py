"""Islands of StableHLO: XLA's CPU backend computes them, as JAX has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.importers.stablehlo.original import jax_context
from aotc.importers.stablehlo.symbolic import PLATFORM, require_jax

if TYPE_CHECKING:
    import jax
    from jaxlib.xla_client import LoadedExecutable

# calls of Python by their number in a process, which dies of one that is not there
_PYTHON = re.compile(r'"xla_(ffi_)?(partitioned_)?python_')

_OPEN = re.compile(r"tensor<[^>]*\?")  # a size that is not known


def load(
    text: str, name: str, callbacks: Sequence[Callable[..., object]]
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Compile a StableHLO module by XLA; return a function of arrays.

    Args:
        text: the module, in generic form; the sizes of its arguments are known.
        name: what messages call it.
        callbacks: functions of Python that it calls, by their numbers.

    Raises:
        InputError: `framework-cannot-load`; of a call: `framework-refused`.
        SetupError: jax is not installed.
    """
    jax = require_jax()
    _prepare_lapack()
    if not callbacks and _PYTHON.search(text):
        raise InputError(
            "framework-cannot-load",
            f"an island of '{name}' calls back into Python, and the module has no "
            "functions to call",
            hint="give the function of JAX: aotc.from_jax(…, breaks='island')",
        )
    try:
        executable, device = _compile(_with_known_sizes(text), callbacks)
    except Exception as error:  # of XLA, in classes of its own
        raise_system_error(error)
        raise InputError(
            "framework-cannot-load",
            f"JAX cannot compile an island of '{name}': {_error_lines(error)[0]}",
            hint="leave out this part of the model, or register what it calls with JAX",
        ) from error

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            with jax.enable_x64(True):  # else f64 is taken as f32
                given = [jax.device_put(each, device) for each in arrays]
                found = executable.execute_sharded(given, with_tokens=True)
                results = found.disassemble_into_single_device_arrays()
                found.consume_token().block_until_ready()
                return [np.asarray(each) for (each,) in results]
        except Exception as error:  # of XLA, or of Python that is called back
            raise_system_error(error)
            raise InputError(
                "framework-refused",
                f"JAX cannot compute an island of '{name}': {_error_lines(error)[-1]}",
            ) from error

    return run


def _with_known_sizes(text: str) -> str | bytes:
    """Return the module's text or bytecode with dynamic sizes inferred from its
    arguments.
    """
    if not _OPEN.search(text):
        return text
    refine = require_jax("jax.extend.mlir").refine_polymorphic_shapes
    found: bytes = refine(
        text.encode(),
        enable_shape_assertions=True,
        validate_static_shapes=True,
        enable_shardy=True,
    )
    return found


def _compile(
    text: str | bytes, callbacks: Sequence[Callable[..., object]]
) -> tuple[LoadedExecutable, jax.Device]:
    """Compile a module by XLA; return the executable and its device.

    Note [which door of JAX]: `jax.extend.backend` is public and gives XLA's client,
    whose `compile_and_load` takes a text. `jax.export.Exported`, the documented way to
    call a serialized module, has no callbacks into Python, which are what JAX's users
    have most islands for. With callbacks the client asks for a module of jaxlib and a
    list of devices, which only private names give.
    """
    backend = require_jax("jax.extend.backend")
    client = backend.get_backend(PLATFORM)
    options = backend.get_compile_options(num_replicas=1, num_partitions=1)
    devices = client.devices()[:1]
    if not callbacks:
        return client.compile_and_load(text, devices, options), devices[0]
    sharding = require_jax("jax.sharding").SingleDeviceSharding(devices[0])
    with jax_context():
        module = require_jax("jaxlib.mlir.ir").Module.parse(text)
        executable = client.compile_and_load(
            module, sharding._internal_device_list, options, [*callbacks]
        )
    return executable, devices[0]


@cache
def _prepare_lapack() -> None:
    """Lower a Cholesky factorization in JAX, which makes it register LAPACK's
    functions.

    A module that calls them before ends the process.
    """
    jax = require_jax()
    matrix = jax.ShapeDtypeStruct((1, 1), "float32")
    traced = jax.jit(require_jax("jax.numpy").linalg.cholesky).trace(matrix)
    traced.lower(lowering_platforms=(PLATFORM,))


def _error_lines(error: Exception) -> list[str]:
    """Return the lines of an error's message, or the name of its class."""
    return str(error).strip().splitlines() or [type(error).__name__]
