"""What the machine refuses has one code, whoever says it and however."""

import errno
import io
import os

import numpy as np
import pytest

from aotc import importers
from aotc.backend import failures
from aotc.cli import arrays, main
from aotc.core import writing
from aotc.errors import AotcError, CompileError, SetupError
from aotc.errors import system as system_errors
from aotc.machine.target import Target
from aotc.processes import answering, messages
from aotc.tracing.archives import load_arrays
from aotc.training import inputs


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "out-of-memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out-of-memory"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "out-of-memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out-of-memory"),
        (ValueError("RESOURCE_EXHAUSTED: Out of memory"), "out-of-memory"),
        (RuntimeError("can't start new thread"), "out-of-memory"),
        (
            ImportError("x.so: failed to map segment from shared object"),
            "out-of-memory",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot-write"),
        (OSError(errno.EROFS, "Read-only file system", "f"), "cannot-write"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "cannot-write"),
        (OSError(errno.EIO, "Input/output error", b"f"), "file-access"),
        (PermissionError(errno.EACCES, "Permission denied", "f"), "file-access"),
        (OSError(errno.EMFILE, "Too many open files"), "file-access"),
        (RuntimeError("RESOURCE_EXHAUSTED; No space left on device"), "cannot-write"),
        (RuntimeError("write failed, possibly out of disk space"), "cannot-write"),
        (OSError("Failed to interpret the file as a pickle"), None),
        (BlockingIOError(errno.EAGAIN, "write could not complete"), None),
        (RuntimeError("a bug"), None),
        (KeyError(3), None),
    ],
    ids=repr,
)
def test_tells_what_the_machine_refuses_from_every_other_error(error, code):
    found = system_errors.system_error(error)
    assert (found and found.code) == code
    assert found is None or (found.exit_code, bool(found.hint)) == (5, True)


def test_code_on_a_disk_without_exec_is_no_want_of_memory():
    said = "x.so: failed to map segment from shared object: Operation not permitted"
    assert system_errors.system_error(ImportError(said)) is None


def test_errors_of_aotc_pass_as_they_are():
    for error in (CompileError("c", "m"), SetupError("s", "bad_alloc")):
        with (
            pytest.raises(AotcError) as caught,
            system_errors.translate_system_errors(),
        ):
            raise error
        assert caught.value is error


# ---- memory, while something is read -------------------------------------------------

NO_MEMORY = [MemoryError(), RuntimeError("Cannot allocate memory (os error 12)")]


def _read_weights(folder, patch, error):
    patch.setattr(np, "load", failing(error))
    load_arrays(folder / "a.npz")


def _read_batches(folder, patch, error):
    patch.setattr(np, "load", failing(error))
    inputs._read(folder / "a.npz", [])


def _read_input(folder, patch, error):
    patch.setattr(np, "load", failing(error))
    with system_errors.translate_system_errors():  # as the command does
        arrays.load_array(str(folder / "a.npz"))


def _read_onnx(folder, patch, error):
    reading = pytest.importorskip("aotc.importers.onnx.reading")
    pytest.importorskip("onnx")
    patch.setattr(reading, "skeleton", failing(error))
    importers.load(folder / "m.onnx")


def _read_stablehlo(folder, patch, error):
    from aotc.importers.stablehlo import reading

    patch.setattr(reading, "_require_survival", failing(error))
    importers.load(folder / "m.mlir")


def _read_torch(folder, patch, error):
    torch = pytest.importorskip("torch")
    patch.setattr(torch.export, "load", failing(error))
    importers.load(folder / "m.pt2")


def _run_a_model(folder, patch, error):
    (folder / "model.py").write_text("\nraise MemoryError\n")
    importers.load(folder / "model.py")


READERS = [
    _read_weights, _read_batches, _read_input, _read_onnx, _read_stablehlo, _read_torch,
    _run_a_model,
]  # fmt: skip


