"""JUnit's XML, which CI servers show: a suite for each artifact, a case per class.

The de facto schema: https://github.com/testmoapp/junitxml
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from aotc.cli.compat_forms.wording import (
    Document,
    cure_lines,
    devices_of,
    lines_of,
    summary_of,
)


def render(document: Document) -> str:
    """Return a compatibility document as JUnit XML."""
    suites = ElementTree.Element("testsuites", name="aotc compat")
    devices = devices_of(document)
    for number, artifact in enumerate(document["artifacts"]):
        cells = [cell for cell in document["cells"] if cell["artifact"] == number]
        refused = [cell for cell in cells if not cell["accepted"]]
        # where the policy holds, so many may be refused
        failures = [] if document["passed"] else refused
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=_printable(artifact["title"]),
            tests=str(len(cells)),
            failures=str(len(failures)),
            skipped=str(len(refused) - len(failures)),
        )
        for cell in cells:
            device = devices[cell["class"]]
            case = ElementTree.SubElement(
                suite,
                "testcase",
                name=_printable(device),
                classname=_printable(artifact["title"]),
            )
            if not cell["accepted"]:
                kind = "skipped" if document["passed"] else "failure"
                help_lines = (f"help: {advice}" for advice in cell["advice"])
                failure = ElementTree.SubElement(
                    case,
                    kind,
                    type=cell["verdict"],
                    message=_printable(summary_of(cell)),
                )
                failure.text = _printable("\n".join([*lines_of(cell), *help_lines]))
        cure = "\n".join(cure_lines(document, number))
        if cure:
            ElementTree.SubElement(suite, "system-out").text = _printable(cure)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True)


def _printable(text: str) -> str:
    """`text` without the characters that XML 1.0 cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
