"""The recipe file: the precision of each layer, and the origin of its scales.

It is JSON that people commit. `aotc build MODEL --quantize FILE` applies it again, to
the same integers: scales of weights follow from the weights, those of inputs stand in
the file, and so do the vectors that methods have found. Weights rounded by GPTQ follow
from the calibration data, which is named by its digest and must be given again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.core.writing import write_text
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.programs.computed_arrays import Array
from aotc.quantization.grids import InputGrid
from aotc.quantization.precisions import PRECISIONS, RECIPES, LayerPrecision

SCHEMA = "aotc.quantization/1"
_DATA: dict[str, Any] = {"sha256": str, "samples": int}
_QUALITY = {
    **{"metric": str, "lost": (int, float), "weights": str, "layers": str},
    **{"entries": list, "unmeasured": list},
    **_DATA,
}
_FIELDS = (
    "layer",
    "precision",
    "input",
    "rounding",
    "factors",
    "correction",
    "scales",
    "where",
    "why",
)  # of a layer
NEAREST, GPTQ = "nearest", "gptq"
TRAINING = "training"  # the method of ranges that were trained


@dataclass(frozen=True)
class LayerPlan:
    """The precision of a layer, and the parameters of its quantisation.

    Args:
        layer: its name.
        precision: the name of one.
        where: its line, for people.
        why: why it is not narrower, if that is known.
        grid: of its input, where that is static.
        factors: what its input is divided by along its channel, and its weight
            multiplied, where a method asks for it.
        correction: what is added to each feature of its result.
        rounding: how its weight is rounded.
        scales: of its weight, where training has found them; else they are those of
            the least mean square error.
    """

    layer: str
    precision: str
    where: str = ""
    why: str = ""
    grid: InputGrid | None = None
    factors: Array | None = None
    correction: Array | None = None
    rounding: str = NEAREST
    scales: Array | None = None

    @property
    def kind(self) -> LayerPrecision:
        """The precision of the layer."""
        return PRECISIONS[self.precision]

    def misfit(self, channels: int, features: Sequence[int], scales: int) -> str | None:
        """Return why the plan's vectors have wrong lengths for a layer; None if they
        fit.

        Args:
            channels: how many channels its product sums up; 0 where not one axis.
            features: the sizes of the last axes of its result.
            scales: how many scales its weight has.
        """
        wanted = {
            "factors": channels,
            "correction": math.prod(features),
            "scales": scales,
        }
        for name, size in wanted.items():
            vector = getattr(self, name)
            if vector is not None and len(vector) != size:
                return f"it has {size} {name}; the recipe has {len(vector)}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a row of a recipe file."""
        row: dict[str, Any] = {"layer": self.layer, "precision": self.precision}
        if self.grid is not None:
            grid = self.grid
            row["input"] = {"scale": grid.scale, "zero_point": grid.zero_point}
        if self.rounding != NEAREST:
            row["rounding"] = self.rounding
        for name in ("factors", "correction", "scales"):
            if (vector := getattr(self, name)) is not None:
                row[name] = _encode(vector)
        facts = {"where": self.where, "why": self.why}
        return {**row, **{k: v for k, v in facts.items() if v}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LayerPlan:
        """Return the plan that a row of a recipe file holds.

        Raises:
            ValueError: it is none.
        """
        if row["precision"] not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise ValueError(f"a precision of {known}; got {row['precision']!r}")
        grid = None
        if PRECISIONS[row["precision"]].inputs == "static":
            grid = _grid(row["input"])
        rounding = row.get("rounding", NEAREST)
        if rounding not in (NEAREST, GPTQ):
            raise ValueError(f"rounding by {NEAREST} or {GPTQ}; got {rounding!r}")
        return cls(
            str(row["layer"]),
            row["precision"],
            str(row.get("where", "")),
            str(row.get("why", "")),
            grid,
            _require_positive(_decode(row.get("factors"))),
            _decode(row.get("correction")),
            rounding,
            _require_positive(_decode(row.get("scales")), "scales"),
        )


@dataclass(frozen=True)
class Recipe:
    """The content of a recipe file.

    Args:
        name: of the recipe, out of `RECIPES`.
        layers: a plan for each layer of the program, in its order.
        calibration: how inputs were measured and on which data: `method`, `sha256` of
            the arrays and `samples`; empty without data.
        quality: `metric`, `lost`, the `sha256` and `samples` of the data that it was
            measured on, the digests of the `weights` and `layers` that it was measured
            of, the `entries` that were, the outputs that the metric did not look at
            (`unmeasured`), and what was `asked` for; empty where nothing was measured.
    """

    name: str
    layers: tuple[LayerPlan, ...]
    calibration: Mapping[str, Any]
    quality: Mapping[str, Any]

    @property
    def needs_data(self) -> bool:
        """Return whether the quantised weights depend on the calibration data."""
        return any(plan.rounding == GPTQ for plan in self.layers)

    @property
    def is_trained(self) -> bool:
        """Return whether the ranges come from quantisation-aware training."""
        return self.calibration.get("method") == TRAINING

    def text(self) -> str:
        """Return the recipe file's JSON text."""
        data = {
            "schema": SCHEMA,
            "recipe": self.name,
            "calibration": dict(self.calibration),
            "quality": dict(self.quality),
            "layers": [plan.to_json() for plan in self.layers],
        }
        return json.dumps(data, indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Write the recipe file."""
        write_text(path, self.text())

    def facts(self, weights: str) -> dict[str, Any]:
        """Return the recipe as JSON for a manifest; `quality` only if measured of these
        weights.

        Args:
            weights: the digest of the weights that the recipe is applied to. `quality`
                is left out if it was measured of others, or before layers were edited.
        """
        measured = self.quality.get("weights"), self.quality.get("layers")
        is_measured = measured == (weights, layers_digest(self.layers))
        return {
            "recipe": self.name,
            "calibration": dict(self.calibration),
            "quality": dict(self.quality) if is_measured else {},
            "layers": [
                {"layer": each.layer, "precision": each.precision, "where": each.where}
                for each in self.layers
            ],
        }

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Return the recipe that a file holds.

        Raises:
            InputError: `bad-recipe`.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ValueError(f"a recipe, which is a JSON object; got {data!r:.60}")
            said = data["schema"], data["recipe"]
            if said[0] != SCHEMA or said[1] not in RECIPES:
                raise ValueError(f"the schema {SCHEMA} and a known recipe; got {said}")
            layers = tuple(map(_plan_of, data["layers"]))
            _require_facts(data["calibration"], {"method": str, **_DATA})
            _require_facts(data["quality"], _QUALITY)
            _require_finite(data["quality"].get("lost", 0.0))
            _require_unique([plan.layer for plan in layers])
            return cls(data["recipe"], layers, data["calibration"], data["quality"])
        except OSError as error:
            raise_system_error(error, str(path))
            raise _bad(path, f"a file that can be read; got {error.strerror}") from None
        except KeyError as error:
            raise _bad(path, f"all fields of a recipe; {error} is missing") from None
        except (TypeError, AttributeError, OverflowError) as error:
            raise _bad(path, f"the fields of a recipe; got {error}") from None
        except RecursionError:
            raise _bad(path, "a recipe; got JSON that is nested too deeply") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise _bad(path, f"JSON in UTF-8; got {error}") from None
        except ValueError as error:
            raise _bad(path, str(error)) from None


def _plan_of(row: JsonObject) -> LayerPlan:
    """Return the plan of a recipe file's row; errors name the layer.

    Raises:
        ValueError: it is none, or has a field that no layer has.
    """
    if not isinstance(row, dict) or not isinstance(row.get("layer"), str):
        raise ValueError(f"a JSON object with the name of a 'layer'; got {row!r:.60}")
    try:
        # a field that is spelled otherwise would be left out, and nobody told
        for name in row.keys() - _FIELDS:
            raise ValueError(f"fields out of {', '.join(_FIELDS)}; got '{name}'")
        return LayerPlan.from_json(row)
    except KeyError as error:
        raise ValueError(
            f"all fields of the layer '{row['layer']}'; {error} is missing"
        ) from None
    except (TypeError, AttributeError, OverflowError, ValueError) as error:
        raise ValueError(f"{error}, in the layer '{row['layer']}'") from None


def is_recipe(path: Path) -> bool:
    """Return whether a file is a recipe, of whatever version and content."""
    with suppress(OSError, ValueError, RecursionError):
        data = json.loads(path.read_bytes())
        schema = data.get("schema") if isinstance(data, dict) else None
        return str(schema).startswith(SCHEMA.partition("/")[0])
    return False


def layers_digest(plans: Sequence[LayerPlan]) -> str:
    """Return the SHA-256 of the plans of layers, without their texts for people."""
    rows = [replace(plan, where="", why="").to_json() for plan in plans]
    rows.sort(key=lambda row: row["layer"])
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _bad(path: Path, expected: str) -> InputError:
    """Return an error of code `bad-recipe` at the file."""
    return InputError(
        "bad-recipe",
        f"expected {expected}",
        where=str(path),
        hint="`aotc quantize MODEL --recipe int8 --data calibration.npz` writes one",
    )


def _require_facts(facts: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Refuse a recipe's recorded facts if one is missing or of another type.

    Raises:
        ValueError: something is missing, or of another type.
    """
    for name, kind in kinds.items() if facts else ():
        found = facts[name]
        if not isinstance(found, kind) or isinstance(found, bool):
            said = "a number" if isinstance(kind, tuple) else kind.__name__
            raise ValueError(f"{name} of {said}; got {found!r}")


def _require_finite(lost: float) -> None:
    """Refuse a recorded loss that is infinite or NaN."""
    if not math.isfinite(lost):  # below 0 where a user's metric says so
        raise ValueError(f"a finite number for lost; got {lost}")


def _require_unique(names: Sequence[str]) -> None:
    """Refuse a recipe that lists a layer twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"each layer once; got '{twice[0]}' again")


def _grid(said: Mapping[str, Any]) -> InputGrid:
    """Return the input grid (scale, zero point) that a recipe file states.

    Raises:
        ValueError: it is none, or not in f32.
    """
    scale, zero = said["scale"], said["zero_point"]
    if type(scale) not in (int, float) or type(zero) is not int:
        raise ValueError(f"numbers for scale and zero point; got {said}")
    if not 0 <= zero <= 255:
        raise ValueError(f"a zero point from 0 to 255; got {zero}")
    with np.errstate(over="ignore"):
        if not 0 < np.float32(scale) < np.inf:
            raise ValueError(f"a scale above 0 that f32 holds; got {scale}")
    return InputGrid(float(scale), zero)


def _encode(vector: Array) -> str:
    """Return a vector as base64 of its f32 elements."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _require_positive(vector: Array | None, name: str = "factors") -> Array | None:
    """Return the vector; refuse elements that are not above 0."""
    if vector is not None and not (vector > 0).all():
        raise ValueError(f"{name} above 0; got {vector.min()}")
    return vector


def _decode(text: str | None) -> Array | None:
    """Return the f32 vector in a base64 text; None for None."""
    if text is None:
        return None
    try:
        found = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (TypeError, ValueError) as error:  # binascii.Error is one
        raise ValueError(f"f32 numbers in base64; got {error}") from None
    if not np.isfinite(found).all():
        raise ValueError("finite numbers in vectors; got some that are not")
    return found.astype(np.float32)
