"""Functions of JAX as networks."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aotc.core.pytree import PyTree
from aotc.dialects.types import Size
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.importers.common.imported import Imported
from aotc.importers.stablehlo.contracts import global_constants
from aotc.importers.stablehlo.interpreter import functions_of
from aotc.importers.stablehlo.network import (
    ModuleReader,
    StableHloModule,
    network_of,
    value_of,
)
from aotc.importers.stablehlo.original import of_function
from aotc.importers.stablehlo.symbolic import (
    PLATFORM,
    SymbolicSizes,
    as_specs,
    leaves_of,
    require_jax,
)
from aotc.importers.stablehlo.values import KnownTensor, Value, as_known
from aotc.mlir import ir
from aotc.tracing.entry import State, Weights
from aotc.tracing.source_locations import fail, is_own, relative_path, user_line

if TYPE_CHECKING:
    from jax.stages import Lowered
    from jax.tree_util import PyTreeDef


def from_jax(
    function: Callable[..., object],
    specs: PyTree,
    module_class: ModuleReader = StableHloModule,
) -> Imported:
    """Return a JAX function, lowered to StableHLO, as a network.

    It is traced by JAX with the shapes of `specs`, lowered to StableHLO for CPUs, and
    taken over op by op: its derivatives, batching and precision are aotc's.

        params = aotc.Weights(jax.device_get(model.init(key, x)))
        predict = aotc.from_jax(model.apply, (params, aotc.Spec(("batch", 784))))

    Args:
        function: of pytrees of arrays; `jax.jit` of one is as good.
        specs: what its arguments are, in a tuple, or in a dict by their names: pytrees
            of Specs for inputs of each call, one Weights at most, and one State at
            most, whose new value the function returns first, as an entry does.
        module_class: what computes the module that JAX makes of it.

    Raises:
        InputError: JAX cannot trace the function, or aotc does not take its ops.
        SetupError: jax is not installed.
    """
    jax = require_jax()
    arguments = named_arguments(function, specs)
    sizes = SymbolicSizes(arguments.values())
    abstract = {name: sizes.abstract(value) for name, value in arguments.items()}
    by_place = not isinstance(specs, Mapping)
    args = list(abstract.values()) if by_place else []
    kwargs = {} if by_place else abstract
    try:
        traced = jax.jit(function, keep_unused=True).trace(*args, **kwargs)
        lowered = traced.lower(lowering_platforms=(PLATFORM,))
    except Exception as error:  # whatever JAX says of the function
        raise_system_error(error)
        _refuse(error)
    text = lowered.compiler_ir("stablehlo").operation.get_asm(
        print_generic_op_form=True, enable_debug_info=True
    )
    convention = _CallingConvention(
        jax, function, arguments, by_place, lowered.out_tree, sizes
    )
    module = module_class(text, title_of(function))
    module.callbacks = _callbacks(lowered)
    return convention.network(module, _donation_flags(function, args, kwargs))


def _callbacks(lowered: Lowered) -> Sequence[Any]:
    """Return the Python callbacks that a lowered JAX function refers to."""
    compilation = getattr(lowered, "_lowering", None)
    arguments: dict[str, Any] = getattr(compilation, "compile_args", {})
    return tuple(arguments.get("host_callbacks", ()))


def _refuse(error: Exception) -> NoReturn:
    """Raise JAX's error as an InputError at the user's line."""
    lines = [
        f"{relative_path(frame.f_code.co_filename)}:{number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not is_own(name := frame.f_globals.get("__name__", ""))
        and name.partition(".")[0] not in ("jax", "jaxlib")
    ]
    raise InputError(
        "jax-trace",
        f"JAX cannot trace the function: {type(error).__name__}: {error}",
        where=lines[-1] if lines else user_line(),
        hint="jax.jit must be able to trace it with arguments of these specs",
    ) from error


def title_of(function: object) -> str:
    """Return the name of a function, or of its type."""
    return str(getattr(function, "__name__", type(function).__name__))


def named_arguments(
    function: Callable[..., object], specs: PyTree
) -> dict[str, PyTree]:
    """Return specs (a mapping, a sequence or one) as a dict by parameter name."""
    if isinstance(specs, Mapping):
        return dict(specs)
    if not isinstance(specs, (tuple, list)) or hasattr(specs, "_fields"):
        specs = (specs,)
    names = _parameter_names(function, len(specs))
    return dict(zip(names, specs, strict=True))


def _parameter_names(function: Callable[..., object], count: int) -> list[str]:
    """Return the names of the first parameters; `arg0`, … for those without one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for number in range(count):
        named = number < len(parameters) and parameters[number].kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        names.append(parameters[number].name if named else f"arg{number}")
    return names


