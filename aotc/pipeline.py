"""The pipeline: a model in, a signed bundle out, in stages that are data.

`build` runs all of it, `lower` its passes on a program in memory, `optimize` single
passes on IR in text form, such as a dumped and edited stage.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aotc import budget, frontends, intermediates, options, packager
from aotc.artifacts import Signer, development_key, write_bundle
from aotc.artifacts.leftovers import temporary_folder
from aotc.backend import Compiled, compile_targets, require_compiler
from aotc.cache import Cache
from aotc.certificate import Certificate, certify
from aotc.checks.reuse import found_or_made, recipe_of
from aotc.checks.self_check import SelfCheck, check_entries
from aotc.dialects import context, control
from aotc.dialects.functions import copied
from aotc.dialects.limits import require_supported
from aotc.dialects.printer import format_module
from aotc.errors import InputError
from aotc.frontends.program import Program
from aotc.frontends.title import LONGEST, require_title
from aotc.mlir import ir
from aotc.parity import Parity, Plan, measure, require
from aotc.passes import PassRecord, run_passes
from aotc.system_errors import cannot_write, system_errors
from aotc.target import Target
from aotc.writing import make_folder, unwritable, write_text


@dataclass(frozen=True)
class Stage:
    """One step of a build: its name, and the passes that lead to it."""

    name: str
    passes: tuple[str, ...] = ()


STAGES = (
    Stage("graph"),
    Stage(
        "optimized",
        ("autodiff", "inline", "simplify", "cse", "simplify", "relax-order"),
    ),
    Stage(
        "linalg",
        (
            "decompose",
            "simplify",
            "cse",
            "lower-to-linalg",
            "cse",
            "advance-updates",
            "update-in-place",
        ),
    ),
    Stage("vmfb"),
    Stage("bundle"),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)
PASS_NAMES = tuple(name for stage in STAGES for name in stage.passes)


class Reporter(Protocol):
    """What a build tells of its progress."""

    def stage(self, name: str) -> Any:
        """A context manager for the duration of a stage."""

    def finished(self, part: str, seconds: float) -> None:
        """A part of the stage is done, such as the code of one target."""


class _Silent:
    def stage(self, name: str) -> Any:
        """Tell nothing."""
        return nullcontext()

    def finished(self, part: str, seconds: float) -> None:
        """Tell nothing."""


@dataclass
class BuildReport:
    """What a build made and what it cost.

    Args:
        bundle: the bundle's folder, or None if the build stopped earlier.
        ir: the IR of the stage that the build stopped after, if it did.
        stages: wall time in seconds by stage.
        passes: what each pass did.
        variants: the compiled targets.
        certificates: of the gradients, if they were asked for.
        fits: what was done for a budget of memory.
        parities: how entries compare with their source, if that was asked for.
        self_checks: how compiled entries compare with the reference evaluator.
        self_check_reuse: whether the cache had that: `off`, `hit`, or `miss` and why.
        signer: id of the key that signed, or None.
        channel: development, release or unsigned.
    """

    bundle: Path | None = None
    ir: str | None = None
    stages: dict[str, float] = field(default_factory=dict)
    passes: list[PassRecord] = field(default_factory=list)
    variants: list[Compiled] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    fits: list[budget.Fit] = field(default_factory=list)
    parities: list[Parity] = field(default_factory=list)
    self_checks: list[SelfCheck] = field(default_factory=list)
    self_check_reuse: str = "off"
    signer: str | None = None
    channel: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Schema `aotc.build/1`."""
        return {
            "bundle": str(self.bundle) if self.bundle else None,
            "ir": self.ir,
            "channel": self.channel,
            "signer": self.signer,
            "seconds": {**self.stages, "total": sum(self.stages.values())},
            "peak_bytes": _peak_bytes(),
            "passes": [record.to_json() for record in self.passes],
            "variants": [_variant_json(variant) for variant in self.variants],
            "gradient_certificates": [each.to_json() for each in self.certificates],
            "memory_fits": [each.to_json() for each in self.fits],
            "parity": [each.to_json() for each in self.parities],
            "self_check": [each.to_json() for each in self.self_checks],
            "self_check_cache": self.self_check_reuse,
        }

    def to_text(self) -> str:
        """The same for people."""
        if self.ir is not None:
            return self.ir
        lines = [
            f"{variant.target!s:<14} {len(variant.vmfb) / 1024:8.1f} KiB"
            f"  {variant.statistics['dispatches']:4} dispatches"
            f"  {variant.seconds:6.1f} s"
            for variant in self.variants
        ]
        lines += [str(each) for each in self._measured]
        if self.bundle:
            lines.append(f"{self.bundle}  ({self.channel}, {self._signed_by()})")
        if self.channel == "unsigned":
            lines.append(
                "WARNING: this bundle is unsigned. Anyone who can write to it can run "
                "code on its devices,\nand loaders refuse it without --allow-unsigned."
            )
        return "\n".join(lines)

    @property
    def _measured(self) -> tuple[Any, ...]:
        return (*self.certificates, *self.fits, *self.parities, *self.self_checks)

    def _signed_by(self) -> str:
        return f"signed by {self.signer[:16]}" if self.signer else "not signed"


