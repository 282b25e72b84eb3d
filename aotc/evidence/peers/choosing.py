"""Peers as contenders, chosen by options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aotc.errors import InputError, SetupError
from aotc.evidence.contenders import Contender
from aotc.evidence.peers import PEERS, Peer
from aotc.evidence.signature import EntrySignature
from aotc.timing.messages import TimedBundle


def choose_peers(
    asked: Sequence[str], source: str, signature: EntrySignature, threads: int | None
) -> tuple[Contender, ...]:
    """Return a contender for each peer that the user named with `--against`.

    Args:
        asked: names of peers, each perhaps with a file: `onnxruntime:model.onnx`.
        source: the model, which peers run that are given no file.
        signature: of the entry of which calls are made.
        threads: to compute with; None for as many as the loader takes.

    Raises:
        InputError: `unknown-peer`; `bad-option`: one is named twice; `peer-file`: the
            peer does not read such a file; `no-such-file`; `peer-state`.
        SetupError: `missing-peer`: its package is not installed.
    """
    files: dict[str, str] = {}
    for each in asked:
        name, _, file = each.partition(":")
        if name in files:
            raise InputError(
                "bad-option",
                f"expected each peer once with --against; got {name!r} twice",
            )
        files[name] = file or source
        _require_usable(name, file, source)
    if files and signature.updates:
        raise InputError(
            "peer-state",
            f"expected an entry whose calls change nothing, to compare with peers; "
            f"{signature.entry!r} updates {', '.join(signature.updates)}",
            hint="leave --against out, or name another entry",
        )
    return tuple(
        Contender(
            name,
            TimedBundle(file, signature.entry, threads=threads),
            player=name,
            inputs=tuple(signature.inputs),
        )
        for name, file in files.items()
    )


def _require_usable(name: str, file: str, source: str) -> None:
    """Raise if a peer is unknown, not installed, or cannot read its file."""
    peer = PEERS.get(name)
    if peer is None:
        raise InputError(
            "unknown-peer",
            f"expected peers of {', '.join(PEERS)}; got {name!r}",
            hint="--against onnxruntime,openvino:model.onnx",
        )
    _require_file(name, peer, file, source)
    if find_spec(peer.package) is None:
        raise SetupError(
            "missing-peer",
            f"the peer {name!r} needs the package '{peer.package}', which is not "
            "installed",
            hint=f"pip install {peer.package}",
        )


def _require_file(name: str, peer: Peer, file: str, source: str) -> None:
    """Raise unless the file exists and has a suffix that the peer reads."""
    read, own = Path(file or source), f"--against {name}:model{peer.suffixes[0]}"
    if read.suffix not in peer.suffixes:
        raise InputError(
            "peer-file",
            f"expected a file that {name} runs ({', '.join(peer.suffixes)}); got "
            f"'{read}'",
            hint=f"name a file of the same model: {own}",
        )
    if not os.path.isfile(read):  # which takes any text for a path
        raise InputError(
            "no-such-file",
            f"expected a model for {name} at '{read}'; there is no such file",
            hint=f"name a file of the same model: {own}",
        )
