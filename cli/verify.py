"""`aotc verify`: is a bundle what its signer signed?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli import output
from aotc.cli.boundaries import MODULE, bundle_in, check_module
from aotc.cli.precision_options import precision_options
from aotc.cli.verb import (
    FilePath,
    format_option,
    require_check_option,
    trust,
    trust_option,
    verb,
)
from aotc.errors import InputError, VerificationError

if TYPE_CHECKING:
    from aotc.artifacts.checked import CodeCheckResult
    from aotc.artifacts.manifest import Manifest
    from aotc.artifacts.precision import PrecisionRequirements

_HINT = (
    "build it with --require-check, on a machine that runs the target or with an "
    "emulator: docs/self-check.md"
)


@verb(
    "aotc verify model-1.0.0.aotc",
    "aotc verify model-1.0.0.aotc --trust release.pub",
    "aotc verify model-1.0.0.aotc --trust release.pub --require-check all",
    "aotc verify resnet-1.0.0.aotc --require-quality top1=0.5%",
    "aotc verify retrieval/",
)
@click.argument("bundle", type=FilePath())
@trust_option()
@require_check_option(
    "Also ask that its build, or an emulator, ran the code for this target, or for "
    "all; exits with 1 if not."
)
@precision_options()
@format_option()
def verify(
    bundle: str,
    keys: tuple[str, ...],
    required: tuple[str, ...],
    demand: PrecisionRequirements,
    form: str,
) -> None:
    """Check the signature of BUNDLE and the content of each of its files.

    Exits with 4 if anything is wrong, and with 1 if code was never run of which
    --require-check asks that, or layers were quantised in another way than is asked
    for. Without --trust only bundles that you built
    yourself, signed with your development key, are accepted.

    Of the package of a hybrid program, which is a folder with an __init__.py, it also
    compares that file with its digest in the bundle's manifest.
    """
    from aotc.artifacts.pack import VerifiedBundle, read_bundle, retry_if_replaced
    from aotc.artifacts.precision import lines_of, require_precise

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
    checks = _checks(manifest, required)
    require_precise(manifest.data, demand)
    document = {
        "schema": "aotc.verify/1",
        "verified": True,
        "name": manifest.name,
        "version": manifest.version,
        "channel": manifest.channel,
        "identity": manifest.identity,
        "key_id": verified.key_id,
        "files": len(manifest.files),
        "checks": [each.to_json() for each in checks],
        "quantization": manifest.data.get("quantization"),
        **({"module": MODULE} if path != Path(bundle) else {}),
    }
    text = (
        f"{manifest.name} {manifest.version} ({manifest.channel}) is verified\n"
        f"signed with key {verified.key_id}"
        + (f", as is the digest of {MODULE}" if path != Path(bundle) else "")
        + "".join(f"\n{each}" for each in checks if required)
        + "".join(f"\n{line}" for line in lines_of(manifest.data) if demand)
    )
    output.emit(document, text, form)


def _checks(manifest: Manifest, required: tuple[str, ...]) -> list[CodeCheckResult]:
    """Return the recorded checks of a manifest; raise if a required target was not
    checked.
    """
    from aotc.artifacts.checked import checks_of, require_checked

    there = [str(each.target["name"]) for each in manifest.variants.values()]
    asked = there if "all" in required else list(required)
    if other := [name for name in asked if name not in there]:
        raise InputError(
            "bad-option",
            "expected --require-check to name a target of the bundle; got "
            f"'{other[0]}'",
            hint=f"its targets: {', '.join(there)}",
        )
    require_checked(manifest.data, asked, _HINT)
    return [each for name in there for each in checks_of(manifest.data, name)]
