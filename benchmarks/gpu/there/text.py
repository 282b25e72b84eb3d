"""The report of a run as text."""

from __future__ import annotations

NO_TIME = "not run: no time was left"
# the largest difference of a result over the root of its mean square
MOST_OFF = {"f32": 1e-3, "bf16": 0.15}
OUTCOMES = ("right", "wrong", "failed", "died", "hung", "not run")


def outcome_of(case):
    """Return a case's outcome as one of `OUTCOMES`, without details."""
    return case["outcome"].partition(":")[0]


def contradictions(report):
    """Return variants whose verdict and loading contradict each other."""
    return [
        row
        for row in report.get("comparisons", ())
        if "usable" in row and row["usable"] != bool(row.get("loads"))
    ]


def bad_cases(report):
    """Return each case that is not right, with its row."""
    return [
        (row, case)
        for row in report.get("comparisons", ())
        for case in row["cases"]
        if outcome_of(case) != "right"
    ]


def wrong_networks(report):
    """Return networks that failed or differ from PyTorch beyond rounding."""
    return [
        row
        for row in report.get("networks", {}).get("rows", ())
        if row.get("failed", NO_TIME) != NO_TIME
        or row.get("error", 0.0) > MOST_OFF[row.get("dtype", "f32")]
    ]


def is_clean(report):
    """Return whether everything was compared and is right, verdicts included."""
    compared = any(row["cases"] for row in report.get("comparisons", ()))
    compared |= any("error" in x for x in report.get("networks", {}).get("rows", ()))
    return not (
        not compared
        or report.get("errors")
        or bad_cases(report)
        or "error" in report.get("networks", {})
        or wrong_networks(report)
        or contradictions(report)
    )


def report(data):
    """Return the whole report as text."""
    compared = (_head, _machine, _verdicts, _outcomes, _bad)
    parts = (*compared, _times, _networks, _schedules, _refused)
    lines = [line for part in parts for line in part(data)]
    return "\n".join(lines)


def _head(data):
    """Yield the lines on versions, time and targets."""
    state = "finished" if data.get("finished") else "NOT FINISHED"
    folder = data["folder"]
    yield (
        f"aotc {folder['aotc']}, IREE {folder['iree']}, {data['began']}, "
        f"{data.get('seconds', 0):.0f} s, {state}"
    )
    yield f"targets: {', '.join(data.get('targets', ()))}"
    if data.get("failed"):
        yield f"FAILED: {data['failed']}"
    for error in data.get("errors", ()):
        yield f"ERROR in {error}"


def _machine(data):
    """Yield the lines on the machine."""
    machine = data.get("machine")
    if not machine:
        return
    yield ""
    device = machine["doctor"].get("device") or {}
    yield f"cpu: {device.get('cpu', {}).get('level')}, {machine['cpus']} processors"
    for kind in ("cuda", "vulkan", "rocm"):
        yield f"{kind}: {device.get(kind) or 'no driver'}"
    if machine["nvidia-smi"].get("output"):
        yield f"nvidia-smi: {machine['nvidia-smi']['output']}"
    for each in machine["differ"]:
        yield f"DIFFERS from the C probe: {each}"


def _verdicts(data):
    """Yield the lines on compatibility verdicts and what loads."""
    rows = data.get("comparisons", ())
    yield ""
    yield "compat, and what loads:"
    for variant in data.get("targets", ()):
        own = [row for row in rows if row["variant"] == variant]
        said = sorted({str(row.get("verdict")) for row in own})
        loads = sum(bool(row.get("loads")) for row in own)
        yield f"  {variant:12} {', '.join(said) or '-':24} {loads} of {len(own)} load"
    for row in contradictions(data):
        why = row.get("error") or row.get("refusal") or "; ".join(row["reasons"])
        yield (
            f"  CONTRADICTION {row['bundle']} {row['variant']}: {row['verdict']}, "
            f"loads: {row.get('loads')}: {why}"
        )


def _outcomes(data):
    """Yield the table of compared cases by outcome."""
    yield ""
    yield f"compared:    {''.join(f'{name:>9}' for name in OUTCOMES)}"
    for variant in data.get("targets", ()):
        cases = [
            outcome_of(case)
            for row in data.get("comparisons", ())
            if row["variant"] == variant
            for case in row["cases"]
        ]
        counts = "".join(f"{cases.count(name):9}" for name in OUTCOMES)
        yield f"  {variant:11}{counts}"


