"""Quantisation of a model of any frontend, and writing of the result.

Three files of one name: the program (`.mlir`), its parameters (`.irpa`) and the recipe
(`.json`). All verbs take the program; a recipe is applied to the model by a build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aotc import importers
from aotc.core import dtypes
from aotc.core.array_files import open_arrays
from aotc.dialects import context
from aotc.errors import InputError
from aotc.errors.system import translate_system_errors
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes.fold_parameters import retake_weights
from aotc.programs.files import write_parameters, write_program
from aotc.programs.parameter_archive import is_archive
from aotc.programs.program import Program
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from aotc.quantization.measuring import Tell
from aotc.quantization.quantizer import apply_recipe, quantize
from aotc.quantization.recipe import Recipe, is_recipe
from aotc.quantization.report import QuantizationReport
from aotc.quantization.trained import Trained


@dataclass(frozen=True)
class QuantizedFiles:
    """The paths of the files written for a quantised program.

    Args:
        program: its IR; the others are beside it.
    """

    program: Path

    @property
    def parameters(self) -> Path:
        """The path of the archive of parameters (`.irpa`)."""
        return self.program.with_suffix(".irpa")

    @property
    def recipe(self) -> Path:
        """The path of the recipe file (`.json`)."""
        return self.program.with_suffix(".json")

    def require_replaceable(self) -> None:
        """Refuse paths that hold files other than parameter archives and recipes.

        Raises:
            InputError: `output-exists`.
        """
        for path, what, is_one in (
            (self.parameters, "parameter archive", is_archive),
            (self.recipe, "recipe", is_recipe),
        ):
            if path.exists() and not is_one(path):
                raise InputError(
                    "output-exists",
                    f"expected a {what} or no file at the name of one that is to be "
                    f"written; '{path}' is something else",
                    hint="choose another name (-o), or remove it yourself",
                )


@translate_system_errors()
def quantize_model(
    source: Path,
    choice: QuantizationOptions,
    files: QuantizedFiles,
    *,
    entries: Sequence[str] = (),
    data: Path | None = None,
    held_out: Path | None = None,
    ranges: Path | None = None,
    states: Path | None = None,
    target: Target | None = None,
    tell: Tell = lambda text: None,
) -> QuantizationReport:
    """Quantise a model; write the program, its parameters and the recipe to files.

    Args:
        source: a model, or IR of the stage `graph`.
        choice: what is asked for.
        files: to write.
        entries: names of those to quantise; all by default.
        data: `.npz` file to calibrate with.
        held_out: one to measure on; by default the same.
        ranges: a file of what quantisation-aware training has found.
        states: a file of trained states, which become weights.
        target: to say the times of layers for.
        tell: gets what is being done.

    Raises:
        InputError: see `quantizer.quantize`; `output-exists`; or the model cannot be
            imported.
        SetupError: `cannot-write`.
    """
    files.require_replaceable()
    calibration = None if data is None else Data.read(data)
    measured = None if held_out is None else Data.read(held_out)
    trained = None if ranges is None else Trained.read(ranges)
    tell("imports the model")
    program = importers.load(source, tuple(entries))
    if states is not None:
        freeze_states(program, states)
    with context(), ir.Location.unknown():
        found = quantize(program, choice, calibration, measured, tell, trained, target)
        tell("writes the program")
        found.program.stage = "graph"
        found.recipe.write(files.recipe)
        write_parameters(found.program.parameters, files.parameters)
        write_program(found.program, files.program, files.parameters)
    names = {
        "program": str(files.program),
        "parameters": str(files.parameters),
        "recipe": str(files.recipe),
    }
    return replace(found.report, files=names)


def freeze_states(program: Program, path: Path) -> None:
    """Turn states that entries read into weights, in place, with a state file's values.

    Args:
        program: of the stage `graph`.
        path: what `save_state`, or `aotc run --save-state`, has written.

    Raises:
        InputError: `bad-option`: an entry updates a state, or there is none;
            `bad-state-file`: the file has not all of their leaves, or others.
    """
    updating = [entry.name for entry in program.entries if entry.updates]
    if updating or not program.states:
        verb = "update" if len(updating) > 1 else "updates"
        said = f"{', '.join(updating)} {verb} them" if updating else "there are none"
        raise InputError(
            "bad-option",
            f"expected entries that only read states, which are to be weights; {said}",
            hint="name the entries that predict: model.py:predict, or --entry",
        )
    stored = open_arrays(path, "states")
    rows = [
        row
        for each in program.states
        for row in zip(each.leaves, each.types, strict=True)
    ]
    for name, kind in rows:
        found = stored.get(name)
        if found is None or (found.shape, found.dtype) != (
            tuple(kind.shape),
            dtypes.to_numpy(kind.dtype),
        ):
            got = "none" if found is None else f"{found.dtype}{list(found.shape)}"
            raise InputError(
                "bad-state-file",
                f"expected '{name}' like {kind}; got {got}",
                where=str(path),
                hint="give what save_state has written of this model",
            )
    program.freeze_states({name: stored[name] for name, _ in rows})
    with context(), ir.Location.unknown():
        for entry in program.entries:  # optimizers' moments are read by none
            program.drop_unread(retake_weights(program.module, entry, {}))


def apply_file(program: Program, path: Path, data: Path | None) -> None:
    """Quantise an imported program in place, as a recipe file says.

    Args:
        program: of the stage `graph`.
        path: of the recipe.
        data: the calibration data, where the recipe has weights that follow from it.

    Raises:
        InputError: `bad-recipe`, `recipe-mismatch`, `no-calibration-data`, `bad-data`.
    """
    recipe = Recipe.read(path)
    given = None if data is None else Data.read(data)
    if recipe.needs_data:
        _require_same_data(recipe, given, path)
    with context(), ir.Location.unknown():
        apply_recipe(program, recipe, str(path), given)


def _require_same_data(recipe: Recipe, data: Data | None, path: Path) -> None:
    """Refuse calibration data that is not what the recipe was made with."""
    digest = recipe.calibration.get("sha256")
    if data is None:
        raise InputError(
            "no-calibration-data",
            "expected the calibration data of the recipe, from which its weights "
            "follow (GPTQ); got none",
            where=str(path),
            hint=f"--quantize-data FILE, whose arrays have the SHA-256 {digest}",
        )
    if data.sha256 != digest:
        raise InputError(
            "recipe-mismatch",
            f"expected calibration data of the SHA-256 {digest}; got {data.sha256}",
            where=data.where,
            hint="give the file that the recipe was made with, or make another recipe",
        )
