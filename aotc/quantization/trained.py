"""Ranges that quantisation-aware training has found, for the layers of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from aotc.core.array_files import open_arrays
from aotc.core.cache import arrays_digest
from aotc.errors import InputError
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.aware import HIGH, LOW, STEPS
from aotc.quantization.calibration import Calibration
from aotc.quantization.grids import InputGrid, trained_grid
from aotc.quantization.layer_grids import Grids
from aotc.quantization.layers import Layer
from aotc.quantization.precisions import WIDE, LayerPrecision, ladder, trained_precision
from aotc.quantization.recipe import TRAINING, LayerPlan

_ENDS = LOW, HIGH
_FOLDER = "ranges"  # what a state has them in


_SAVED = (
    "save what aotc.quantization_aware(…).observe has returned, as it is, or the state "
    "that has it in 'ranges'"
)


@dataclass(frozen=True)
class Trained:
    """Ranges from quantisation-aware training: arrays such as `low`, `high` by layer.

    Args:
        rows: the ranges of each layer, as its weight was called in training.
        where: the file that they are of.
    """

    rows: Mapping[str, Mapping[str, Array]]
    where: str

    @classmethod
    def read(cls, path: Path) -> Trained:
        """Return the ranges in a file: alone, or a state's leaves under `ranges`.

        Raises:
            InputError: `bad-ranges`, or the file cannot be read.
        """
        rows: dict[str, dict[str, Array]] = {}
        for name, array in _of_ranges({**open_arrays(path, "ranges")}).items():
            layer, _, leaf = name.rpartition(".")
            if layer and leaf in (*_ENDS, STEPS):
                rows.setdefault(layer, {})[leaf] = np.asarray(array)
        found = cls(rows, str(path))
        for layer, row in rows.items():
            found._require_numbers(layer, row)
        return found

    def _require_numbers(self, layer: str, row: Mapping[str, Array]) -> None:
        """Refuse a layer's ranges that are not f32, finite, and scalar where needed."""
        kinds = {array.dtype for array in row.values()}
        is_whole = all(row[x].shape == () for x in _ENDS if x in row)
        has_both = len(row.keys() & {*_ENDS}) != 1
        if kinds != {np.dtype(np.float32)} or not is_whole or not has_both:
            raise self._bad(
                f"numbers of f32 for low and high of '{layer}', and f32 for steps; got "
                + ", ".join(f"{k} {x.dtype}{list(x.shape)}" for k, x in row.items())
            )
        if not all(np.isfinite(array).all() for array in row.values()):
            raise self._bad(f"finite ranges of '{layer}'; got some that are not")

    def _bad(self, expected: str, hint: str = _SAVED) -> InputError:
        """Return an error of code `bad-ranges` at the file."""
        return InputError(
            "bad-ranges", f"expected {expected}", where=self.where, hint=hint
        )

    @property
    def facts(self) -> dict[str, object]:
        """Facts on the trained ranges, as recipes and bundles record them."""
        flat = {f"{k}.{n}": x for k, row in self.rows.items() for n, x in row.items()}
        digest = arrays_digest(dict(sorted(flat.items())))
        return {"method": TRAINING, "sha256": digest, "samples": 0}

    def calibration(
        self, program: Program, layers: Sequence[Layer], recipe: str
    ) -> Calibration:
        """Return the layers' plans by their trained ranges; f32 for layers without.

        Args:
            program: prepared, with the weights that were trained.
            layers: of it.
            recipe: that was trained for.

        Raises:
            InputError: `bad-ranges`: they are those of another network or recipe.
        """
        rows = self._rows_of(layers)
        is_static = any(kind.inputs == "static" for kind in ladder(recipe))
        used = {id(row) for row in rows.values()}
        unknown = [name for name, row in self.rows.items() if id(row) not in used]
        if unknown or (is_static and not rows):
            raise self._bad(
                f"ranges of layers of the program ({layers[0].name}, …); got "
                f"{', '.join(unknown) or 'none'}"
            )
        rungs = [
            self._rungs(program, each, recipe, rows.get(each.name)) for each in layers
        ]
        return Calibration(rungs, {}, Grids())

    def _rungs(
        self,
        program: Program,
        layer: Layer,
        recipe: str,
        row: Mapping[str, Array] | None,
    ) -> list[LayerPlan]:
        """Return a layer's plans: by its trained ranges, if any, then f32."""
        kind = trained_precision(
            recipe, lambda x: layer.refusal(x, program), table=layer.is_table
        )
        plan = None if kind is None else self._plan(program, layer, kind, row or {})
        why = "" if plan is not None else "it has no ranges that were trained"
        wide = LayerPlan(layer.name, WIDE, layer.where, why)
        return [wide] if plan is None else [plan, wide]

    def _plan(
        self,
        program: Program,
        layer: Layer,
        precision: LayerPrecision,
        ranges: Mapping[str, Array],
    ) -> LayerPlan | None:
        """Return the plan of a layer by its trained ranges; None where the input has
        none.
        """
        grid = None
        if precision.inputs == "static":
            if not {*_ENDS} <= {*ranges}:
                return None
            grid = InputGrid.of(float(ranges[LOW]), float(ranges[HIGH]))
        steps = ranges.get(STEPS)
        try:
            given = layer.array(program), layer.summed, precision
            scales = trained_grid(*given, steps).scales
        except ValueError:
            assert steps is not None
            raise self._bad(
                f"as many steps as the weight of '{layer.name}' has groups "
                f"({list(layer.shape)}) by {precision.name}; got {list(steps.shape)}",
                hint="--recipe is to be the one that aotc.quantization_aware was given",
            ) from None
        plan = LayerPlan(layer.name, precision.name, layer.where, grid=grid)
        return replace(plan, scales=scales.reshape(-1))

    def _rows_of(self, layers: Sequence[Layer]) -> dict[str, Mapping[str, Array]]:
        """Return the trained ranges for each layer, matched by the weight's dotted
        name.

        The weight of a layer has the name of the argument before the one that it had in
        training: `weights.conv1.kernel`.
        """
        found: dict[str, Mapping[str, Array]] = {}
        for entry in dict.fromkeys(layer.entry.name for layer in layers):
            names = [x.name for x in layers if x.entry.name == entry]
            for trained, row in self.rows.items():
                fitting = [
                    name
                    for name in names
                    if name == f"{entry}/{trained}" or name.endswith(f".{trained}")
                ]
                if fitting:
                    found[min(fitting, key=lambda name: name.count("."))] = row
        return found


def _of_ranges(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return only the arrays that are ranges, by layer; of a state file, those in
    `ranges`.

    Args:
        arrays: of a file; all are ranges if none is in `ranges`.
    """
    parts = {name: name.split(".") for name in arrays}
    inside = {name: each for name, each in parts.items() if _FOLDER in each}
    if not inside:
        return {**arrays}
    return {
        ".".join(each[each.index(_FOLDER) + 1 :]): arrays[name]
        for name, each in inside.items()
    }
