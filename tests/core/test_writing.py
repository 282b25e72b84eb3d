"""Where a file is written that is no plain file."""

import os
import threading
from pathlib import Path

import pytest

from aotc.core.writing import write_text
from aotc.errors import SetupError


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "after"


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_device_that_takes_nothing_is_said_and_stays_a_device():
    with pytest.raises(SetupError) as caught:
        write_text(Path("/dev/full"), "text")
    assert caught.value.code == "cannot-write"
    assert Path("/dev/full").is_char_device()
