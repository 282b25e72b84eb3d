"""The rows of the table: a figure each, with a cell for each contender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc.cli import output
from aotc.evidence.figures import Figures, ReplayLatency
from aotc.evidence.report import Evidence

_NONE = "-"


@dataclass(frozen=True)
class FigureCell:
    """A contender's figure as text, and whether it is the best of its row."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class _Row:
    """A table row: one figure for each contender.

    Args:
        name: of the row; `{baseline}` stands for the contender compared with.
        value: of a contender; None where it has none.
        show: it as text.
        best: `min` or `max`, the better end of its values; None where there is none.
    """

    name: str
    value: Callable[[Evidence, Figures], Any]
    show: Callable[[Any], str] = str
    best: Callable[..., Any] | None = None

    def cells(self, evidence: Evidence) -> list[FigureCell]:
        """Return the row's cell for each contender; none is best if all are equal."""
        values = [self.value(evidence, each) for each in evidence.figures]
        texts = [_NONE if x is None else self.show(x) for x in values]
        known = [x for x in values if x is not None]
        if self.best is None or len(known) < 2:
            return [FigureCell(text) for text in texts]
        best = self.show(self.best(known))
        are_equal = {text for text in texts if text != _NONE} == {best}
        return [FigureCell(text, text == best and not are_equal) for text in texts]


def _ms(value: float) -> str:
    """Format milliseconds in four digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _whole(value: float) -> str:
    """Format a number without decimals."""
    return f"{value:.0f}"


def _percent(value: float) -> str:
    """Format a share in percent."""
    return f"{value:.1%}"


def _rate(value: float) -> str:
    """Format a rate in three digits, or whole from 100 on."""
    return _whole(value) if value >= 100 else f"{value:.3g}"


def _arrow(pair: tuple[int | None, int | None]) -> str:
    """Format a pair of counts as `before → after`."""
    return " → ".join(_NONE if x is None else _whole(x) for x in pair)


def _latency(name: str, *, quickest: bool = False) -> Callable[..., float | None]:
    """Return a getter of a latency statistic: of each request's median over the rounds,
    or of its least.
    """

    def value(_: Evidence, figures: Figures) -> float | None:
        found: ReplayLatency | None = figures.least if quickest else figures.latency
        return None if found is None else getattr(found, name)

    return value


def _share(path: str) -> Callable[..., float]:
    """Return a getter of the share of requests served by a kind of code, out of
    `PATHS`.
    """
    return lambda _, figures: figures.shares[path]


def _build(name: str) -> Callable[..., object]:
    """Return a getter of a fact on a contender's build, which gives None for one not
    built here.
    """

    def value(_: Evidence, figures: Figures) -> Any:
        build = figures.measured.contender.build
        return None if build is None else getattr(build, name)

    return value


def _ops(_: Evidence, figures: Figures) -> tuple[object, object] | None:
    """Return the numbers of ops before and after optimisation; None for one not built
    here.
    """
    build = figures.measured.contender.build
    return None if build is None else (build.ops_before, build.ops_after)


def _loaded(name: str) -> Callable[..., object]:
    """Return a getter of a fact on the loaded bundle."""
    return lambda _, figures: getattr(figures.measured.loaded, name)


_ROWS: tuple[_Row, ...] = (
    _Row("graph ops, before → after", _ops, _arrow),
    _Row("codes", _loaded("codes"), _whole),
    _Row("partitions of a call", _loaded("partitions"), _whole),
    _Row("islands", _loaded("islands"), _whole),
    _Row("dispatches of all", _loaded("dispatches"), _whole),
    _Row("artifact", _loaded("artifact_bytes"), output.size, min),
    _Row("build, s", _build("seconds"), "{:.1f}".format, min),
    _Row("load, ms", lambda _, x: x.measured.loaded.load_ns / 1e6, _ms, min),
    _Row("first call, ms", lambda _, x: x.cold_ms, _ms, min),
    _Row("slowest cold call, ms", lambda _, x: x.slowest_cold_ms, _ms, min),
    _Row("compiled in calls", lambda _, x: x.measured.cold.compiles, str, min),
    _Row(
        "recompiled, cold + warm",
        lambda _, x: x.measured.recompiles,
        lambda pair: f"{pair[0]} + {pair[1]}",
    ),
    _Row("warm p50, ms", _latency("p50"), _ms, min),
    _Row("warm p90, ms", _latency("p90"), _ms, min),
    _Row("warm p99, ms", _latency("p99"), _ms, min),
    _Row("warm mean, ms", _latency("mean"), _ms, min),
    _Row("quickest p50, ms", _latency("p50", quickest=True), _ms, min),
    _Row("p50 over {baseline}", lambda e, x: e.ratio(x), "{:.2f}".format, min),
    _Row("code of own size", _share("own"), _percent),
    _Row("padded", _share("padded"), _percent),
    _Row("code for any size", _share("any"), _percent),
    _Row("fallback", lambda _, x: x.fallback, _percent, min),
    _Row("refused", _share("refused"), _percent, min),
    _Row("hit rate", lambda _, x: x.hit_rate, _percent, max),
    _Row("padding adds", lambda _, x: x.padding, _percent, min),
    _Row("goodput, calls/s", lambda _, x: x.goodput, _rate, max),
    _Row("peak memory", lambda _, x: x.peak_memory, output.size, min),
    _Row("threads", _loaded("threads"), _whole),
)

# for readers of the page who have not read docs/execution-models.md
TERMS = {
    "codes": "compiled forms of the entry, each for other sizes",
    "partitions of a call": "compiled parts that a call runs, Python between them",
    "islands": "parts that Python or another framework computes",
    "dispatches of all": "functions that IREE's modules start, of all codes",
    "cold": "the first replay in a new process, compilations included",
    "warm": "the median of each request over the rounds after that",
    "quickest": "the least of each request over the rounds",
    "code of own size, padded, code for any size": "which code computes the calls: "
    "made for their sizes, for larger ones that they are padded to, or for all sizes",
    "fallback": "calls that no compiled code computes, such as eager ones",
    "hit rate": "calls whose code the process has called before",
    "padding adds": "elements of padding by those that were given",
    "goodput": "the most calls a second of which 99 % end within the bound",
}


def header(evidence: Evidence) -> list[str]:
    """Return the names of the table's columns."""
    return ["", *(each.name for each in evidence.figures)]


def rows(evidence: Evidence) -> list[tuple[str, list[FigureCell]]]:
    """Return each row's name with its cells."""
    baseline = evidence.baseline.name
    return [(row.name.format(baseline=baseline), row.cells(evidence)) for row in _ROWS]


def title(evidence: Evidence) -> str:
    """Return the title: source, entry, requests and seed of the replay."""
    traffic = evidence.traffic
    return (
        f"{evidence.source}, {evidence.entry}: {len(evidence.requests.order)} requests "
        f"of {evidence.traffic_file} ({traffic.calls} calls, {len(traffic.counts)} "
        f"distinct {', '.join(traffic.symbols)}), seed {evidence.seed}"
    )


def place(evidence: Evidence) -> str:
    """Return a line on the machine of the measurement and the number of rounds."""
    machine = evidence.machine
    rounds = len(evidence.figures[0].measured.rounds)
    return (
        f"on {machine['model'] or 'an unknown processor'}, {machine['cores_logical']} "
        f"processors, load average {machine['load_average']}; {rounds} rounds"
    )
