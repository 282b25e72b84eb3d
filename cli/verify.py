"""`aotc verify`: is a bundle what its signer signed?"""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli import output
from aotc.cli.boundaries import MODULE, bundle_in, check_module
from aotc.cli.verb import FilePath, format_option, trust, trust_option, verb
from aotc.errors import VerificationError


@verb(
    "aotc verify model-1.0.0.aotc",
    "aotc verify model-1.0.0.aotc --trust release.pub",
    "aotc verify retrieval/",
)
@click.argument("bundle", type=FilePath())
@trust_option()
@format_option()
def verify(bundle: str, keys: tuple[str, ...], form: str) -> None:
    """Check the signature of BUNDLE and the content of each of its files.

    Exits with 4 if anything is wrong. Without --trust only bundles that you built
    yourself, signed with your development key, are accepted.

    Of the package of a hybrid program, which is a folder with an __init__.py, it also
    compares that file with its digest in the bundle's manifest.
    """
    from aotc.artifacts.pack import VerifiedBundle, read_bundle, retry_if_replaced

    path = bundle_in(Path(bundle)) or Path(bundle)

    def verify_whole() -> VerifiedBundle:
        found = read_bundle(path, trust(keys))
        found.check()
        if path != Path(bundle):
            check_module(Path(bundle), found.manifest)
        return found

    try:
        verified = retry_if_replaced(path, verify_whole)
    except VerificationError as error:
        if error.code == "unsigned":
            error.hint = "build it with --sign KEY, or with your development key"
        raise
    manifest = verified.manifest
    document = {
        "schema": "aotc.verify/1",
        "verified": True,
        "name": manifest.name,
        "version": manifest.version,
        "channel": manifest.channel,
        "identity": manifest.identity,
        "key_id": verified.key_id,
        "files": len(manifest.files),
        **({"module": MODULE} if path != Path(bundle) else {}),
    }
    text = (
        f"{manifest.name} {manifest.version} ({manifest.channel}) is verified\n"
        f"signed with key {verified.key_id}"
        + (f", as is the digest of {MODULE}" if path != Path(bundle) else "")
    )
    output.emit(document, text, form)
