"""Locks between processes: one works, others wait, and a dead one releases."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from aotc.core import locking
from aotc.core.cache import Cache, CacheRecipe
from aotc.core.locking import file_lock

HOLD = """
import sys, time
from pathlib import Path
from aotc.core.locking import file_lock
with file_lock(Path(sys.argv[1]), "waits"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a path until its input ends."""
    path = tmp_path / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    process.path = path
    yield process
    process.kill()
    process.wait()


def waiter(path, **named):
    """A thread that waits for a lock, and the times at which it had it."""
    times = []

    def wait():
        with file_lock(path, "waits", **named):
            times.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, times


def test_others_wait_until_the_holder_is_done_and_nothing_is_left(holder):
    thread, times = waiter(holder.path)
    time.sleep(0.3)
    assert not times
    holder.stdin.close()
    thread.join(30)
    assert times
    assert not list(holder.path.parent.iterdir())


def test_a_holder_that_is_killed_releases(holder):
    thread, times = waiter(holder.path)
    time.sleep(0.2)
    holder.send_signal(signal.SIGKILL)
    thread.join(30)
    assert times


def test_who_is_stopped_waits_no_more(holder):
    stopped = threading.Event()
    thread, times = waiter(holder.path, is_stopped=stopped.is_set)
    time.sleep(0.2)
    assert not times
    stopped.set()
    thread.join(30)
    assert times
    assert holder.path.exists()  # it is the holder's


def test_a_holder_that_hangs_is_not_waited_for_for_ever(holder, monkeypatch):
    monkeypatch.setattr(locking, "_LONGEST", 0.2)
    with file_lock(holder.path, "waits"):
        pass
    assert holder.path.exists()


def test_a_terminal_is_told_whom_it_waits_for(holder, monkeypatch, capsys):
    monkeypatch.setattr(locking, "_TOLD", 0.0)
    monkeypatch.setattr(locking, "_LONGEST", 0.3)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with file_lock(holder.path, "makes bread"):
        pass
    told = capsys.readouterr().err
    assert told == f"waiting for process {holder.pid}, which makes bread\n"


def test_threads_exclude_each_other(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(20):
            with file_lock(tmp_path / "lock", "works"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert max(most) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EROFS])
def test_without_locks_nobody_waits(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    owner = (os, "open") if number == errno.EROFS else (locking.fcntl, "flock")
    monkeypatch.setattr(*owner, refuse)
    with file_lock(tmp_path / "lock", "works"):
        pass
    monkeypatch.setattr(locking, "fcntl", None)
    with file_lock(tmp_path / "lock", "works"):
        pass


def test_a_value_of_the_cache_is_made_once_by_many(tmp_path):
    cache, recipe, made = Cache(tmp_path / "c", 1 << 20), CacheRecipe("k", "l", {}), []

    def make():
        if cache.find(recipe) is not None:
            return
        with cache.lock(recipe) as is_there:
            if not is_there:
                made.append(1)
                time.sleep(0.1)
                cache.keep(recipe, b"value")

    threads = [threading.Thread(target=make) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made == [1]


def test_a_cache_that_cannot_be_written_to_makes_nobody_wait(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "c", 1 << 20)
    with cache.lock(CacheRecipe("k", "l", {})) as is_there:
        assert not is_there
