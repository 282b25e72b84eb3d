"""Code for other processors is checked in the Python that AOTC_PYTHONS names."""

import sys

import pytest

from aotc.checks.compiled import UnbundledCode
from aotc.checks.process import CompiledProcess
from aotc.core import options
from aotc.errors import CompileError, SetupError

NO_CODE = UnbundledCode(b"", "riscv64", "llvm-cpu", ())


def test_code_for_another_processor_is_loaded_by_its_python(tmp_path):
    python, mark = tmp_path / "python", tmp_path / "mark"
    python.write_text(f'#!/bin/sh\ntouch "{mark}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with (
        options.override("AOTC_PYTHONS", f"aarch64=none,riscv64={python}"),
        pytest.raises(CompileError, match="IREE rejects the module"),
    ):
        CompiledProcess(NO_CODE)
    assert mark.exists()


def test_a_python_that_is_not_there_is_refused(tmp_path):
    with (
        options.override("AOTC_PYTHONS", f"riscv64={tmp_path / 'python'}"),
        pytest.raises(SetupError, match="which is no program") as caught,
    ):
        CompiledProcess(NO_CODE)
    assert caught.value.code == "no-python"
