"""Which command installs an extra beside the aotc that is there."""

import json
from importlib import metadata

import pytest

from aotc.core.installation import install_command

EDITABLE = {"url": "file:///src/my%20aotc", "dir_info": {"editable": True}}
FOLDER = {"url": "file:///src/aotc", "dir_info": {}}
ARCHIVE = {"url": "https://example.org/aotc-1.whl", "archive_info": {}}
REPOSITORY = {
    "url": "https://example.org/aotc.git",
    "vcs_info": {"vcs": "git", "commit_id": "abc"},
}


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (EDITABLE, "pip install -e '/src/my aotc[jax]'"),
        (FOLDER, "pip install '/src/aotc[jax]'"),
        (ARCHIVE, "pip install 'aotc[jax] @ https://example.org/aotc-1.whl'"),
        (REPOSITORY, "pip install 'aotc[jax] @ git+https://example.org/aotc.git@abc'"),
        (None, "pip install 'aotc[jax]'"),
    ],
)
def test_an_extra_is_installed_from_where_aotc_was(recorded, command, monkeypatch):
    class Left:
        @staticmethod
        def read_text(name):
            return None

    class Installed:
        @staticmethod
        def read_text(name):
            assert name == "direct_url.json"
            return None if recorded is None else json.dumps(recorded)

    monkeypatch.setattr(metadata, "distributions", lambda name: [Left, Installed])
    assert install_command("jax") == command


def test_without_an_extra_or_a_record_it_is_the_name(monkeypatch):
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    assert install_command() == "pip install aotc"