def _certificates(program: Program) -> list[Certificate]:
    found = certify(program)
    if not found:
        raise InputError(
            "no-gradients",
            "there are no gradients to certify: no entry takes one by reverse mode",
            hint="leave out --certify-gradients",
        )
    return found


def _peak_bytes() -> int:
    """The largest resident set of this process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _variant_json(variant: Compiled) -> dict[str, Any]:
    return {
        "target": str(variant.target),
        "bytes": len(variant.vmfb),
        "seconds": variant.seconds,
        "peak_bytes": variant.peak_bytes,
        "cache": variant.reuse,
        "statistics": variant.statistics,
        "memory": {name: plan.to_json() for name, plan in variant.memory.items()},
    }


@system_errors()
def build(
    source: str | Path,
    *,
    output: Path = Path("."),
    entries: Sequence[str] = (),
    targets: Sequence[Target] = (),
    name: str | None = None,
    version: str | None = None,
    signing_key: Path | None = None,
    sign: bool = True,
    force: bool = False,
    dump: Path | None = None,
    stop_after: str | None = None,
    readable: bool = False,
    certify_gradients: bool = False,
    peak_memory: int | None = None,
    parity: Plan | None = None,
    self_check: str | None = None,
    cache: bool = True,
    reporter: Reporter | None = None,
) -> BuildReport:
    """Compile a model for `targets` and write its bundle into the folder `output`.

    Args:
        source: the model, such as a model.py.
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
        stop_after: a name out of `STAGE_NAMES`, to get the IR of that stage.
        readable: give that IR in the form for people, if it is the graph's.
        certify_gradients: check every derivative on compiled code, and put the figures
            into the manifest; see `aotc.certificate`.
        peak_memory: bytes that a call of any entry may take at most; what does not fit
            is made to by computing values again; see `aotc.budget`.
        parity: how to compare the entries with their source before the bundle is
            written, which gets the figures; see `aotc.parity`.
        self_check: whether to compare the compiled entries with the reference
            evaluator before the bundle is signed: `auto`, as far as that takes some
            20 s, `full` or `off`; by default AOTC_SELF_CHECK; see
            `aotc.checks.self_check`.
        cache: take modules that were compiled before from the user's cache, and keep
            new ones there; see `aotc.cache`.
        reporter: is told of each stage.

    Raises:
        InputError: the model or an argument is wrong.
        Mismatch: an entry does not compute what its source does.
        CompileError: a valid model cannot be compiled.
        SetupError: the compiler is not installed, or the machine refuses something:
            `cannot-write`, `file-access` or `out-of-memory`.
    """
    path = Path(source)
    targets = tuple(targets) or Target.default()
    run = _Run(
        BuildReport(),
        reporter or _Silent(),
        targets,
        _dump_folder(dump),
        readable,
        peak_memory,
        parity,
        _self_check_mode(self_check) if stop_after in (None, "bundle") else "off",
        Cache.of_user() if cache else None,
    )
    require_compiler()
    packs = stop_after in (None, "bundle")
    signer = _signer(signing_key, sign) if packs else None
    if packs:
        _require_writable(output)
    program = run.load(path, tuple(entries))
    title = bundle_title(path, program, name, version)
    if packs:
        _require_free(output, "-".join(title), force)
    if not run.lower(program, stop_after, certify_gradients):
        return run.report
    with run.stage("vmfb"):
        run.report.variants = compile_targets(
            program,
            targets,
            dump=run.dump,
            finished=run.tell,
            cache=run.cache,
        )
    if packs:
        run.check(program, title)
        run.pack(program, make_folder(output), title, signer, force)
    return run.report


@dataclass
class _Run:
    """One build under way."""

    report: BuildReport
    reporter: Reporter
    targets: tuple[Target, ...]
    dump: Path | None
    readable: bool
    peak_memory: int | None
    parity: Plan | None
    self_check: str
    cache: Cache | None
    graph: Any = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage and tell of it."""
        start = time.perf_counter()
        with self.reporter.stage(name):
            yield
        self.report.stages[name] = time.perf_counter() - start

    def tell(self, variant: Compiled) -> None:
        """Tell that a target is compiled."""
        self._tell(str(variant.target), variant.reuse, variant.seconds)

    def _tell(self, part: str, reuse: str, seconds: float) -> None:
        """Tell that a part is done, and whether the cache had it."""
        known = "" if reuse == "off" else f", cache: {reuse}"
        self.reporter.finished(f"{part}{known}", seconds)

    def load(self, path: Path, entries: tuple[str, ...]) -> Program:
        """Import the source."""
        with self.stage("graph"):
            program = frontends.load(path, entries)
            self._dump_ir("graph", program)
        return program

    def lower(self, program: Program, stop: str | None, certify: bool) -> bool:
        """Run the passes down to linalg; False if the build stops before its end."""
        if certify:
            with self.stage("certificate"):
                self.report.certificates = _certificates(program)
        for stage in STAGES:
            if stage.name == "linalg":
                require_supported(program.module, self.targets)
            if stage.passes:
                with self.stage(stage.name):
                    self._run_passes(stage, program)
                    self._dump_ir(stage.name, program)
            if stage.name == stop and stage.name in ("graph", "optimized", "linalg"):
                self.report.ir = ir_text(program.module, self.readable)
                return False
        return True

    def _run_passes(self, stage: Stage, program: Program) -> None:
        folder = self.dump / f"{stage.name}-passes" if self.dump else None
        count = len(self.report.passes)

        def run(*names: str) -> None:
            first = len(self.report.passes) - count + 1
            self.report.passes += run_passes(
                program.module, names, dump=folder, first=first
            )

        for name in stage.passes:
            # Below the graph, types no longer say what symbolic sizes are.
            if name == "lower-to-linalg":
                intermediates.record(program)
            if name == "update-in-place" and self.peak_memory is not None:
                self.report.fits = budget.fit(program, self.targets, self.peak_memory)
                run("cse")
            run(name)
            if name == "autodiff" and self._compares:
                with program.module.context:
                    self.graph = copied(program.module)

    @property
    def _compares(self) -> bool:
        """Whether compiled code is run and compared, with what its graph says."""
        return self.parity is not None or self.self_check != "off"

    def pack(
        self,
        program: Program,
        output: Path,
        title: tuple[str, str],
        signer: Signer | None,
        force: bool,
    ) -> None:
        """Write the bundle; `title` is its name and version."""
        report = self.report
        with self.stage("bundle"):
            report.bundle = self._write(program, output, title, signer, force)
        report.signer = signer.key_id if signer else None
        report.channel = _channel(signer)

    def check(self, program: Program, title: tuple[str, str]) -> None:
        """Compare the compiled entries, in a bundle that is only written to run it."""
        if not self._compares:
            return
        with temporary_folder() as work:

            @functools.cache
            def bundle() -> Path:
                return self._write(program, work, title, None, force=False)

            if self.parity is not None:
                with self.stage("parity"):
                    self.report.parities = measure(
                        program,
                        self.graph,
                        bundle(),
                        self.targets,
                        self.parity,
                        PASS_NAMES,
                    )
                require(self.report.parities)
            if self.self_check != "off":
                with self.stage("self-check"):
                    self._check_itself(program, bundle)

    def _check_itself(self, program: Program, bundle: Callable[[], Path]) -> None:
        """Compare the compiled entries with the reference, unless that was done."""
        full, report = self.self_check == "full", self.report

        def check() -> list[SelfCheck]:
            given = program, self.graph, bundle(), self.targets
            return check_entries(*given, PASS_NAMES, full=full)

        if self.cache is None:
            report.self_checks = check()
            return
        start = time.perf_counter()
        recipe = recipe_of(program, self.graph, report.variants, full=full)
        report.self_checks, report.self_check_reuse = found_or_made(
            self.cache, recipe, check
        )
        seconds = time.perf_counter() - start
        self._tell("compared", report.self_check_reuse, seconds)

    def _write(
        self,
        program: Program,
        output: Path,
        title: tuple[str, str],
        signer: Signer | None,
        force: bool,
    ) -> Path:
        report, variants = self.report, self.report.variants
        with temporary_folder() as work:
            return write_bundle(
                output,
                packager.manifest(
                    program,
                    variants,
                    PASS_NAMES,
                    *title,
                    report.certificates,
                    report.parities,
                    report.self_checks,
                ),
                packager.files(program, variants, work, *title),
                signer,
                force=force,
            )

    def _dump_ir(self, name: str, program: Program) -> None:
        if self.dump is not None:
            write_text(self.dump / f"{name}.mlir", f"{ir_text(program.module)}\n")


