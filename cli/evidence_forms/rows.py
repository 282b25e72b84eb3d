"""The rows of the table: a figure each, with a cell for each contender."""

from __future__ import annotations

from collections.abc import Callable

from aotc.cli import output
from aotc.evidence.figures import Figures, Latency
from aotc.evidence.report import Evidence

Cell = Callable[[Evidence, Figures], str]
_NONE = "-"


def _ms(value: float | None) -> str:
    """Four digits, or all before the point."""
    if value is None:
        return _NONE
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.0f}"


def _size(count: int | None) -> str:
    return _NONE if count is None else output.size(count)


def _latency(name: str, least: bool = False) -> Cell:
    def cell(_: Evidence, figures: Figures) -> str:
        found: Latency | None = figures.least if least else figures.latency
        return _ms(None if found is None else getattr(found, name))

    return cell


def _share(path: str) -> Cell:
    return lambda _, figures: f"{figures.shares[path]:.1%}"


def _build_seconds(_: Evidence, figures: Figures) -> str:
    build = figures.measured.contender.build
    return _NONE if build is None else f"{build.seconds:.1f}"


def _ops(_: Evidence, figures: Figures) -> str:
    build = figures.measured.contender.build
    if build is None:
        return _NONE
    return f"{_number(build.ops_before)} → {_number(build.ops_after)}"


def _ratio(evidence: Evidence, figures: Figures) -> str:
    ratio = evidence.ratio(figures)
    return _NONE if ratio is None else f"{ratio:.2f}"


def _goodput(_: Evidence, figures: Figures) -> str:
    rate = figures.goodput
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def _recompiles(_: Evidence, figures: Figures) -> str:
    cold, warm = figures.measured.recompiles
    return f"{cold} + {warm}"


_ROWS: tuple[tuple[str, Cell], ...] = (
    ("graph ops, before → after", _ops),
    ("codes", lambda _, x: _number(x.measured.loaded.codes)),
    ("partitions of a call", lambda _, x: _number(x.measured.loaded.partitions)),
    ("islands", lambda _, x: _number(x.measured.loaded.islands)),
    ("dispatches of all", lambda _, x: _number(x.measured.loaded.dispatches)),
    ("artifact", lambda _, x: _size(x.measured.loaded.artifact_bytes)),
    ("build, s", _build_seconds),
    ("load, ms", lambda _, x: _ms(x.measured.loaded.load_ns / 1e6)),
    ("first call, ms", lambda _, x: _ms(x.cold_ms)),
    ("slowest cold call, ms", lambda _, x: _ms(x.slowest_cold_ms)),
    ("compiled in calls", lambda _, x: str(x.measured.cold.compiles)),
    ("recompiled, cold + warm", _recompiles),
    ("warm p50, ms", _latency("p50")),
    ("warm p90, ms", _latency("p90")),
    ("warm p99, ms", _latency("p99")),
    ("warm mean, ms", _latency("mean")),
    ("quickest p50, ms", _latency("p50", least=True)),
    ("p50 over {baseline}", _ratio),
    ("code of own size", _share("own")),
    ("padded", _share("padded")),
    ("code for any size", _share("any")),
    ("fallback", lambda _, x: f"{x.fallback:.1%}"),
    ("refused", _share("refused")),
    ("hit rate", lambda _, x: f"{x.hit_rate:.1%}"),
    ("padding adds", lambda _, x: f"{x.padding:.1%}"),
    ("goodput, calls/s", _goodput),
    ("peak memory", lambda _, x: _size(x.peak_memory)),
    ("threads", lambda _, x: _number(x.measured.loaded.threads)),
)


def header(evidence: Evidence) -> list[str]:
    """The names of the columns."""
    return ["", *(each.name for each in evidence.figures)]


def rows(evidence: Evidence) -> list[list[str]]:
    """A name and a cell for each contender, by figure."""
    return [
        [
            name.format(baseline=evidence.baseline.name),
            *(cell(evidence, each) for each in evidence.figures),
        ]
        for name, cell in _ROWS
    ]


def title(evidence: Evidence) -> str:
    """What was replayed."""
    traffic = evidence.traffic
    return (
        f"{evidence.source}, {evidence.entry}: {len(evidence.requests.order)} requests "
        f"of {evidence.traffic_file} ({traffic.calls} calls, {len(traffic.counts)} "
        f"distinct {', '.join(traffic.symbols)}), seed {evidence.seed}"
    )


def place(evidence: Evidence) -> str:
    """What it was measured on, and how often."""
    machine = evidence.machine
    rounds = len(evidence.figures[0].measured.rounds)
    return (
        f"on {machine['model'] or 'an unknown processor'}, {machine['cores_logical']} "
        f"processors, load average {machine['load_average']}; {rounds} rounds"
    )
