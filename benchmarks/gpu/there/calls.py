"""Make the calls of one variant of a bundle, and compare what they return.

    python calls.py BUNDLE VARIANT CASES OUT PUBLIC_KEY [CASE …]

CASES is a folder with cases.json and arrays.npz; the numbers of some cases may follow.
What is found goes to OUT, a line of JSON for each step, written before the next step
begins: if this process dies, the last line tells in what. Where the loader refuses the
variant, it is loaded without being asked, to find out whether the loader is right.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from aotc.artifacts.pack import read_bundle
from aotc.artifacts.selection import Selection, judge
from aotc.core import dtypes
from aotc.core.pytree import flatten
from aotc.errors import AotcError
from aotc.runtime import engine, load, loader
from aotc.runtime.model import Model

DEVICE_FAILED = 3  # exit code: later calls of this process would say nothing


class Steps:
    """A file to which a child process writes its progress as JSON lines."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, step, **facts):
        """Append a line and flush it to disk."""
        self._file.write(json.dumps({"step": step, **facts}) + "\n")
        self._file.flush()


def load_unasked(bundle, variant):
    """Load a variant without the check that it fits this machine."""
    device = engine.device(variant.backend, None)
    code = loader._map(bundle, variant, device, None, loader._is_mapped(None))
    return Model(bundle.manifest, variant, code, Selection(variant, "optimal", ()))


def loaded(path, variant_id, key, steps):
    """Load a variant and write the verdict as a step; return the model or None."""
    bundle = read_bundle(path, key, False)
    variant = bundle.manifest.variants[variant_id]
    host = engine.host({variant.backend})
    judgements = {each.variant.id: each for each in judge(bundle.manifest, host)}
    judgement = judgements[variant_id]
    facts = {
        "verdict": judgement.verdict,
        "usable": judgement.is_usable,
        "reasons": list(map(str, judgement.mismatches)),
    }
    steps.write("verdict", **facts)
    start, refusal = time.perf_counter(), None
    try:
        model = load(path, trust=key, target=variant_id, fallback=False)
    except AotcError as error:
        refusal = f"{error.message} [{error.code}]"
        try:
            model = load_unasked(bundle, variant)
        except (AotcError, RuntimeError, ValueError, KeyError) as other:
            steps.write("load", loads=False, refusal=refusal, error=str(other))
            return None
    ms = (time.perf_counter() - start) * 1e3
    steps.write("load", loads=True, refusal=refusal, ms=ms)
    return model


class Cases:
    """The cases.json and arrays.npz of a folder."""

    def __init__(self, folder):
        text = (folder / "cases.json").read_text(encoding="utf-8")
        self.rows = json.loads(text)["cases"]
        self._arrays = np.load(folder / "arrays.npz")

    def array(self, number, dtype=None):
        """Return a stored array; `dtype` restores bf16."""
        found = self._arrays[str(number)]
        return found if dtype is None else dtypes.restore(found, dtype)


def run_case(model, cases, row):
    """Make the calls of a case; return the worst error ratio, and what is wrong."""
    entry = model.entry(row["entry"])
    states = model.manifest.states
    for name, numbers in row["before"].items():
        if name in states:
            leaves = zip(numbers, states[name].leaves, strict=True)
            arrays = [cases.array(number, leaf.dtype) for number, leaf in leaves]
            _, tree = flatten(model.read_state(name))
            model.write_state(tree.unflatten(arrays), name)
    worst, wrong = 0.0, []
    for number, call in enumerate(row["calls"]):
        inputs = zip(call["inputs"], entry.spec.inputs, strict=True)
        found = list(
            entry.call_flat([cases.array(each, leaf.dtype) for each, leaf in inputs])
        )
        for name in row["after"]:
            found += flatten(model.read_state(name))[0]
        if len(found) != len(call["results"]):
            return np.inf, [f"{len(found)} results, not {len(call['results'])}"]
        for got, result in zip(found, call["results"], strict=True):
            ratio, said = compare(cases, got, result)
            worst = max(worst, ratio)
            if said:
                wrong.append(f"call {number}, {result['name']}: {said}")
    return worst, wrong


def compare(cases, got, result):
    """Return the largest error divided by its tolerance, and what is wrong, if
    anything.
    """
    got = np.asarray(got)
    expected = cases.array(result["expected"])
    if expected.dtype.kind == "V":
        expected = expected.view(got.dtype)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        kinds = [f"{x.dtype}{list(x.shape)}" for x in (got, expected)]
        return np.inf, f"it is {kinds[0]}, expected {kinds[1]}"
    ratios = error_ratios(got, expected, cases.array(result["tolerance"]))
    worst = float(ratios.max(initial=0.0))
    if worst <= 1:
        return worst, None
    place = tuple(int(i) for i in np.unravel_index(np.argmax(ratios), ratios.shape))
    return worst, (
        f"{int((ratios > 1).sum())} of {ratios.size} elements wrong, {worst:.1e} times "
        f"too far off at {list(place)}: {got[place]}, expected {expected[place]}"
    )


def error_ratios(got, expected, tolerance):
    """Return each element's error divided by its tolerance."""
    if expected.dtype.kind in "biu":
        return np.where((got == expected) | (tolerance > 0), 0.0, np.inf)
    x, y = got.astype(np.float64), expected.astype(np.float64)
    allowed = np.broadcast_to(tolerance, y.shape).astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y)) | np.isinf(allowed)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.nan_to_num(np.abs(x - y), nan=np.inf)
        return np.where(same, 0.0, error / allowed)


def main():
    """Load the variant and go through the cases that the command line names."""
    path, variant, folder, out, key, *chosen = sys.argv[1:]
    warnings.simplefilter("ignore")
    steps, cases = Steps(out), Cases(Path(folder))
    model = loaded(path, variant, key, steps)
    if model is None:
        return 0
    wanted = list(map(int, chosen)) or [
        number for number, row in enumerate(cases.rows) if row["entry"] in model.entries
    ]
    for number in wanted:
        row = cases.rows[number]
        steps.write("begin", case=number, entry=row["entry"], sizes=row["sizes"])
        start = time.perf_counter()
        try:
            worst, wrong = run_case(model, cases, row)
        except (AotcError, RuntimeError, MemoryError) as error:
            said = f"{getattr(error, 'code', type(error).__name__)}: {error}"
            steps.write("end", case=number, outcome="failed", detail=said[:600])
            return DEVICE_FAILED
        steps.write(
            "end",
            case=number,
            outcome="wrong" if wrong else "right",
            detail="; ".join(wrong)[:600],
            ratio=worst if np.isfinite(worst) else None,
            ms=(time.perf_counter() - start) * 1e3,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
