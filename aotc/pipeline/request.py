"""Requests for a build."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.artifacts import Signer
from aotc.core import numerics, options
from aotc.dialects.calls.specialization import MOST as MOST_SPECIALIZATIONS
from aotc.dialects.movement.image_layouts import IMAGE_LAYOUTS
from aotc.errors import InputError
from aotc.errors.system import require_path
from aotc.machine.target import Target
from aotc.passes.stages import IR_STAGES
from aotc.programs.program import GRAPH_STAGES, LEVELS

if TYPE_CHECKING:
    from aotc.checks.parity import ComparisonOptions

# where a build may end
STOPS = (*IR_STAGES, "vmfb", "bundle")


@dataclass(frozen=True)
class StageSpan:
    """The range of stages in which an option has an effect.

    Args:
        last: the stage up to which IR can be asked for it.
        acts: the stage that it has an effect on; a build that ends before has none.
    """

    last: str
    acts: str


_SPANS = {
    "-O": StageSpan("graph", "graph"),
    "--without": StageSpan("graph", "graph"),
    "--quantize": StageSpan("graph", "graph"),
    "--precision": StageSpan("graph", "graph"),
    "--io-layout": StageSpan("graph", "graph"),
    "--specialize": StageSpan("graph", "graph"),
    "--policy": StageSpan("graph", "graph"),
    "--optimum": StageSpan("graph", "graph"),
    "--buckets-from": StageSpan("graph", "graph"),
    "--numerics": StageSpan("optimized", "graph"),
    "--passes": StageSpan("graph", "optimized"),
    "--tuning": StageSpan("optimized", "regions"),
    "--certify-gradients": StageSpan("graph", "optimized"),
    "--peak-memory": StageSpan("linalg", "variant"),
    "--parity": StageSpan(GRAPH_STAGES[-1], "bundle"),
    "--self-check=full": StageSpan(GRAPH_STAGES[-1], "bundle"),
    "--require-check": StageSpan(GRAPH_STAGES[-1], "bundle"),
}


@dataclass(frozen=True)
class Request:
    """The options of a build.

    Args:
        source: the model, such as a model.py, or IR that a build has dumped.
        output: folder that `NAME-VERSION.aotc` is written into, or the bundle itself if
            its name ends with `.aotc`.
        entries: names of the entries to build; all of them by default.
        targets: what to compile for, be it texts as `--target` takes them; by default
            `Target.default()`.
        name: of the bundle, before what the source declares with `aotc.bundle`; by
            default the source's file name without suffix.
        version: of the bundle, likewise; 1.0.0 by default.
        signing_key: a `Signer`, or a private key as `signers.read_signer` reads it; by
            default AOTC_SIGNING_KEY, else the user's development key.
        sign: False leaves the bundle unsigned.
        force: replace a bundle that is there.
        dump: folder for the IR of every stage.
        stop_after: one of `STOPS`; before `vmfb`, the report has the IR.
        readable: give that IR in the form for people, if it is the graph's.
        passes: that lead to the stage `optimized`, in place of those of every build,
            as `aotc opt --passes` takes them.
        level: of optimisation, out of `aotc.programs.program.LEVELS`; by default that
            of the IR
            that the source is, else the last one.
        without: passes and families of kernels that are left out, with commas between,
            see `aotc.passes.stages.parse_without`; by default those that the IR says.
        quantize: a recipe file, which says what precision each layer has; see
            `aotc.quantization.recipe`.
        quantize_data: the calibration data that it was made with, where weights follow
            from it.
        precision: `mixed:bf16` or `mixed:f16`, what products are computed in; by
            default as the source says; see `aotc.passes.mix_precision`.
        io_layout: of the images that entries take and return, out of `IMAGE_LAYOUTS`;
            by default they have that of the source; see `docs/image-layouts.md`.
        specialize: sizes of calls, by name, that get code of their own, each beside
            the code for any sizes; see `aotc.dialects.calls.specialization`.
        own_sizes: False leaves out the sizes that the model itself says to make code
            for, so that those asked for here are all.
        policies: by the names of sizes, what becomes of calls of sizes without code of
            their own, out of `aotc.dialects.sizes.symbols.POLICIES`; by default what
            the model says.
        optimum: by the names of sizes, what most calls have; by default what the model
            says.
        buckets_from: file of recorded traffic, see `aotc.traffic`, to choose sizes for
            that calls are padded to.
        max_variants: how many of these there may be; 8 by default.
        numerics: how far results may be from what the model writes, out of
            `aotc.core.numerics.LEVELS`; by default that of the IR that the source is,
            else the first.
        tuning: file of measured schedules, see `aotc.tuning`; by default kernels are
            cut up as the model of the target's processor says.
        tune: seconds in which to measure schedules that the file does not have, and to
            add them to it; the file need not be there then.
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
        require_check: targets, or `all`, whose code must be run by the self-check, here
            or by an emulator; else there is no bundle. See `aotc.artifacts.checked`.
        cache: take modules that were compiled before from the user's cache, and keep
            new ones there; see `aotc.core.cache`.

    Raises:
        InputError: `bad-option`: one of these is not as it should be, or has no effect
            on a build that ends so early.
    """

    source: str | Path
    _: KW_ONLY
    output: Path = Path(".")
    entries: Sequence[str] = ()
    targets: str | Sequence[Target | str] = ()
    name: str | None = None
    version: str | None = None
    signing_key: Signer | Path | str | None = field(default=None, repr=False)
    sign: bool = True
    force: bool = False
    dump: Path | None = None
    stop_after: str | None = None
    readable: bool = False
    passes: str | None = None
    level: int | None = None
    without: str | None = None
    quantize: Path | None = None
    quantize_data: Path | None = None
    precision: str | None = None
    io_layout: str | None = None
    specialize: Sequence[Mapping[str, int]] = ()
    own_sizes: bool = True
    policies: Mapping[str, str] = field(default_factory=dict)
    optimum: Mapping[str, int] = field(default_factory=dict)
    buckets_from: Path | None = None
    max_variants: int | None = None
    numerics: str | None = None
    tuning: Path | None = None
    tune: float | None = None
    certify_gradients: bool = False
    peak_memory: int | None = None
    parity: ComparisonOptions | None = None
    self_check: str | None = None
    require_check: Sequence[str] = ()
    cache: bool = True

    def __post_init__(self) -> None:
        paths = self.source, self.output, self.dump, self.buckets_from, self.tuning
        for path in (*paths, self.quantize, self.quantize_data):
            require_path(path)
        _require_one_of("a stage to stop after", self.stop_after, STOPS)
        _require_one_of("a level of optimisation", self.level, LEVELS)
        _require_one_of("a precision", self.precision, [*numerics.MIXED])
        _require_one_of("a layout of images", self.io_layout, IMAGE_LAYOUTS)
        _require_one_of("a level of numerics", self.numerics, numerics.LEVELS)
        _require_one_of("a self-check", self.self_check, options.SELF_CHECK_MODES)
        if self.quantize_data is not None and self.quantize is None:
            raise InputError(
                "bad-option",
                "expected a recipe with --quantize-data, whose weights follow from it; "
                "got none",
                hint="--quantize RECIPE.json",
            )
        if self.quantize is not None and self.precision is not None:
            raise InputError(
                "bad-option",
                f"expected --quantize or --precision; got {self.precision} for layers "
                "that have precisions of a recipe",
                hint="a recipe may give layers bf16 and f16, too: docs/precision.md",
            )
        _require_budget(self.tune, self.tuning)
        _require_variants(self.max_variants, self.buckets_from)
        end = STOPS.index(self.stop_after or STOPS[-1])
        for option in self._asked:
            acts = _SPANS[option].acts
            if end < STOPS.index(acts):
                raise InputError(
                    "bad-option",
                    f"expected to stop after the stage '{acts}' or a later one, as "
                    f"{option} is of no use before; got '{self.stop_after}'",
                    hint=f"leave out {option}, or --stop-after",
                )

    @property
    def _asked(self) -> list[str]:
        """The command-line names of the stage-bound options that are set."""
        given = {
            "-O": self.level is not None,
            "--without": self.without is not None,
            "--quantize": self.quantize is not None,
            "--precision": self.precision is not None,
            "--io-layout": self.io_layout is not None,
            "--specialize": bool(self.specialize),
            "--policy": bool(self.policies),
            "--optimum": bool(self.optimum),
            "--buckets-from": self.buckets_from is not None,
            "--numerics": self.numerics is not None,
            "--passes": self.passes is not None,
            "--tuning": self.tuning is not None,
            "--certify-gradients": self.certify_gradients,
            "--peak-memory": self.peak_memory is not None,
            "--parity": self.parity is not None,
            "--self-check=full": self.self_check == "full",
            "--require-check": bool(self.require_check),
        }
        return [option for option, is_asked in given.items() if is_asked]

    @property
    def packs(self) -> bool:
        """Return whether the build is to end in a bundle."""
        return self.stop_after in (None, "bundle")

    def require_open(self, stage: str) -> None:
        """Raise if an option acts before the stage that the source is at.

        Raises:
            InputError: `bad-option`; `no-graph`, if lowered IR was to be compared with
                its graph.
        """
        for option in self._asked:
            last = _SPANS[option].last
            if stage in IR_STAGES[IR_STAGES.index(last) + 1 :]:
                compares = last == GRAPH_STAGES[-1]
                raise InputError(
                    "no-graph" if compares else "bad-option",
                    f"expected IR of the stage '{last}' or before for {option}; got "
                    f"'{stage}'",
                    where=str(self.source),
                    hint=f"leave out {option}, or go on from an earlier stage",
                )


def _require_budget(seconds: float | None, file: Path | None) -> None:
    """Raise for `--tune` without a tuning file, or with a negative or infinite time."""
    if seconds is None:
        return
    if file is None:
        raise InputError(
            "bad-option",
            "expected a file to add measured schedules to, with --tune; got none",
            hint="--tuning FILE, which is made if it is not there",
        )
    if not 0 <= seconds < math.inf:
        raise InputError(
            "bad-option", f"expected 0 seconds or more for --tune; got {seconds}"
        )


def _require_variants(most: int | None, file: Path | None) -> None:
    """Raise for `--max-variants` without traffic, or out of range."""
    if most is None:
        return
    if file is None:
        raise InputError(
            "bad-option",
            "expected a file of traffic, with --max-variants; got none",
            hint="--buckets-from FILE",
        )
    if not 1 <= most <= MOST_SPECIALIZATIONS:
        raise InputError(
            "bad-option",
            f"expected 1 to {MOST_SPECIALIZATIONS} for --max-variants; got {most}",
        )


def _require_one_of(what: str, given: object, known: Sequence[object]) -> None:
    """Raise unless a value is one of the known ones."""
    if given is not None and given not in known:
        raise InputError(
            "bad-option",
            f"expected {what} of {', '.join(map(str, known))}; got {given!r}",
            hint="see docs/stages.md",
        )
