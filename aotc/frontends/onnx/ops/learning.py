"""learning."""

from __future__ import annotations

from aotc.frontends.onnx.calling import Imports

TABLE: dict[str, Imports] = {}
