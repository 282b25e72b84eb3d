"""Sphinx extension: pages of public modules, made of their `__all__` and docstrings.

`.. public-module:: aotc.numpy` becomes a description of every public name, grouped by
the file that defines it, under the first sentence of that file. Docstrings are Markdown
in single backticks and indented examples; they are turned into reStructuredText. Public
names in backticks become links, in docstrings and in pages.
"""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from itertools import takewhile
from textwrap import dedent
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

MODULES = (
    "aotc", "aotc.numpy", "aotc.nn", "aotc.linalg", "aotc.complexes", "aotc.fft",
    "aotc.random", "aotc.special", "aotc.optim", "aotc.control", "aotc.transforms",
    "aotc.solvers", "aotc.debug", "aotc.collectives", "aotc.nn.initializers",
    "aotc.runtime", "aotc.training", "aotc.parallel", "aotc.errors", "aotc.streaming",
    "aotc.counting",
)  # fmt: skip


def public_names(module: str) -> list[str]:
    """The public names of a module, in its own order."""
    found = import_module(module)
    if hasattr(found, "__all__"):
        return list(found.__all__)
    own = [n for n, x in vars(found).items() if getattr(x, "__module__", "") == module]
    return [name for name in own if not name.startswith("_")]


# ---- pages of modules ---------------------------------------------------------------


class PublicModule(Directive):
    """`.. public-module:: NAME`: everything public in a module, grouped by file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The page's nodes."""
        module = self.arguments[0]
        lines = [f".. automodule:: {module}", "   :no-members:", ""]
        groups = _groups(module)
        for title, names in groups.items():
            if len(groups) > 1:
                lines += [title, "-" * len(title), ""]
            for name in names:
                lines += _description(module, name)
        container = nodes.section()
        container.document = self.state.document
        text = StringList(lines, source=f"{module}.__all__")
        self.state.nested_parse(text, 0, container, match_titles=True)
        return container.children


def _groups(module: str) -> dict[str, list[str]]:
    """Title → names, in the order of their first name in `__all__`."""
    groups: dict[str, list[str]] = {}
    for name in public_names(module):
        value = getattr(import_module(module), name)
        groups.setdefault(_title(module, value), []).append(name)
    # what is not from a file of the module comes last
    return dict(sorted(groups.items(), key=lambda item: item[0] == _OTHERS))


_OTHERS = "Constants and types"


def _title(module: str, value: Any) -> str:
    """The first sentence about the file that defines `value`."""
    home = getattr(value, "__module__", None)
    if not isinstance(home, str) or home not in sys.modules:
        return _OTHERS
    first = (sys.modules[home].__doc__ or "").strip().split("\n\n")[0]
    sentence = re.split(r"[.:;](?:\s|$)", " ".join(first.split()))[0]
    return sentence.replace("`", "") if home != module and sentence else "Functions"


def _description(module: str, name: str) -> list[str]:
    value = getattr(import_module(module), name)
    first = next(m for m in MODULES if getattr(import_module(m), name, None) is value)
    if isinstance(value, type) and first != module:
        same = f"   The same as :py:obj:`{first}.{name}`."
        return [f".. py:class:: {name}", f"   :module: {module}", "", same, ""]
    if isinstance(value, type):
        # fields of named tuples have no documentation of their own
        members = [] if issubclass(value, tuple) else ["   :members:"]
        return [f".. autoclass:: {module}.{name}", *members, ""]
    if callable(value):
        return [f".. autofunction:: {module}.{name}", ""]
    if isinstance(value, ModuleType):
        return [f"See :py:mod:`{value.__name__}`.", ""]
    constant = [f"   :module: {module}", f"   :value: {value!r}", ""]
    return [f".. py:data:: {name}", *constant]


# ---- docstrings ---------------------------------------------------------------------


def _to_rst(
    _: Sphinx, what: str, name: str, obj: Any, options: Any, lines: Any
) -> None:
    """Rewrite a docstring in place."""
    lines[:] = _marked_examples(lines)


def _marked_examples(lines: list[str]) -> list[str]:
    """Indented examples as code blocks, and all else as escaped text."""
    found: list[str] = []
    text: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        starts = indented and not inside and not _is_section(lines, number)
        if starts and number and not lines[number - 1].strip():
            language = _language(lines[number:])
            found += [*_escaped(text), f".. code-block:: {language}", ""]
            text, inside = [], True
        elif inside and line.strip() and not indented:
            inside = False
        (found if inside else text).append(line)
    return [*found, *_escaped(text)]


def _language(lines: list[str]) -> str:
    """`python` if an example at the start of `lines` is; `text` otherwise."""
    block = takewhile(lambda line: line.startswith(" ") or not line, lines)
    try:
        ast.parse(dedent("\n".join(block)))
    except SyntaxError:
        return "text"
    return "python"


def _is_section(lines: list[str], number: int) -> bool:
    """Return whether an indented line belongs to `Args:` and the like."""
    above = (line for line in reversed(lines[:number]) if line.strip())
    head = next((line for line in above if not line.startswith(" ")), "")
    return bool(re.fullmatch(r"[A-Z]\w+:", head.strip()))


def _escaped(lines: list[str]) -> list[str]:
    """Text with single backticks as literals, and no other markup."""
    parts = re.split(r"(`+[^`]+`+)", "\n".join(lines))
    for place, part in enumerate(parts):
        if place % 2:
            inner = " ".join(part.strip("`").split())
            before = "\\ " if re.search(r"[\w…]$", parts[place - 1]) else ""
            parts[place] = f"{before}``{inner}``\\ "
        else:
            part = re.sub(r"(?<!^)(?<!\n)(?<! {4})([*|])", r"\\\1", part)
            parts[place] = re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part)
    return "".join(parts).split("\n")


# ---- links --------------------------------------------------------------------------

_SHORT = {name.removeprefix("aotc."): name for name in MODULES} | {"np": "aotc.numpy"}


class LinkPublicNames(SphinxTransform):
    """A literal that is a public name, such as `aotc.numpy.take`, links to it."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Wrap each such literal in a reference."""
        for literal in list(self.document.findall(nodes.literal)):
            target = _target(literal.astext())
            inside = literal.parent
            if target and not isinstance(
                inside, (nodes.reference, addnodes.pending_xref)
            ):
                link = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=target,
                    refexplicit=True, refwarn=True,
                )  # fmt: skip
                literal.replace_self(link)
                link += literal


def _target(text: str) -> str | None:
    """The public object that a literal names, perhaps in a call."""
    found = re.fullmatch(r"(?:aotc\.)?(?:(\w+)\.)?(\w+)(?:\(.*\))?", text)
    if not found:
        return None
    home = _SHORT.get(found[1] or "")
    if found[1] is None:
        home = "aotc" if text.startswith("aotc.") else None
    return f"{home}.{found[2]}" if home and found[2] in public_names(home) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("public-module", PublicModule)
    app.add_transform(LinkPublicNames)
    app.connect("autodoc-process-docstring", _to_rst, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
