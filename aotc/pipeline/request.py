"""What a build can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from aotc.checks.parity import Plan
from aotc.target import Target


@dataclass(frozen=True)
class Request:
    """What a build is asked for.

    Args:
        source: the model, such as a model.py, or IR that a build has dumped.
        output: folder that `NAME-VERSION.aotc` is written into.
        entries: names of the entries to build; all of them by default.
        targets: what to compile for; by default `Target.default()`.
        name: of the bundle, before what the source declares with `aotc.bundle`; by
            default the source's file name without suffix.
        version: of the bundle, likewise; 1.0.0 by default.
        signing_key: private key file; by default AOTC_SIGNING_KEY, else the user's
            development key.
        sign: False leaves the bundle unsigned.
        force: replace a bundle that is there.
        dump: folder for the IR of every stage.
        stop_after: the name of a stage of IR, or `vmfb`; the report has the IR.
        readable: give that IR in the form for people, if it is the graph's.
        passes: that lead to the stage `optimized`, in place of those of every build,
            as `aotc opt --passes` takes them.
        level: of optimisation, out of `aotc.program.LEVELS`; by default that of the IR
            that the source is, else the last one.
        certify_gradients: check every derivative on compiled code, and put the figures
            into the manifest; see `aotc.checks.certificate`.
        peak_memory: bytes that a call of any entry may take at most; what does not fit
            is made to by computing values again; see `aotc.checks.budget`.
        parity: how to compare the entries with their source before the bundle is
            written, which gets the figures; see `aotc.checks.parity`.
        self_check: whether to compare the compiled entries with the reference
            evaluator before the bundle is signed: `auto`, as far as that takes some
            20 s, `full` or `off`; by default AOTC_SELF_CHECK; see
            `aotc.checks.self_check`.
        cache: take modules that were compiled before from the user's cache, and keep
            new ones there; see `aotc.cache`.
    """

    source: str | Path
    _: KW_ONLY
    output: Path = Path(".")
    entries: Sequence[str] = ()
    targets: Sequence[Target] = ()
    name: str | None = None
    version: str | None = None
    signing_key: Path | None = None
    sign: bool = True
    force: bool = False
    dump: Path | None = None
    stop_after: str | None = None
    readable: bool = False
    passes: str | None = None
    level: int | None = None
    certify_gradients: bool = False
    peak_memory: int | None = None
    parity: Plan | None = None
    self_check: str | None = None
    cache: bool = True

    @property
    def packs(self) -> bool:
        """Whether it is to end in a bundle."""
        return self.stop_after in (None, "bundle")
