"""A model that learns, its data, and what its loop writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.cli.main import main

MODEL = Path(__file__).parents[1] / "loop_model.py"

ROWS = 22  # five batches of four, and two rows over

X = np.random.default_rng(0).normal(size=(ROWS, 2)).astype("f4")

Y = np.arange(ROWS, dtype="i4")


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, Any]:
    assert main([*arguments, "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def records(file: str = "m.jsonl") -> list[dict[str, Any]]:
    """The lines of a metrics file, times left out."""
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