def _donation_flags(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
) -> list[bool]:
    """Return, for each leaf of the arguments, whether `jax.jit` donates it."""
    if not hasattr(function, "trace"):
        return []
    infos = require_jax().tree.leaves(function.trace(*args, **kwargs).args_info)
    return [bool(getattr(info, "donated", False)) for info in infos]


class _CallingConvention:
    """Maps arguments and results of a module to pytrees of JAX."""

    def __init__(
        self,
        jax: ModuleType,
        function: Callable[..., object],
        arguments: Mapping[str, PyTree],
        by_place: bool,
        out_tree: PyTreeDef,
        sizes: SymbolicSizes,
    ) -> None:
        self.jax = jax
        self.function = function
        self.arguments = dict(arguments)
        self.by_place = by_place
        self.out_tree = out_tree
        self.sizes = sizes

    def network(self, module: StableHloModule, donated: Sequence[bool]) -> Imported:
        """Return the network that calls the module with pytrees."""
        stored = {k: self._only_argument_of(k) for k in (Weights, State)}
        order = [name for name in stored.values() if name is not None]
        inputs = {
            name: as_specs(value)
            for name, value in self.arguments.items()
            if name not in order and leaves_of(value)
        }

        def function(
            values: Sequence[Value], constants: Mapping[str, np.ndarray]
        ) -> PyTree:
            named = dict(zip([*order, *inputs], values, strict=True))
            return self._call(module, named, constants)

        return network_of(
            module,
            function,
            inputs,
            weights=self._argument(stored[Weights]),
            state=self._argument(stored[State]),
            donated=self._donated_names(donated),
            original=of_function(self.function, self.arguments, self.by_place),
        )

    def _only_argument_of(self, kind: type) -> str | None:
        """Return the name of the only argument of a kind (Weights or State), if there
        is one.
        """
        found = [n for n, value in self.arguments.items() if isinstance(value, kind)]
        if len(found) > 1:
            fail(
                "bad-entry",
                f"expected one {kind.__name__} at most; got {', '.join(found)}",
                f"make one argument of them, a dict: aotc.{kind.__name__}({{...}})",
            )
        return found[0] if found else None

    def _argument(self, name: str | None) -> Any:
        """Return the argument with a name; None for None."""
        return None if name is None else self.arguments[name]

    def _donated_names(self, donated: Sequence[bool]) -> list[str]:
        """Return the names of arguments that `jax.jit` donates leaves of, given leaf
        flags.
        """
        found, start = [], 0
        for name, value in self.arguments.items():
            count = len(leaves_of(value))
            if any(donated[start : start + count]):
                found.append(name)
            start += count
        return found

    def _call(
        self,
        module: StableHloModule,
        named: Mapping[str, PyTree],
        constants: Mapping[str, np.ndarray],
    ) -> PyTree:
        """Run the module on pytrees by name; return its results as a pytree."""
        order = [name for name in self.arguments if name in named]
        order = order if self.by_place else sorted(order)
        leaves: list[Any] = [value_of(x) for n in order for x in leaves_of(named[n])]
        specs = [x for n in order for x in leaves_of(self.arguments[n])]
        sizes = self.sizes.variables(specs, leaves)
        variables = global_constants(functions_of(module.mlir)[module.main])
        operands: list[Value] = [
            _variable(name, argument, sizes)
            for name, argument in zip(variables, module.arguments, strict=True)
            if name
        ]
        results = module.call([*operands, *leaves], constants)
        found: PyTree = self.jax.tree.unflatten(self.out_tree, results)
        return found


def _variable(name: str, argument: ir.Value, sizes: Mapping[str, Size]) -> KnownTensor:
    """Return the size, or the platform index, that JAX passes as an argument `name`."""
    wide = str(ir.RankedTensorType(argument.type).element_type)
    if name == "_platform_index":
        return as_known(0, wide)
    return as_known(sizes[name], wide)
