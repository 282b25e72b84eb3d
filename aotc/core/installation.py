"""Record of how this aotc was installed, with which extras, and how to join it.

pip records where it has taken a distribution from, if that was no package index
(`direct_url.json`, https://packaging.python.org/en/latest/specifications/direct-url/).
"""

from __future__ import annotations

import json
import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.core.json_values import JsonObject


_NAME = "aotc"


def has_triton() -> bool:
    """Return whether Triton, which compiles kernels for GPUs, is installed."""
    return find_spec("triton") is not None


def triton_version() -> str:
    """Return the version of Triton that is installed."""
    from importlib.metadata import version

    return version("triton")


def install_command(extra: str = "") -> str:
    """Return the pip command that installs aotc from the same origin, with an extra.

    Args:
        extra: of `pyproject.toml`; with none, what aotc itself needs.
    """
    # messages alone need these, which take as long to import as all of the runtime
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    wanted = f"[{extra}]" if extra else ""
    origin = _origin()
    url = str(origin.get("url", ""))
    if not url:
        return f"pip install {shlex.quote(_NAME + wanted)}"
    if "dir_info" in origin and url.startswith("file:"):
        flag = "-e " if origin["dir_info"].get("editable") else ""
        folder = url2pathname(urlsplit(url).path)
        return f"pip install {flag}{shlex.quote(folder + wanted)}"
    if "vcs_info" in origin:
        known = origin["vcs_info"]
        url = f"{known['vcs']}+{url}@{known['commit_id']}"
    return f"pip install {shlex.quote(f'{_NAME}{wanted} @ {url}')}"


def _origin() -> JsonObject:
    """Return pip's record of the installation; empty from an index or without a
    record.
    """
    from importlib import metadata

    # in a checkout, what the build has left there is found as well, without a record
    for each in metadata.distributions(name=_NAME):
        if text := each.read_text("direct_url.json"):
            found: dict[str, Any] = json.loads(text)
            return found
    return {}
