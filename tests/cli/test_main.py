"""The command line as a whole: help, versions, errors and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from aotc.cli import main as command
from aotc.cli.main import VERBS, main
from aotc.core.installation import install_command
from aotc.errors import CompileError, InputError, SetupError, VerificationError

HEAVY = ("iree", "torch", "torch_mlir", "numpy", "rich", "cryptography")


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", "aotc.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A verb `fail` that raises whatever is put into `.error`."""
    box = SimpleNamespace(error=None)

    @click.command()
    def fail() -> None:
        raise box.error

    box.fail = fail
    monkeypatch.setitem(sys.modules, "fake_verbs", box)
    monkeypatch.setitem(command.VERBS, "fail", ("fake_verbs:fail", ""))
    return box


def test_help_lists_every_verb_in_the_order_of_the_table() -> None:
    text = start("--help").stdout
    positions = [text.index(f"\n  {verb} ") for verb in VERBS]
    assert positions == sorted(positions)


def test_without_arguments_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: aotc" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["build", "--help"], ["run", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from aotc.cli.main import main; code = main(sys.argv[2:]); "
        "heavy = set(sys.argv[1].split(',')) & set(sys.modules); "
        "print(heavy, file=sys.stderr); sys.exit(bool(heavy) or code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ",".join(HEAVY), *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == 0
    examples = capsys.readouterr().out.split("Examples:\n")[1]
    assert f"aotc {verb}" in examples


def test_version_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("aotc ")
    assert main(["--version", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "aotc.version/1"


def test_unknown_verb_suggests_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspct"]) == 2
    assert "did you mean inspect?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build"], "Missing argument"),
        (["build", "model.py", "--tarjet", "cpu"], "--target"),
        (["build", "model.py", "--format", "yaml"], "yaml"),
        (["build", "model.py", "--sign", "k", "--no-sign"], "exclude each other"),
        (["build", "model.py", "--target", "cuda:sm_90"], "cuda:sm_89"),
        (["run", "b.aotc", "--target", "cpu", "--no-fallback"], "exclude each other"),
        (["run", "b.aotc", "--threads", "257"], "1<=x<=256"),
    ],
)
def test_usage_errors_exit_with_2_and_say_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert printed.out == ""


def test_format_before_the_verb_is_not_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--format", "json", "targets"]) == 2
    assert "belongs after the verb" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [InputError, CompileError, VerificationError, SetupError]
)
def test_exit_code_is_the_one_of_the_error(
    failing: SimpleNamespace, error: type[InputError]
) -> None:
    failing.error = error("some-code", "something is wrong")
    assert main(["fail"]) == error.exit_code


def test_error_shows_message_code_place_and_hint(
    failing: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = InputError("odd", "it is odd", where="model.py:3", hint="even it")
    main(["fail"])
    expected = "error: it is odd [odd]\n  at model.py:3\n  hint: even it\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("form", [["--format", "json"], ["--format=json"]])
def test_error_is_one_json_document_on_standard_output(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "no-such.aotc", *form]) == 2
    printed = capsys.readouterr()
    error = json.loads(printed.out)
    assert error["schema"] == "aotc.error/1"
    assert error["exit_code"] == 2
    assert printed.err.startswith("error: ")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), click.Abort()])
def test_interrupt_exits_with_130(
    failing: SimpleNamespace, interrupt: BaseException
) -> None:
    failing.error = interrupt
    assert main(["fail"]) == 130


def test_bug_exits_with_70_and_leaves_the_traceback_in_a_file(
    failing: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing.error = ZeroDivisionError("oops")
    assert main(["fail"]) == 70
    printed = capsys.readouterr().err
    assert "bug in aotc" in printed
    assert "Traceback" not in printed
    (file,) = tmp_path.iterdir()
    assert str(file) in printed
    assert "ZeroDivisionError: oops" in file.read_text()


def test_debug_setting_prints_the_traceback(
    failing: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AOTC_DEBUG", "1")
    failing.error = InputError("odd", "it is odd")
    assert main(["fail"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("iree.compiler", "compiler"),
        ("iree.compiler.tools", "compiler"),
        ("iree.runtime", ""),
        ("torch_mlir", "compiler"),
        ("torch.nn", "torch"),
    ],
)
def test_missing_extra_exits_with_5_and_says_what_to_install(
    failing: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    module: str,
    extra: str,
) -> None:
    failing.error = ModuleNotFoundError(f"No module named {module!r}", name=module)
    assert main(["fail"]) == 5
    printed = capsys.readouterr().err
    assert "[missing-extra]" in printed
    assert f"hint: {install_command(extra)}\n" in printed


def test_missing_module_of_a_model_is_named(
    failing: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = ModuleNotFoundError("No module named 'pandas'", name="pandas")
    assert main(["fail"]) == 5
    assert "[missing-module]" in capsys.readouterr().err


def test_missing_module_of_aotc_itself_is_a_bug(
    failing: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing.error = ModuleNotFoundError("No module named 'aotc.x'", name="aotc.x")
    assert main(["fail"]) == 70


def test_full_disk_is_not_called_a_bug(
    failing: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.error = OSError(28, "No space left on device", "out.npz")
    assert main(["fail"]) == 5
    assert "out.npz" in capsys.readouterr().err


def test_closed_pipe_is_quiet() -> None:
    program = f"{sys.executable} -m aotc.cli.main targets --format json | true"
    done = subprocess.run(
        ["bash", "-c", f"{program}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    # It may also be done before `true` closes the pipe.
    assert done.stdout.strip() in ("141", "0")


def test_verb_names_are_completed() -> None:
    done = start(_AOTC_COMPLETE="bash_complete", COMP_WORDS="aotc ins", COMP_CWORD="1")
    assert done.stdout == "plain,inspect\n"
    assert done.returncode == 0


def test_target_names_are_completed() -> None:
    words = "aotc build --target cuda:sm_1"
    done = start(_AOTC_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert done.stdout == "plain,cuda:sm_100a\nplain,cuda:sm_120\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert "_AOTC_COMPLETE" in capsys.readouterr().out