def ir_text(module: Any, readable: bool = False) -> str:
    """A module as text that can be fed back in, or in the form for people."""
    if readable:
        _require_graph(module)
        return format_module(module)
    return str(
        module.operation.get_asm(enable_debug_info=True, pretty_debug_info=False)
    )


def _require_graph(module: Any) -> None:
    """Refuse IR below the graph, for which there is no form but MLIR's."""
    for function in module.body.operations:
        for region in function.regions:
            for op in (op for block in region.blocks for op in block.operations):
                if op.operation.name.partition(".")[0] not in ("graph", "func"):
                    raise InputError(
                        "not-graph-ir",
                        "only graph IR has a form for people; this holds "
                        f"'{op.operation.name}'",
                        hint="leave out --readable",
                    )


def bundle_title(
    path: Path, program: Program, name: str | None, version: str | None
) -> tuple[str, str]:
    """Name and version of the bundle: as given, else as declared, else by default.

    The default depends on the file's name and not on where it lies: a source gives the
    same bundle in every folder.

    Raises:
        InputError: a given name or version is none that a bundle can have.
    """
    for what, value in (("name", name), ("version", version)):
        if value is not None:
            require_title(what, value)
    declared = program.title
    return (
        name or declared.name or default_name(path),
        version or declared.version or "1.0.0",
    )


def default_name(path: Path) -> str:
    """`examples/digits/model.py` → `model`, `res net.onnx` → `res-net`."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)
    return plain.lstrip(".")[:LONGEST] or "model"


def _self_check_mode(given: str | None) -> str:
    mode: str = given or options.get("AOTC_SELF_CHECK")
    if mode not in options.SELF_CHECK_MODES:
        raise InputError(
            "bad-option",
            f"expected a self-check of {', '.join(options.SELF_CHECK_MODES)}; "
            f"got {mode!r}",
            where=None if given else "AOTC_SELF_CHECK",
            hint="see docs/self-check.md",
        )
    return mode


def _dump_folder(dump: Path | None) -> Path | None:
    folder = dump or options.get("AOTC_DUMP")
    if folder is None:
        return None
    return make_folder(Path(folder))


def _signer(key: Path | None, sign: bool) -> Signer | None:
    if not sign:
        return None
    named = key or options.get("AOTC_SIGNING_KEY")
    return Signer.from_file(Path(named)) if named else development_key()


def _channel(signer: Signer | None) -> str:
    if signer is None:
        return "unsigned"
    return "development" if signer.development else "release"


def _require_writable(output: Path) -> None:
    """Fail before the work, not after it; writing checks once more."""
    standing = next(p for p in (output, *output.absolute().parents) if p.exists())
    if (found := unwritable(standing)) is not None:
        raise cannot_write(output, found, "the bundle")


def _require_free(output: Path, name: str, force: bool) -> None:
    """Fail before the work, not after it; writing checks once more."""
    target = output / f"{name}.aotc"
    if target.exists() and not force:
        raise InputError(
            "output-exists",
            f"there is already something at '{target}'",
            hint="pass --force to replace it, or choose another --version or -o",
        )


def lower(program: Program) -> Program:
    """Run all passes on a program in memory, down to linalg; returns it."""
    run_passes(program.module, PASS_NAMES)
    return program


@system_errors()
def optimize(
    text: str, passes: Sequence[str], *, timing: bool = False, readable: bool = False
) -> str:
    """Run `passes` on IR in text form and return the result.

    Raises:
        InputError: the text is no valid IR, or a pass is unknown.
    """
    with context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            module.operation.verify()
            control.verify(module)
        except ir.MLIRError as error:
            raise InputError("bad-ir", f"the IR is not valid: {error}") from None
        records = run_passes(module, passes)
        lines = [f"// {r.name}: {r.seconds * 1e3:.1f} ms, " for r in records]
        notes = [
            line + ("changed" if record.changed else "unchanged")
            for line, record in zip(lines, records, strict=True)
        ]
        return "\n".join([*(notes if timing else []), ir_text(module, readable)])
