"""Models of other frameworks for a model.py, whole or with islands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.importers import onnx, stablehlo, torch
from aotc.machine.target import Target
from aotc.tracing.dims import Dim
from aotc.tracing.entry import Spec
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from aotc.hybrid_programs.graphs.onnx_graphs import HybridGraph
    from aotc.hybrid_programs.graphs.stablehlo_modules import HybridNetwork
    from aotc.hybrid_programs.torch.modules import HybridModule
    from aotc.importers.common.imported import Imported

BREAKS = ("error", "island")


@overload
def from_torch(
    model: Module | ExportedProgram,
    args: Sequence[object] = ...,
    kwargs: Mapping[str, object] | None = ...,
    dynamic_shapes: object = ...,
    *,
    train: bool = ...,
    breaks: Literal["error"] = ...,
) -> Imported: ...


@overload
def from_torch(
    model: Module | ExportedProgram,
    args: Sequence[object] = ...,
    kwargs: Mapping[str, object] | None = ...,
    *,
    breaks: Literal["island"],
    target: str | None = ...,
    threads: int | None = ...,
    max_variants: int = ...,
    max_compiles: int = ...,
) -> HybridModule: ...


def from_torch(
    model: Module | ExportedProgram,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    *,
    train: bool = False,
    breaks: str = "error",
    max_variants: int = 8,
    max_compiles: int = 32,
    target: str | None = None,
    threads: int | None = None,
) -> Imported | HybridModule:
    """Convert a PyTorch module, or an exported one, for use in a model.py.

        net = aotc.from_torch(
            module.eval(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
        )

    Args:
        model: a `torch.nn.Module`, or a `torch.export.ExportedProgram` (which brings
            its own arguments and sizes).
        args: example arguments: tensors of the right shapes and dtypes.
        kwargs: example keyword arguments.
        dynamic_shapes: which of their sizes vary, as torch.export takes it. The names
            and ranges of its Dims become those of aotc's.
        train: import the module as it trains, whatever mode it is in: the statistics of
            batch normalization are state, and a module that drops elements takes a
            random `key` (u32[2]) as its last input. An ExportedProgram keeps the mode
            that it was exported in.
        breaks: what becomes of what torch.export refuses: `error`, or `island`, the
            result is a module of PyTorch, which compiles what it can when it is called:
            see `aotc.hybrid_programs.torch.modules.HybridModule`. It is no entry.
        max_variants: with islands: as for `aotc.jit`, of each module in it.
        max_compiles: with islands: likewise.
        target: of islands: to compile for; by default this machine.
        threads: of islands: as `aotc.load` takes them.

    Raises:
        InputError: torch.export refuses the module, or ops in it have no counterpart;
            all of these are named at once. `bad-option`.
        SetupError: torch is not installed.
    """
    if not _takes_islands(breaks):
        return torch.from_torch(model, args, kwargs, dynamic_shapes, train=train)
    torch.require_torch()
    from aotc.hybrid_programs.torch.modules import hybrid_module

    if train or dynamic_shapes is not None:
        fail(
            "bad-option",
            "expected no train and no dynamic_shapes with breaks='island'; code is "
            "made for each kind of call, for inference",
            "leave them out, or breaks='island'",
        )
    return hybrid_module(
        model,
        args,
        kwargs or {},
        target=target,
        threads=threads,
        limits=(max_variants, max_compiles),
    )


@overload
def from_onnx(
    path: str | Path,
    dims: Mapping[str, int | Dim] | None = ...,
    *,
    breaks: Literal["error"] = ...,
) -> Imported: ...


@overload
def from_onnx(
    path: str | Path,
    *,
    breaks: Literal["island"],
    target: str | None = ...,
    threads: int | None = ...,
    max_variants: int = ...,
    max_compiles: int = ...,
) -> HybridGraph: ...


def from_onnx(
    path: str | Path,
    dims: Mapping[str, int | Dim] | None = None,
    *,
    breaks: str = "error",
    target: str | None = None,
    threads: int | None = None,
    max_variants: int = 8,
    max_compiles: int = 32,
) -> Imported | HybridGraph:
    """Import the network in an .onnx file, for use in a model.py.

    Args:
        path: the file; data that it refers to is beside it.
        dims: for sizes that the file leaves open, by the names that it gives them: a
            number, or a Dim with a contract. Others may be anything from 1 on.
        breaks: what becomes of ops that aotc does not import: `error`, or `island`, the
            result is a function of arrays by name, which compiles the rest when it is
            called and has ONNX Runtime compute these: see
            `aotc.hybrid_programs.graphs.onnx_graphs.HybridGraph`. It is no entry.
        target: of islands: to compile for; by default this machine.
        threads: of islands: as `aotc.load` takes them.
        max_variants: of islands: how many codes of each region and island are kept; the
            one that was not called for longest goes.
        max_compiles: of islands: how many of each there may be in all.

    Returns:
        An entry of weights and inputs. Names of the file become Python names.

    Raises:
        InputError: the file is damaged, of a version that aotc does not know, has
            operators that aotc does not import, or refers to data that is not there.
            `bad-option`.
        SetupError: the package `onnx` is not installed.
    """
    if not _takes_islands(breaks):
        return onnx.from_onnx(path, dims)
    if dims is not None:
        raise InputError(
            "bad-option",
            "expected no dims with breaks='island'; calls decide what code is made for",
        )
    from aotc.hybrid_programs.graphs.onnx_graphs import HybridGraph

    limits = max_variants, max_compiles
    own = Target.named(target or "native")[0]
    return HybridGraph(Path(path), own, threads, limits)


@overload
def from_stablehlo(
    source: str | bytes | Path,
    specs: Mapping[str, Spec] | None = ...,
    *,
    breaks: Literal["error"] = ...,
) -> Imported: ...


@overload
def from_stablehlo(
    source: str | bytes | Path,
    specs: Mapping[str, Spec] | None = ...,
    *,
    breaks: Literal["island"],
    target: str | None = ...,
    threads: int | None = ...,
    max_variants: int = ...,
    max_compiles: int = ...,
) -> HybridNetwork: ...


def from_stablehlo(
    source: str | bytes | Path,
    specs: Mapping[str, Spec] | None = None,
    *,
    breaks: str = "error",
    target: str | None = None,
    threads: int | None = None,
    max_variants: int = 8,
    max_compiles: int = 32,
) -> Imported | HybridNetwork:
    """Import a StableHLO module as a network, for use in a model.py.

    Its inputs are the arguments of `main`, by the names that debug information has for
    them. Sizes that the module leaves open become symbols, with what its shape
    assertions say of them. Large literals are its weights.

    Args:
        source: the path of a file (text, bytecode, a portable artifact, or what
            `jax.export` serialized, for which jax must be installed), or such contents.
        specs: of inputs, by their names, where more is known of a module's open sizes
            than it says itself.
        breaks: what becomes of ops that aotc does not import: `error`, or `island`, the
            result is a function of arrays, which compiles the rest when it is called
            and has JAX compute these: see
            `aotc.hybrid_programs.graphs.stablehlo_modules.HybridNetwork`. It is no
            entry.
        target: of islands: to compile for; by default this machine.
        threads: of islands: as `aotc.load` takes them.
        max_variants: of islands: how many codes of each region and island are kept; the
            one that was not called for longest goes.
        max_compiles: of islands: how many of each there may be in all.

    Raises:
        InputError: it cannot be read, or has ops that aotc does not take. `bad-option`.
        SetupError: jax is needed, and not installed.
    """
    if not _takes_islands(breaks):
        return stablehlo.from_stablehlo(source, specs)
    from aotc.hybrid_programs.graphs.stablehlo_modules import hybrid_stablehlo

    limits = max_variants, max_compiles
    return hybrid_stablehlo(source, specs, target, threads, limits)


@overload
def from_jax(
    function: Callable[..., object],
    specs: PyTree,
    *,
    breaks: Literal["error"] = ...,
) -> Imported: ...


@overload
def from_jax(
    function: Callable[..., object],
    specs: PyTree,
    *,
    breaks: Literal["island"],
    target: str | None = ...,
    threads: int | None = ...,
    max_variants: int = ...,
    max_compiles: int = ...,
) -> HybridNetwork: ...


def from_jax(
    function: Callable[..., object],
    specs: PyTree,
    *,
    breaks: str = "error",
    target: str | None = None,
    threads: int | None = None,
    max_variants: int = 8,
    max_compiles: int = 32,
) -> Imported | HybridNetwork:
    """Import a function of JAX as a network, for use in a model.py.

    It is traced by JAX with the shapes of `specs`, lowered to StableHLO for CPUs, and
    taken over op by op: its derivatives, batching and precision are aotc's.

        params = aotc.Weights(jax.device_get(model.init(key, x)))
        predict = aotc.from_jax(model.apply, (params, aotc.Spec(("batch", 784))))

    Args:
        function: of pytrees of arrays; `jax.jit` of one is as good.
        specs: what its arguments are, in a tuple, or in a dict by their names: pytrees
            of Specs for inputs of each call, one Weights at most, and one State at
            most, whose new value the function returns first, as an entry does.
        breaks: what becomes of ops that aotc does not import: `error`, or `island`, the
            result is a function of the arguments that are no Weights, which compiles
            the rest when it is called and has JAX compute these: see
            `aotc.hybrid_programs.graphs.stablehlo_modules.HybridNetwork`. It is no
            entry.
        target: of islands: to compile for; by default this machine.
        threads: of islands: as `aotc.load` takes them.
        max_variants: of islands: how many codes of each region and island are kept; the
            one that was not called for longest goes.
        max_compiles: of islands: how many of each there may be in all.

    Raises:
        InputError: JAX cannot trace the function, or aotc does not take its ops.
            `bad-option`.
        SetupError: jax is not installed.
    """
    if not _takes_islands(breaks):
        return stablehlo.from_jax(function, specs)
    from aotc.hybrid_programs.graphs.stablehlo_modules import hybrid_jax

    limits = max_variants, max_compiles
    return hybrid_jax(function, specs, target, threads, limits)


def _takes_islands(breaks: str) -> bool:
    """Return whether `breaks` is "island"; refuse unknown values."""
    if breaks not in BREAKS:
        raise InputError(
            "bad-option",
            f"expected one of {', '.join(BREAKS)} as breaks; got {breaks!r}",
        )
    return breaks == "island"
