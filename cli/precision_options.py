"""The options that ask for the precision of a bundle, as one argument `demand`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aotc.cli.verb import combine_options

if TYPE_CHECKING:
    from aotc.artifacts.precision import PrecisionRequirements

_Function = TypeVar("_Function", bound=Callable[..., object])
_OPTIONS = (
    click.option(
        "--require-quality",
        metavar="[METRIC=]LOST[@DIGEST]",
        help="Of what was quantised, ask that no more was lost, by a measurement that "
        "the bundle states: 0.5%, top1=0.5%, or with how the SHA-256 of the data "
        "begins.",
    ),
    click.option(
        "--require-precision",
        metavar="NAMES",
        help="Ask that all layers have one of these precisions, such as int8,f32.",
    ),
)


def precision_options() -> Callable[[_Function], _Function]:
    """Return a decorator for the options on precision, as one argument `demand`."""
    fields = ("require_quality", "require_precision")
    return combine_options("demand", _OPTIONS, fields, _demand)


def _demand(parsed: Mapping[str, Any]) -> PrecisionRequirements:
    """Return the precision that parsed options require of a bundle."""
    from aotc.artifacts.precision import PrecisionRequirements

    return PrecisionRequirements.parse(
        parsed["require_quality"], parsed["require_precision"]
    )
