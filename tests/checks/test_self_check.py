"""The self-check of a build: compiled code against the reference evaluator."""

import json
from functools import partial

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.artifacts.manifest import FILE
from aotc.checks.judging import Rounding, judge
from aotc.checks.samples import check_items_of
from aotc.machine.target import Target
from aotc.tracing.assembly import trace
from tests.checks.building import build
from tests.checks.models import SENSITIVE, refused_build


def test_every_entry_is_checked_at_small_sizes_before_it_is_signed(model):
    report = build(model, targets=[Target.parse("cpu"), Target.parse("aarch64")])
    manifest = json.loads((report.bundle / FILE).read_bytes())
    rows = {(row["entry"], row["target"]): row for row in manifest["self_check"]}
    assert len(rows) == 4
    sizes = rows["predict", str(Target.parse("cpu"))]["checked"]
    assert sizes == [{"n": 1}, {"n": 3}, {"n": 67}, {"n": 4099}]
    assert rows["train_step", str(Target.parse("cpu"))]["error_below"] <= 1e-5
    other = rows["predict", "aarch64"]
    assert other["checked"] == []
    assert "does not run it" in other["unchecked"][0]["why"]


def test_errors_are_told_in_units_in_the_last_place(model):
    model.write_text(f"{SENSITIVE}\n\n{PLAIN}")
    rows = {row.entry: row for row in build(model).self_checks}
    plain, chaotic = rows["plain"], rows["chaotic"]
    assert 0 < plain.farthest.error_ulp <= 32
    assert "ulp, below 32" in str(plain)
    assert chaotic.farthest.error_ulp > 32
    assert chaotic.farthest.rounding_ulp > 16
    assert "rounding in another order makes" in str(chaotic)
    assert plain.to_manifest()["ulp_below"] in (1.0, 10.0, 100.0)
    assert plain.to_manifest()["rounding_ulp_below"] == 0.0
    assert chaotic.to_manifest()["rounding_ulp_below"] > 10.0


@pytest.mark.parametrize(
    ("least", "step", "own"), [(1, 1, (1, 16)), (4, 4, (4, 16)), (2, 1, (2,))]
)
def test_sizes_are_within_the_contract_beside_padded_code_too(least, step, own):
    n = aotc.Dim(
        "n", min=least, max=64, multiple_of=step, specialize=own, policy="bucket"
    )

    @aotc.entry(x=aotc.Spec((n, 3)))
    def total(x):
        return x.sum(0)

    program = trace([total], {})
    (entry,) = program.entries
    sizes = [each.sizes["n"] for each in check_items_of(program, program.module, entry)]
    assert set(own) <= set(sizes)
    assert all(least <= size <= 64 and size % step == 0 for size in sizes)


def test_the_size_of_most_calls_is_checked_too(model):
    report = build(model, optimum={"n": 40}, targets=[Target.parse("cpu")])
    manifest = json.loads((report.bundle / FILE).read_bytes())
    (row,) = (row for row in manifest["self_check"] if row["entry"] == "predict")
    assert [each["n"] for each in row["checked"]] == [1, 3, 67, 40, 4099]
    assert manifest["symbols"]["n"]["optimum"] == 40


PLAIN = """
@aotc.entry(x=aotc.Spec((3, 40), "f32"))
def plain(x):
    return np.tanh(x)
"""


def test_code_that_does_not_load_fails_the_build(model, monkeypatch):
    from aotc import packager

    files = packager.files

    def damaged(*given):
        return {
            name: b"not a module" if name.endswith(".vmfb") else content
            for name, content in files(*given).items()
        }

    monkeypatch.setattr(packager, "files", damaged)
    error = refused_build(model)
    assert (error.code, error.exit_code) == ("not-loadable", 3)
    assert "IREE rejects the module" in error.message


ODD = """
import aotc
import aotc.numpy as np
from aotc import debug


@aotc.entry(k=aotc.Spec(("n",), "i32"))
def digits(k):
    return np.power(10.0, (np.cumsum(k * 0 + 1) % 9).astype("f32")).astype("i32")


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def subnormal(x):
    tiny = x * 1e-38 * 0.01
    return {"tiny": tiny, "grown": tiny * 1e38}


@aotc.entry(x=aotc.Spec((3,), "f32"))
def printing(x):
    debug.print("printed {}", x)
    return x


@aotc.entry(x=aotc.Spec((2**33,), "f32"))
def large(x):
    return x[:3]


@aotc.entry(x=aotc.Spec((3,), "f32"))
def large_inside(x):
    return np.cumsum(np.broadcast_to(x[0], (2**33,)))[3]
"""


def test_odd_models_are_built_and_what_was_not_compared_is_said(model, capfd):
    model.write_text(ODD)
    rows = {row.entry: row for row in build(model).self_checks}
    for name in ("digits", "subnormal", "printing"):
        assert rows[name].checked
        assert not rows[name].unchecked
    for name, why in {
        "large": "too much memory",
        "large_inside": "too much memory",
    }.items():
        assert not rows[name].checked
        assert all(why in reason for _, reason in rows[name].unchecked)
    assert "printed" not in "".join(capfd.readouterr())


@aotc.entry(x=aotc.Spec(("n",), "f32"), y=aotc.Spec(("n",), "f32"))
def infinities(x, y):
    return anp.exp(x) - anp.exp(x), y - y


def test_infinity_less_infinity_is_open_where_numbers_overflow_and_strict_elsewhere():
    """`fma(p, 2**n, -inf)` is -inf where `p * 2**n` alone would be infinite."""
    module = trace([infinities], {}).module

    def passed(x, y, found):
        given = [np.full(4, each, np.float32) for each in (x, y)]
        right = reference.evaluate(module, "infinities", given)
        noisy = partial(reference.evaluate, module, "infinities", given)
        rounding = Rounding(right, lambda noise: noisy(with_op=noise))
        others = [np.full(4, each, np.float32) for each in found]
        return [each.passed for each in judge(["", ""], others, right, rounding)]

    assert passed(100.0, 1.0, (-np.inf, 0.0)) == [True, True]
    assert passed(100.0, 1.0, (3.0, 0.0)) == [True, True]
    assert passed(1.0, np.inf, (0.0, -np.inf)) == [True, False]
