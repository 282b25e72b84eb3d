"""The page for model authors shows models that load, and messages as they are."""

import re
from pathlib import Path

import pytest

from aotc.errors import InputError
from aotc.importers import load

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-model.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_model_of_the_page_does_what_the_page_says(number, tmp_path):
    source, message = BLOCKS[number]
    file = tmp_path / "model.py"
    file.write_text(source, encoding="utf-8")
    if message:
        with pytest.raises(InputError) as caught:
            load(file)
        assert str(caught.value) == message.strip()
    elif "@aotc.entry" in source:
        assert load(file).entries
    else:
        exec(compile(source, str(file), "exec"), {})
