"""A budget of memory: less at one time, the same results."""

import re
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest

from aotc import backend
from aotc.checks import budget
from aotc.core import options
from aotc.errors import InputError
from aotc.pipeline import build

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import control

rng = numpy.random.default_rng(0)
kernels = [rng.normal(0, 0.06, (256, 256)).astype("f4") for _ in range(12)]
state = aotc.State({"params": kernels, "count": numpy.zeros((), "i4")})


def loss(params, x):
    for kernel in params:
        x = np.tanh(x @ kernel) * 1.5
    return np.square(x - 1.0).mean()


@aotc.entry(x=aotc.Spec((2048, 256), "f32"))
def step(state, x):
    value, grads = aotc.value_and_grad(loss)(state["params"], x)
    pairs = zip(state["params"], grads, strict=True)
    params = [p - 0.1 * g for p, g in pairs]
    return {"params": params, "count": state["count"] + 1}, value


@aotc.entry(x=aotc.Spec(("rows", 4), "f32"))
def without_limit(x):
    return x + 1


@aotc.entry(x=aotc.Spec((aotc.Dim("n", max=2048), 512), "f32"))
def of_any_size(x):
    return np.sin(x) @ np.cos(x).T
"""

MEASURE = """
import sys, numpy, aotc
from aotc.runtime import engine

model = aotc.load(sys.argv[1], threads=1, allow_unsigned=True)
x = numpy.linspace(-1, 1, 2048 * 256, dtype="f4").reshape(2048, 256)
for _ in range(3):
    loss = model.step(x=x)
print(engine.device("llvm-cpu", 1).allocator.statistics["device_bytes_peak"])
print(float(loss))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    file = tmp_path_factory.mktemp("budget") / "deep.py"
    file.write_text(MODEL)
    return file


def built(source, name, **options):
    """A build of the training step, whose loss the test compares."""
    return build(
        source,
        output=source.parent,
        entries=("step",),
        name=name,
        sign=False,
        self_check="off",
        **options,
    )


def measured(bundle):
    """The largest memory of three steps, and the last loss."""
    printed = subprocess.check_output([sys.executable, "-c", MEASURE, str(bundle)])
    peak, loss = printed.split()
    return int(peak), float(loss)


def test_a_deep_network_trains_in_half_the_memory(source):
    whole = built(source, "whole")
    free = whole.variants[0].memory["step"].peak_bytes
    small = built(source, "small", peak_memory=free // 2)
    (fit,) = small.fits
    assert fit.entry == "step"
    assert free <= fit.before < 1.1 * free  # its regions write one result each
    assert fit.recomputed > 0
    assert small.variants[0].memory["step"].peak_bytes == fit.after <= free // 2
    (many, expected), (few, loss) = measured(whole.bundle), measured(small.bundle)
    assert few <= fit.after < many <= free
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_what_fits_stays_as_it_is(source):
    report = built(source, "large", peak_memory=10**9)
    assert not report.fits
    passes = [each.name for each in chain(*report.variant_passes.values())]
    assert "fuse-regions{anchors_only=True,without=}" in passes
    assert "join-products" not in passes


def test_what_fits_is_measured_once_as_it_is_compiled(
    source, monkeypatch, tmp_path, capsys
):
    planned = []

    def plan_memory(unit):
        planned.append([record.name for record in unit.records])
        return backend.plan_memory(unit)

    monkeypatch.setattr(budget, "plan_memory", plan_memory)
    with (
        options.override("AOTC_DUMP", str(tmp_path)),
        options.override("AOTC_PRINT_AFTER", "all"),
    ):
        report = build(
            source,
            entries=("step", "of_any_size"),
            level=0,
            peak_memory=10**10,
            stop_after="variant",
        )
    (records,) = report.variant_passes.values()
    names = [record.name for record in records]
    (fitted,) = (n for n, name in enumerate(names) if name.startswith("fit-memory"))
    assert planned == [names[fitted + 1 :]]
    printed = capsys.readouterr().err.count("// IR after ")
    assert printed == len(report.passes) + len(names)
    assert not list(tmp_path.glob("[0-9]*.mlir"))


@pytest.mark.parametrize(
    ("entry", "most", "code"),
    [
        ("without_limit", 10**9, "unknown-memory"),
        ("of_any_size", 1_000_000, "symbolic-memory"),
    ],
)
def test_a_budget_that_cannot_be_met_is_refused(source, entry, most, code):
    with pytest.raises(InputError) as refusal:
        build(source, entries=(entry,), output=source.parent, peak_memory=most)
    assert refusal.value.code == code
    assert entry in refusal.value.message
    assert "fit-memory" not in refusal.value.message


@pytest.mark.slow
def test_the_least_that_a_refusal_names_can_be_had(source):
    asked = {"entries": ("step",), "output": source.parent, "stop_after": "variant"}
    with pytest.raises(InputError, match="entry 'step'") as refusal:
        build(source, peak_memory=5_000_000, **asked)
    assert refusal.value.code == "memory-budget"
    figures = re.findall(r"[0-9][0-9,]+", refusal.value.message)
    before, least, _ = (int(each.replace(",", "")) for each in figures)
    assert least < before
    report = build(source, peak_memory=least, **asked)
    (fit,) = report.fits
    assert fit.after <= least
