"""The file of metrics, on a disk that refuses."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aotc.errors import SetupError
from aotc.training import metrics


def test_metrics_on_a_full_disk_say_so_and_end_where_the_disk_does(
    tmp_path: Path,
) -> None:
    class Full:
        """A file with room for ten bytes, which a write finds out piece by piece."""

        name, room = str(tmp_path / "m.jsonl"), 10

        def write(self, data: memoryview) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            written, self.room = min(len(data), self.room), 0
            return written

    log = metrics.MetricsLog(Full())  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="No space") as caught:
        log.step(1, 1, 0.0, {"loss": 1.0})
    assert (caught.value.code, caught.value.where) == ("cannot-write", Full.name)


def test_an_error_of_the_loop_is_not_laid_on_its_metrics(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="elsewhere"),
        metrics.open_log(tmp_path / "m.jsonl", None),
    ):
        raise OSError(errno.EIO, "elsewhere")
