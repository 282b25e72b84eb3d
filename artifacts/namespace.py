"""The public names of `aotc.artifacts`."""

from __future__ import annotations

from aotc.artifacts.host import Host
from aotc.artifacts.keys import Signer, write_key_pair
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.pack import VerifiedBundle, read_bundle, write_bundle
from aotc.artifacts.selection import Judgement, Selection, select
from aotc.artifacts.trust import Trust, development_key
from aotc.artifacts.verdicts import Mismatch

__all__ = [
    "Host",
    "Judgement",
    "Manifest",
    "Mismatch",
    "Selection",
    "Signer",
    "Trust",
    "VerifiedBundle",
    "development_key",
    "read_bundle",
    "select",
    "write_bundle",
    "write_key_pair",
]