def _bad(data):
    """Yield a line for each case that is not right."""
    for row, case in bad_cases(data):
        if outcome_of(case) == "not run":
            continue
        alone = f" (alone: {case['alone']})" if "alone" in case else ""
        yield (
            f"  {case['outcome']}{alone}: {row['program']}.{case.get('entry')} "
            f"{case.get('sizes')} {row['variant']}: {case.get('detail', '')[:300]}"
        )


def _times(data):
    """Yield the table of times."""
    rows = data.get("times")
    if not rows:
        return
    yield ""
    yield (
        f"{'p50, ms':36}{'call':>9}{'invoked':>9}{'kernels':>9}{'on GPU':>9}"
        f"{'load':>9}{'first':>9}"
    )
    for row in rows:
        name = f"{row['program']}.{row['entry']} {row['variant']}"
        name += ", graphs" if row.get("flags") else ""
        yield f"  {name:34}{_figures(row)}"
    yield from _peers(data.get("torch", {}))


def _figures(row):
    """Return the cells of a row of times."""
    launches = row.get("launches", {})
    cells = [
        _ms(row.get("call")),
        _ms(row.get("invocation")),
        _number(launches.get("kernels"), 0),
        _number(launches.get("kernel_us"), 3, 1e-3),
        _number(row.get("load_ms"), 0),
        _number(row.get("first_call_ms"), 1),
    ]
    error = row.get("error") or launches.get("error")
    return "".join(f"{cell:>9}" for cell in cells) + (
        f"  {error[:120]}" if error else ""
    )


def _peers(found):
    """Yield the table of PyTorch's times."""
    yield ""
    if "calls" not in found:
        yield f"PyTorch: {found.get('error', 'not measured')}"
        return
    title = f"PyTorch {found['torch']} on {found['device']}"
    yield f"{title:36}{'call':>9}{'eager':>9}{'kernels':>9}{'graph':>9}"
    for name, row in found["calls"].items():
        cells = [
            _ms(row.get("call")),
            _ms(row.get("eager")),
            _number(row.get("launches", {}).get("kernels"), 0),
            _ms(row.get("graph")),
        ]
        error = f"  {row['error'][:120]}" if "error" in row else ""
        yield f"  {name:34}{''.join(f'{cell:>9}' for cell in cells)}{error}"


def _networks(data):
    """Yield the table of networks."""
    found = data.get("networks")
    if not found:
        return
    yield ""
    yield (
        f"{'networks, p50, ms':36}{'call':>9}{'invoked':>9}{'kernels':>9}{'on GPU':>9}"
        f"{'load':>9}{'first':>9}{'error':>9}"
    )
    wrong = wrong_networks(data)
    for row in found.get("rows", ()):
        kernels = row.get("kernels", {})
        launches = {"kernels": len(kernels["each"]) if "each" in kernels else None}
        launches["kernel_us"] = kernels.get("total_us")
        told = {**row, "launches": launches, "error": None}
        off = "-" if row.get("error") is None else f"{row['error']:.0e}"
        why = row.get("failed", "")[:120] or ("WRONG" if row in wrong else "")
        yield f"  {row['name']:34}{_figures(told)}{off:>9}  {why}".rstrip()
    if "error" in found:
        yield f"  {found['error']}"


def _schedules(data):
    """Yield the line on timed schedules."""
    told = data.get("schedules")
    if told:
        yield ""
        yield f"schedules: {told['count']} timed {told.get('error', '')}".rstrip()


def _ms(figures):
    """Return the median of figures in milliseconds as text."""
    return _number((figures or {}).get("p50_ms"), 3)


def _number(value, digits, scale=1.0):
    """Return a scaled number as text; "-" for None."""
    return "-" if value is None else f"{value * scale:.{digits}f}"


def _refused(data):
    """Yield the lines on what was not compiled."""
    refused = data.get("refused")
    if not refused:
        return
    yield ""
    yield "not compiled:"
    for name, targets in refused.items():
        for target, why in targets.items():
            yield f"  {name} for {target}: {why[:160]}"
