"""Bytes of a distribution and all that it requires on disk.

    python -m inference.install_size NAME

prints the sum over the files that pip has written into this interpreter's environment,
without bytecode; `null` if the distribution is installed in editable mode, so that its
files lie elsewhere. What an extra would add does not count.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution


def main() -> None:
    """Print the installed bytes of a distribution with all it requires."""
    name = sys.argv[1]
    sizes = None if is_editable(distribution(name)) else map(size, required(name))
    print(json.dumps(sizes and sum(sizes)))


def required(name: str) -> list[Distribution]:
    """Return a distribution and its transitive requirements, each once."""
    found: dict[str, Distribution] = {}
    names = [name]
    while names:
        name = normalized(names.pop())
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # asked for on other platforms only, or pip would not be content
        names += requirements(found[name])
    return list(found.values())


def requirements(of: Distribution) -> list[str]:
    """Return the names of a distribution's requirements without extras."""
    lines = [line.partition(";")[::2] for line in of.requires or ()]
    return [
        re.match(r"[\w.-]+", line.strip())[0]
        for line, marker in lines
        if "extra ==" not in marker
    ]


def normalized(name: str) -> str:
    """Return the normalized spelling of a distribution name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def size(of: Distribution) -> int:
    """Return the bytes of a distribution's files."""
    files = [of.locate_file(file) for file in of.files or () if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.exists())


def is_editable(of: Distribution) -> bool:
    """Return whether a distribution is an editable install (PEP 610)."""
    origin = json.loads(of.read_text("direct_url.json") or "{}")
    return origin.get("dir_info", {}).get("editable", False)


if __name__ == "__main__":
    main()