@pytest.mark.parametrize("error", NO_MEMORY, ids=["MemoryError", "text"])
@pytest.mark.parametrize("read", READERS)
def test_too_little_memory_is_not_the_fault_of_a_file(
    tmp_path, monkeypatch, read, error
):
    for name in ("a.npz", "m.onnx", "m.mlir", "m.pt2"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(SetupError) as caught:
        read(tmp_path, monkeypatch, error)
    assert caught.value.code == "out-of-memory"


def test_a_pass_without_memory_is_no_bug(monkeypatch):
    from aotc import pipeline
    from aotc.passes.cse import Cse

    monkeypatch.setattr(Cse, "run", failing(MemoryError()))
    with pytest.raises(SetupError, match="pass 'cse'") as caught:
        pipeline.optimize("module {}", "cse")
    assert caught.value.code == "out-of-memory"


# ---- the compiler's process ----------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "log", "expected"),
    [
        (-6, "terminate called\n  what():  std::bad_alloc", "out-of-memory"),
        (-9, "", "out-of-memory"),
        (1, "MemoryError", "out-of-memory"),
        (74, "[Errno 28] No space left on device: 'module.vmfb'", "cannot-write"),
        (1, "error: failed to write: No space left on device", "cannot-write"),
        (-11, "", "compiler-crashed"),
        (1, "m.py:3: error: what is wrong", "compile-failed"),
    ],
)  # fmt: skip
def test_says_why_the_compiler_ended(tmp_path, code, log, expected):
    target = Target.parse("vmvx")
    refusal = failures.refusal_of(target, code, log, tmp_path)
    assert (refusal or failures.failure_of(target, code, log)).code == expected


def test_a_full_disk_for_its_log_does_not_hide_why_a_compile_failed(monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(failures.tempfile, "mkdtemp", failing(full))
    error = failures.failure_of(Target.parse("vmvx"), 1, "m.py:3: error: what is wrong")
    assert "what is wrong" in error.message
    assert "could not be written" in error.hint


# ---- the process that runs compiled code ---------------------------------------------


class Scarce(io.BytesIO):
    """A stream that has not the memory to read much at once, as real ones say it."""

    def read(self, size=-1):
        if size > messages._CHUNK:
            raise MemoryError
        return super().read(size)


def test_a_message_without_memory_for_it_is_skipped():
    stream = io.BytesIO()
    for message in (b"x" * 3 * messages._CHUNK, "next"):
        messages.send(stream, message)
    scarce = Scarce(stream.getvalue())
    with pytest.raises(MemoryError):
        messages.receive(scarce)
    assert messages.receive(scarce) == "next"
    with pytest.raises(EOFError):
        messages.receive(scarce)


def test_a_part_of_a_message_is_the_end():
    stream = io.BytesIO()
    messages.send(stream, "whole")
    for size in range(len(stream.getvalue())):
        with pytest.raises(EOFError):
            messages.receive(io.BytesIO(stream.getvalue()[:size]))


def test_too_little_memory_outside_of_a_call_is_answered():
    answers = io.BytesIO()
    answering._answer(answers, failing(MemoryError()), lambda it: it)
    answers.seek(0)
    kind, (error, code, *_) = messages.receive(answers)
    assert (kind, error, code) == ("error", SetupError, "out-of-memory")


# ---- files ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_text_is_written_whole_or_not_at_all(tmp_path, monkeypatch, number):
    file = tmp_path / "f"
    file.write_text("old")
    monkeypatch.setattr(os, "fsync", failing(OSError(number, os.strerror(number))))
    with pytest.raises(SetupError, match=os.strerror(number)) as caught:
        writing.write_text(file, "new")
    assert (caught.value.code, caught.value.where) == ("cannot-write", str(file))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_library_that_cannot_be_loaded_is_no_bug(monkeypatch, capsys):
    broken = ImportError("/lib/libx.so: version `GLIBC_9' not found", name="numpy.x")
    monkeypatch.setattr(main, "_dispatch", failing(broken))
    assert main.main(["targets"]) == 5
    assert "[broken-module]" in capsys.readouterr().err
    monkeypatch.setattr(main, "_dispatch", failing(ImportError("x", name="aotc.x")))
    assert main.main(["targets"]) == 70
