"""A writer that is killed at any step leaves nothing that could be taken for whole."""

import os
import signal
import sys
from itertools import count

import numpy as np
import pytest

from aotc.artifacts.manifest import FILE
from aotc.artifacts.pack import read_bundle, scratch_folder, write_bundle, write_file
from aotc.errors import AotcError
from aotc.programs.parameter_archive import ArchiveParts

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlsym"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child")


class Steps:
    """Kills this process at one of the steps that it takes on files."""

    def __init__(self, last):
        self._left, self._last = count(), last
        sys.addaudithook(lambda event, _: event in STEPS and self.take())

    def take(self):
        """Take one more step, or end."""
        if next(self._left) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def tree(folder):
    """The content of each file below a folder by its relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def write(folder, data, contents, signer, number, take=lambda: None):
    """Write a bundle with an archive of weights, all of whose values are a number's."""
    rng = np.random.default_rng(number)
    weights = {f"w.{n}": rng.standard_normal(1 << 15) for n in range(3)}
    weights["again"] = weights["w.0"].copy()  # the head is written twice

    def parts(archive):
        for part in archive:
            take()
            yield part

    with scratch_folder(folder, ("small", "1.0.0")) as scratch:
        archive = ArchiveParts(weights)
        file = write_file(scratch / "w.irpa", parts(archive), lambda: archive.head)
        files = contents | {"weights.irpa": file}
        return write_bundle(folder, data, files, signer, force=True)


def killed(last, *given):
    """Whether a process that writes so is killed at its step of that number."""
    child = os.fork()
    if not child:
        try:
            write(*given, Steps(last).take)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status)


def whole(folder, trust):
    """The content of each bundle below a folder that a reader takes."""
    for each in folder.rglob(FILE):
        try:
            read_bundle(each.parent, trust).check()
        except AotcError:
            continue
        yield tree(each.parent)


@pytest.mark.parametrize("is_replaced", [False, True], ids=["new", "replaced"])
def test_a_writer_that_is_killed_leaves_whole_bundles_or_none(
    data, contents, signer, trust, tmp_path, is_replaced, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine does not die
    new = tree(write(tmp_path / "new", data, contents, signer, 1))
    old = tree(write(tmp_path / "old", data, contents, signer, 0))
    for last in count():
        folder = tmp_path / f"out-{last}"
        if is_replaced:
            write(folder, data, contents, signer, 0)
        if not killed(last, folder, data, contents, signer, 1):
            break
        found = [*whole(folder, trust)]
        assert all(each in (old, new) for each in found), last
        target = folder / "small-1.0.0.aotc"
        assert target.exists() >= is_replaced, last
        if target.exists():
            assert tree(target) in ([old, new] if is_replaced else [new]), last
        write(folder, data, contents, signer, 1)
        assert tree(target) == new
        assert [each.name for each in folder.iterdir()] == [target.name], last
    assert last > 30
