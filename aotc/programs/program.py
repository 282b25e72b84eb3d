"""`Program`: what every frontend produces, and what the pipeline compiles.

The module is the whole program, at every stage: functions that are entries
(`aotc.dialects.functions.entries`), symbols that are parameters
(`aotc.dialects.functions.parameters`), and states, source and title as attributes of
its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aotc.core.json_values import JsonObject
from aotc.core.numerics import LEVELS as NUMERICS_LEVELS
from aotc.core.numerics import STRICT
from aotc.core.pytree import Structure
from aotc.dialects.functions.entries import (
    Entry,
    SizeSpecialization,
    entries_of,
    rename_ports,
    specializations_in,
    write_entry,
)
from aotc.dialects.functions.functions import copy_module, keep_only
from aotc.dialects.functions.fusion import TARGET
from aotc.dialects.functions.parameters import (
    Parameter,
    declare_parameter,
    drop_parameters,
    parameter_ops,
    parameters_of,
    rename_parameters,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.plain import attribute_of, plain_of, plain_tree, tree_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Module, ir
from aotc.programs.computed_arrays import StoredArray

LEVELS = (0, 1, 2)  # of optimisation; the last one is what a build takes by default
GRAPH_STAGES = ("graph", "optimized", "regions")  # of ops of the graph dialect alone
TARGET_STAGES = ("regions", "linalg", "variant")  # that can be for one target

STAGE = "graph.stage"
LEVEL = "graph.level"
WITHOUT = "graph.without"
NUMERICS = "graph.numerics"
MIXED_PRECISION = "graph.mixed_precision"
TUNING = "graph.tuning"
QUANTIZATION = "graph.quantization"
_STATES, _SOURCE, _TITLE = "graph.states", "graph.source", "graph.title"
PASSES = "graph.passes"


@dataclass(frozen=True)
class StateSpec:
    """A `State` of the program: its leaves, types and tree."""

    name: str
    leaves: tuple[str, ...]
    types: tuple[Tensor, ...]
    tree: Structure


@dataclass(frozen=True)
class Title:
    """The name and version of a bundle; None if the source states none."""

    name: str | None = None
    version: str | None = None
    line: str | None = None


# as in `aotc.artifacts.schema`: a test compares them
NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
VERSION = r"[A-Za-z0-9._+-]+"
_TITLE_FORMS = {
    "name": (NAME, "_ - . (a dot not first)"),
    "version": (VERSION, "_ - . +"),
}
TITLE_EXAMPLES = {"name": "digits", "version": "1.0.0"}
LONGEST_TITLE = 100  # characters of either: a folder is called after both


def is_title(what: str, value: object) -> bool:
    """Return whether a `name` or `version` is valid for a bundle."""
    pattern, _ = _TITLE_FORMS[what]
    is_short = isinstance(value, str) and len(value) <= LONGEST_TITLE
    return is_short and re.fullmatch(pattern, str(value)) is not None


def title_form(what: str) -> str:
    """Return the valid form of a `name` or `version`, in words."""
    _, signs = _TITLE_FORMS[what]
    return f"a {what} of at most {LONGEST_TITLE} letters, digits and {signs}"


class Program:
    """An MLIR module that is a whole program, with the arrays of its parameters.

    Args:
        module: all else is read from it.
        parameters: weights and initial states by dotted name, some of which are still
            to be computed; None where they are not at hand, as for IR by itself.
        networks: the `Imported` networks among the entries, by name.
    """

    def __init__(
        self,
        module: Module,
        parameters: Mapping[str, StoredArray] | None = None,
        networks: Mapping[str, Any] | None = None,
    ) -> None:
        self.module = module
        self.has_arrays = parameters is not None
        self.parameters: dict[str, StoredArray] = dict(parameters or {})
        self.networks: Mapping[str, Any] = {} if networks is None else networks

    @classmethod
    def of_functions(cls, module: Module, entries: Sequence[Entry]) -> Program:
        """Return a program without parameters whose entries are functions of a module.

        Args:
            module: of the graph dialect; what it states of parameters goes.
            entries: a function each.
        """
        for op in parameter_ops(module):
            op.operation.erase()
        if _STATES in module.operation.attributes:
            del module.operation.attributes[_STATES]
        for entry in entries:
            write_entry(module, entry)
        return cls(module)

    def copy(self) -> Program:
        """Return a copy of the program with a module of its own and the same arrays."""
        arrays = self.parameters if self.has_arrays else None
        return Program(copy_module(self.module), arrays, self.networks)

    @property
    def entries(self) -> list[Entry]:
        """The entries that have code, in the order of the module."""
        return entries_of(self.module)

    @property
    def has_weights_of_bytes(self) -> bool:
        """Return whether an entry reads a matrix of i8 or u8, as quantized models
        have.
        """
        weights = (port for each in self.entries for port in each.ports("weight"))
        kinds = (port.type for port in weights)
        return any(kind.dtype in ("i8", "u8") and kind.rank > 1 for kind in kinds)

    @property
    def entry_points(self) -> list[Entry]:
        """The entries that callers name: all but specializations of others."""
        declared = entries_of(self.module, with_declared=True)
        return [each for each in declared if each.specializes is None]

    def specializations_of(self, name: str) -> dict[str, SizeSpecialization]:
        """Return the specializations of an entry by name, with the sizes they are
        for.
        """
        return {
            special: found
            for special, found in specializations_in(self.module).items()
            if found.entry == name
        }

    def has_code(self, name: str) -> bool:
        """Return whether an entry has code for sizes other than specialized ones."""
        return any(each.name == name for each in self.entries)

    @property
    def states(self) -> list[StateSpec]:
        """The program's States, with names, leaves and types."""
        types = {each.name: each.type for each in parameters_of(self.module)}
        return [
            StateSpec(
                row["name"],
                tuple(row["leaves"]),
                tuple(types[leaf] for leaf in row["leaves"]),
                tree_of(row["tree"]),
            )
            for row in self._attribute(_STATES, [])
        ]

    @property
    def source(self) -> dict[str, Any]:
        """The manifest's record of the source: frontend, file name and digest."""
        return dict(self._attribute(_SOURCE, {}))

    @source.setter
    def source(self, source: dict[str, Any]) -> None:
        """Set the manifest's record of the source."""
        self._write_attribute(_SOURCE, source)

    @property
    def title(self) -> Title:
        """The bundle's name and version, as far as the source declares them."""
        return Title(**self._attribute(_TITLE, {}))

    @title.setter
    def title(self, title: Title) -> None:
        """Set the bundle's name and version; None leaves one undeclared."""
        facts = {"name": title.name, "version": title.version}
        self._write_attribute(_TITLE, {k: v for k, v in facts.items() if v is not None})

    @property
    def stage(self) -> str:
        """The stage of the pipeline that the module has reached."""
        return str(self._attribute(STAGE, "graph"))

    @stage.setter
    def stage(self, name: str) -> None:
        """Set the stage of the pipeline that the module has reached."""
        self._write_attribute(STAGE, name)

    @property
    def level(self) -> int:
        """The optimization level of the passes that are still to run.

        Raises:
            InputError: `bad-ir`: the module names one that there is not.
        """
        level: int = self._attribute(LEVEL, LEVELS[-1])
        if level not in LEVELS:
            known = ", ".join(map(str, LEVELS))
            raise InputError("bad-ir", f"graph.level is none of {known}; got {level!r}")
        return level

    @level.setter
    def level(self, level: int) -> None:
        """Set the optimization level; the default one is not written."""
        attributes = self.module.operation.attributes
        if level != LEVELS[-1]:
            self._write_attribute(LEVEL, level)
        elif LEVEL in attributes:
            del attributes[LEVEL]

    @property
    def without(self) -> tuple[str, ...]:
        """The names of passes and kernel families that the build leaves out."""
        return tuple(self._attribute(WITHOUT, ()))

    @without.setter
    def without(self, names: Sequence[str]) -> None:
        """Set the names of passes and kernel families to leave out."""
        self._write_attribute(WITHOUT, [*names])

    @property
    def numerics(self) -> str:
        """The level of allowed numerical deviation, see `aotc.core.numerics`.

        Raises:
            InputError: `bad-ir`: the module names a level that there is not.
        """
        level = str(self._attribute(NUMERICS, STRICT))
        if level not in NUMERICS_LEVELS:
            known = ", ".join(NUMERICS_LEVELS)
            message = f"expected graph.numerics to be one of {known}; got {level!r}"
            raise InputError("bad-ir", message)
        return level

    @numerics.setter
    def numerics(self, level: str) -> None:
        """Set the level of allowed numerical deviation; the default one is not
        written.
        """
        attributes = self.module.operation.attributes
        if level != STRICT:
            self._write_attribute(NUMERICS, level)
        elif NUMERICS in attributes:
            del attributes[NUMERICS]

    @property
    def mixed_precision(self) -> str | None:
        """The float dtype that products are computed in, if the build asked for one."""
        compute: str | None = self._attribute(MIXED_PRECISION, None)
        return compute

    @mixed_precision.setter
    def mixed_precision(self, compute: str) -> None:
        """Set the float dtype that products are computed in."""
        self._write_attribute(MIXED_PRECISION, compute)

    @property
    def tuning(self) -> JsonObject | None:
        """The tuning file's facts that schedules come from, see `aotc.tuning`, or None.

        `file` is its name, `sha256` its digest, and `targets` has for each target
        `machine` and the rows of `schedules`, each with a `key` and a `schedule`.
        """
        tuning: dict[str, Any] | None = self._attribute(TUNING, None)
        return tuning

    @tuning.setter
    def tuning(self, tuning: Mapping[str, object]) -> None:
        """Set the tuning file's facts that schedules come from."""
        self._write_attribute(TUNING, tuning)

    @property
    def quantization(self) -> dict[str, object] | None:
        """The quantization recipe and its results, see `aotc.quantization.recipe`, or
        None.

        `recipe` is its name, `layers` has the precision of each layer, `calibration`
        and `quality` say what was measured on which data; None for a program of floats.
        """
        facts: dict[str, Any] | None = self._attribute(QUANTIZATION, None)
        return facts

    @quantization.setter
    def quantization(self, facts: Mapping[str, object]) -> None:
        """Set the quantization recipe and its results."""
        self._write_attribute(QUANTIZATION, facts)

    @property
    def passes(self) -> list[str]:
        """The passes that have run on the module, with their options."""
        return list(self._attribute(PASSES, []))

    def note_passes(self, names: Iterable[str]) -> None:
        """Append names to the module's record of passes that have run."""
        self._write_attribute(PASSES, [*self.passes, *names])

    @property
    def target(self) -> str | None:
        """The target that the module is for, once it has only one."""
        target: str | None = self._attribute(TARGET, None)
        return target

    @target.setter
    def target(self, target: str) -> None:
        """Set the only target of the module."""
        self._write_attribute(TARGET, target)

    def entry(self, name: str) -> Entry:
        """Return the entry of this name."""
        declared = entries_of(self.module, with_declared=True)
        return next(entry for entry in declared if entry.name == name)

    def add_parameter(
        self, name: str, array: StoredArray, tensor: Tensor, kind: str
    ) -> None:
        """Add a weight, or a leaf of a State, with its array.

        Args:
            name: dotted, and new.
            array: its (initial) value.
            tensor: its type.
            kind: `weight` or `state`.
        """
        self.parameters[name] = array
        declare_parameter(self.module, Parameter(name, tensor, kind))

    def add_state(self, name: str, leaves: Sequence[str], tree: Structure) -> None:
        """Record that some parameters are the leaves of one State."""
        row = {"name": name, "leaves": list(leaves), "tree": plain_tree(tree)}
        self._write_attribute(_STATES, [*self._attribute(_STATES, []), row])

    def rename_parameters(self, names: Mapping[str, str]) -> None:
        """Rename parameters in the module, ports, States and arrays.

        Args:
            names: new ones by those that they have.
        """
        with self.module.context:
            rename_parameters(self.module, names)
            rename_ports(self.module, names)
        rows = self._attribute(_STATES, [])
        for row in rows:
            row["leaves"] = [names.get(leaf, leaf) for leaf in row["leaves"]]
        if rows:
            self._write_attribute(_STATES, rows)
        self.parameters = {
            names.get(name, name): array for name, array in self.parameters.items()
        }

    def freeze_states(self, arrays: Mapping[str, StoredArray]) -> None:
        """Turn all States into weights with these arrays.

        Args:
            arrays: of their leaves, by name; no entry updates one.
        """
        types = {each.name: each.type for each in parameters_of(self.module)}
        drop_parameters(self.module, {*arrays})
        for name, array in arrays.items():
            self.add_parameter(name, array, types[name], "weight")
        for entry in self.entries:
            ports = tuple(
                replace(port, kind="weight") if port.kind == "state" else port
                for port in entry.arguments
            )
            write_entry(self.module, replace(entry, arguments=ports))
        self._write_attribute(_STATES, [])

    def keep_entries(self, names: Collection[str]) -> None:
        """Drop the other entries, and the parameters and States that only they take.

        Specializations of those that are kept stay with them.
        """
        kept_names = {*names}
        for name in names:
            kept_names |= self.specializations_of(name).keys()
        keep_only(self.module, kept_names)
        self.drop_unread(self.parameters)
        kept = set(self.parameters)
        rows = self._attribute(_STATES, [])
        self._write_attribute(
            _STATES, [row for row in rows if kept.issuperset(row["leaves"])]
        )

    def drop_unread(self, names: Iterable[str]) -> None:
        """Drop the named parameters that no entry takes; keep the other ones."""
        kept = {port.name for entry in self.entries for port in entry.arguments}
        dropped = set(names) - kept
        drop_parameters(self.module, dropped)
        self.parameters = {k: x for k, x in self.parameters.items() if k not in dropped}

    def _attribute(self, name: str, default: object) -> Any:
        """Return a module attribute as plain data, or a default."""
        attributes = self.module.operation.attributes
        return plain_of(attributes[name]) if name in attributes else default

    def _write_attribute(self, name: str, data: Any) -> None:
        """Set a module attribute to plain data."""
        with self.module.context, ir.Location.unknown():  # floats need a location
            self.module.operation.attributes[name] = attribute_of(data)


def numerics_of(op: GraphOp) -> str:
    """Return the `--numerics` level of the module that an op is in."""
    top = op.operation
    while top.parent is not None:
        top = top.parent.operation
    attributes = top.attributes
    return str(plain_of(attributes[NUMERICS])) if NUMERICS in attributes else STRICT


def source_of(path: Path, frontend: str) -> dict[str, Any]:
    """Return the manifest's record of a source file: frontend, name and digest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": frontend, "file": path.name, "sha256": digest}
