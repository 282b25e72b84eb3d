"""The bundle: a signed directory `NAME-VERSION.aotc/` that a device can trust and run.

    manifest.json          what is in the bundle and what it needs   (`manifest`)
    signature.json         who says so                               (`sign`)
    variants/TARGET.vmfb   one compiled module per target
    weights.irpa           parameters that all targets read, stored once
    weights-….irpa         those that only some read, such as one by its layout
    provenance.json, …     further files, listed in the manifest like all others

**The design.** A `.vmfb` is native code: whoever can change a bit of it can run code on
the device, and IREE notices no damage. So nothing is handed to IREE before it was
verified, and the verified copy in memory is used, never the file; of weights, which are
no code, a caller may ask for the file to be mapped (`VerifiedBundle.mapped_path`). The
signature covers the SHA-256 of every file, and the manifest lists them again with size
and role, large ones with the digests of their parts (`chunks`); the directory must hold
exactly these. `sha256(manifest.json)` identifies a bundle.

**Order of verification.** Size and shape of the signature, trusted key, signature,
statement (`sign.verify`); digest and form of the manifest, the same files everywhere,
channel (`pack.read_bundle`); the variant for this machine (`selection.select`); then
size and digest of each file but the modules and weights of other variants, which a load
does not read (`VerifiedBundle.load`, `check_small`; `check`, as `aotc verify` does,
takes all). Nothing is parsed before its signature is checked, the envelope of the
signature apart. The functions of the module are held to what the manifest says of them
(`runtime.signatures`).

**Promises.** One spelling: JSON is canonical (sorted keys, two spaces, ASCII) and
signing is deterministic, so equal builds give equal bytes. A reader accepts its own
major schema version, keeps optional fields that it does not know, and refuses unknown
names in `requires_features`. A bundle that is accepted here is accepted by other
verifiers of the OpenSSF Model Signing format, version 1.0, too.

**Keys.** P-256. Without other instructions a build is signed with the user's own
development key and marked so (channel `development`), and a load trusts just that key.

This package needs the standard library and `cryptography`, and no IREE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.artifacts.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.artifacts.namespace")
