"""Answers of verbs as JSON."""

import json
from typing import Any

import pytest

from aotc.cli.main import main


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Run a command that succeeds, and read its answer."""
    assert main([*arguments, "--format", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer
