"""`aotc bench --traffic`: recorded traffic on bundles, or on models of a source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from aotc.artifacts.leftovers import temporary_folder
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.pack import SUFFIX, read_bundle, retry_if_replaced
from aotc.cli import output
from aotc.cli.build import source_and_entries
from aotc.cli.evidence_forms.page import to_html
from aotc.cli.evidence_forms.text import to_text
from aotc.cli.evidence_options import Replay, names_in, refuse_options
from aotc.cli.progress import reporter, still_reporter
from aotc.cli.sizes import read_sizes
from aotc.cli.verb import trust
from aotc.core.writing import write_text
from aotc.errors import InputError
from aotc.errors.system import translate_system_errors
from aotc.evidence.contenders import Contender
from aotc.evidence.peers.choosing import choose_peers
from aotc.evidence.replay import measure
from aotc.evidence.report import Evidence, evidence_of
from aotc.evidence.requests import draw_requests
from aotc.evidence.signature import EntrySignature, choose_signature, require_accepted
from aotc.timing import machine
from aotc.timing.messages import TimedBundle
from aotc.traffic import Traffic

_SECONDS = 5.0


@dataclass(frozen=True)
class Question:
    """The options of a benchmark replay: what to compare, on which traffic.

    Args:
        subject: the bundle, or the model in its place, and how to load bundles; its
            entry is empty if none was named.
        others: further bundles, or texts with names of execution models.
        replay: what is asked of the replay.
        sizes: values of sizes that the traffic does not name.
        seconds: how long to replay on each contender.
        seed: of all random numbers.
    """

    subject: TimedBundle
    others: tuple[str, ...]
    replay: Replay
    sizes: Mapping[str, int]
    seconds: float
    seed: int


@dataclass(frozen=True)
class _Contenders:
    """The contenders of a replay, and the signature of the entry that they share."""

    contenders: tuple[Contender, ...]
    signature: EntrySignature
    left_out: tuple[str, ...] = ()
    may_leave_out: bool = False


def tell_evidence(
    bundle: str,
    entry: str | None,
    replay: Replay,
    form: str,
    /,
    sizes: str | None,
    seconds: float | None,
    seed: int,
    others: tuple[str, ...],
    inputs: tuple[str, ...],
    states: str | None,
    calls: int | None,
    limit: float | None,
    profile: bool,
    **choices: Any,
) -> None:
    """Replay traffic on all contenders; print the results, and write the HTML page if
    asked.
    """
    refused = {
        "input": inputs, "load_state": states, "calls": calls, "at_most": limit,
        "profile": profile,
    }  # fmt: skip
    refuse_options("is of no use with --traffic", refused)
    subject = TimedBundle(bundle, entry or "", **choices)
    wanted = read_sizes(sizes)
    time = seconds or _SECONDS
    found = gather(Question(subject, others, replay, wanted, time, seed))
    for warning in found.warnings:
        click.echo(f"warning: {output.escape_control_characters(warning)}", err=True)
    if replay.page is not None:
        write_text(replay.page, to_html(found))
    output.emit(found.to_json(), to_text(found), form)


def is_source(path: str) -> bool:
    """Return whether the suffix of a path says that it is a model and not a bundle."""
    file = Path(source_and_entries(path)[0])
    return file.suffix not in ("", SUFFIX) and not file.is_dir()


@translate_system_errors()
def gather(question: Question) -> Evidence:
    """Replay the recorded traffic on all contenders; return the results as `Evidence`.

    Raises:
        AotcError: as builds, the loader and calls raise it; `bad-traffic` and
            `unknown-size`, where the entry does not take the traffic;
            `unknown-execution-model`; `bad-option`, where models and bundles are mixed;
            as `choose_peers` and `measure` raise it of peers.
    """
    traffic = Traffic.read(question.replay.traffic)
    if not is_source(question.subject.bundle):
        return _replay(question, traffic, _bundles(question, traffic))
    with temporary_folder() as folder:
        return _replay(question, traffic, _built(question, traffic, folder))


def _replay(question: Question, traffic: Traffic, compared: _Contenders) -> Evidence:
    """Draw requests from the traffic, replay them on all contenders; return the results
    as `Evidence`.
    """
    fixed = compared.signature.fixed_sizes(traffic, question.sizes)
    requests = draw_requests(traffic, question.replay.requests, question.seed, fixed)
    before = machine.description()
    replay, source = question.replay, question.subject.bundle
    shown = still_reporter()
    with shown.stage("replay"):
        measured, failed = measure(
            compared.contenders,
            requests,
            question.seed,
            question.seconds,
            may_leave_out=compared.may_leave_out,
            begin=shown.step,
        )
    return evidence_of(
        measured,
        replay.bound,
        source=source,
        entry=compared.signature.entry,
        traffic_file=str(replay.traffic),
        traffic=traffic,
        requests=requests,
        seed=question.seed,
        machine=before,
        left_out=(*compared.left_out, *failed),
    )


def _peers(
    question: Question, source: str, signature: EntrySignature
) -> tuple[Contender, ...]:
    """Return contenders for the other frameworks that `--against` names."""
    asked, threads = question.replay.against, question.subject.threads
    return choose_peers(asked, source, signature, threads)


def _require_accepted_traffic(
    question: Question, signature: EntrySignature, traffic: Traffic
) -> None:
    """Raise if an entry does not accept the shapes of the traffic."""
    fixed = signature.fixed_sizes(traffic, question.sizes)
    require_accepted(signature, traffic, fixed, str(question.replay.traffic))


# ---- execution models of a source ---------------------------------------------------


def _built(question: Question, traffic: Traffic, folder: Path) -> _Contenders:
    """Build a source in each execution model, in `folder`; return these as
    contenders.
    """
    from aotc.evidence.models import Case, build_contenders, source_entry

    models = _chosen_models(question)
    path, named = source_and_entries(question.subject.bundle)
    entry = question.subject.entry or next(iter(named), None)
    signature = source_entry(path, entry, traffic)
    _require_accepted_traffic(question, signature, traffic)
    peers = _peers(question, path, signature)
    case = Case(
        source=path,
        signature=signature,
        traffic=traffic,
        traffic_file=question.replay.traffic,
        max_variants=question.replay.max_variants,
        target=question.subject.target,
        threads=question.subject.threads,
        folder=folder,
        reporter=reporter(verbose=False, quiet=False),
    )
    contenders, left_out = build_contenders(case, models)
    return _Contenders((*contenders, *peers), signature, left_out, models is None)


def _chosen_models(question: Question) -> tuple[str, ...] | None:
    """Return the execution models that --models or --compare name; None for the
    default.
    """
    models, source = question.replay.models, question.subject.bundle
    if not question.others:
        return models
    named = tuple(name for each in question.others for name in names_in(each))
    if models is not None:
        raise InputError(
            "bad-option",
            "expected execution models with --models or with --compare; got both, "
            f"{','.join(models)} and {','.join(named)}",
        )
    for name in named:
        if Path(name).suffix == SUFFIX or os.path.exists(
            os.path.join(name, "manifest.json")
        ):
            raise InputError(
                "bad-option",
                "expected bundles alone with --compare, or a model and names of "
                f"execution models; got the model {source!r} and --compare {name}",
                hint="name execution models, as in --compare buckets,dynamic, or build "
                "the model",
            )
    return named


# ---- bundles ------------------------------------------------------------------------


def _bundles(question: Question, traffic: Traffic) -> _Contenders:
    """Return the given bundles as contenders, after checking that they accept the
    traffic.
    """
    _require_bundles(question)
    subject, entry = question.subject, question.subject.entry or None
    paths = (subject.bundle, *question.others)
    found = []
    for path in paths:
        manifest = _manifest(replace(subject, bundle=path))
        points = manifest.entry_points.values()
        signatures = [EntrySignature.of(manifest, point) for point in points]
        found.append(choose_signature(signatures, entry, traffic, path))
        entry = found[0].entry  # of all of them
        _require_accepted_traffic(question, found[-1], traffic)
    subject = replace(subject, entry=found[0].entry)
    contenders = [Contender(path, replace(subject, bundle=path)) for path in paths]
    peers = _peers(question, subject.bundle, found[0])
    return _Contenders((*contenders, *peers), found[0])


def _require_bundles(question: Question) -> None:
    """Raise for a model among bundles, or for options that apply to models only."""
    replay, bundle = question.replay, question.subject.bundle
    if replay.models is not None or replay.max_variants is not None:
        raise InputError(
            "bad-option",
            "expected a model, which --models and --max-variants are for; got the "
            f"bundle {bundle!r}",
            hint="leave them out, or name the model that the bundle was built from",
        )
    for path in filter(is_source, question.others):
        raise InputError(
            "bad-option",
            f"expected a bundle with --compare; got the model {path!r}",
            hint="build it, or name it alone: aotc bench MODEL --traffic FILE",
        )
    for path in question.others:
        if not os.path.exists(path) and Path(path).suffix != SUFFIX:
            raise InputError(
                "bad-option",
                f"expected a bundle with --compare beside the bundle {bundle!r}; got "
                f"{path!r}, which is none",
                hint="execution models are those of a model: aotc bench MODEL "
                f"--traffic FILE --compare {path}",
            )


def _manifest(subject: TimedBundle) -> Manifest:
    """Return the manifest of a bundle after verifying its signature."""
    path, keys = subject.bundle, trust(subject.keys)
    return retry_if_replaced(
        path, lambda: read_bundle(path, keys, subject.allow_unsigned)
    ).manifest
