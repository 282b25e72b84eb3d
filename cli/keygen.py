"""`aotc keygen`: a key pair to sign bundles with."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli import output
from aotc.cli.verb import FilePath, format_option, verb


@verb(
    "aotc keygen release",
    "aotc build model.py --sign release.key",
    "aotc verify model-1.0.0.aotc --trust release.pub",
)
@click.argument("name", type=FilePath())
@format_option()
def keygen(name: str, form: str) -> None:
    """Make a key pair: NAME.key, which signs, and NAME.pub, which verifies.

    Keep NAME.key secret and give NAME.pub to whoever runs your bundles. An existing
    key is never overwritten. Without a key of your own, `build` signs with a
    development key, which is trusted on your account alone.
    """
    from aotc.artifacts import keys

    private = Path(f"{name.removesuffix('.key')}.key")
    public = private.with_suffix(".pub")
    signer = keys.write_key_pair(private)
    document = {
        "schema": "aotc.keygen/1",
        "private": str(private),
        "public": str(public),
        "key_id": signer.key_id,
    }
    text = f"wrote {private} (keep it secret) and {public}\nkey id {signer.key_id}"
    output.emit(document, text, form)
