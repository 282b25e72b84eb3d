"""Builds of a model beside itself, unsigned."""

from pathlib import Path
from typing import Any

from aotc import pipeline
from aotc.pipeline.report import BuildReport


def build(model: Path, **options: Any) -> BuildReport:
    """Build a model into its own folder."""
    return pipeline.build(model, output=model.parent, sign=False, **options)
