"""Examples with other constants, for what is compared with peers."""

import re
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def variant(name, folder, constants):
    """The example's model.py in a folder; `constants` are lines `NAME = …` of it."""
    text = (EXAMPLES / name / "model.py").read_text()
    for constant, value in constants.items():
        text = re.sub(rf"(?m)^{constant} = .*$", f"{constant} = {value}", text)
    (folder / "model.py").write_text(text)
    return folder / "model.py"
