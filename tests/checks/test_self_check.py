"""The self-check of a build: compiled code against the reference evaluator."""

import json
import signal
from functools import partial

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import dtypes, reference
from aotc.artifacts.manifest import FILE
from aotc.checks import process, self_check
from aotc.checks.judging import Rounding, judge
from aotc.checks.rounding import noises
from aotc.checks.samples import items_of
from aotc.checks.work import TOO_LONG
from aotc.cli.main import main
from aotc.dialects import OPS
from aotc.dialects.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.errors import CompileError, SetupError
from aotc.mlir import arith, ir, linalg
from aotc.passes.rematerialize import Rematerialize
from aotc.passes.update_in_place import UpdateInPlace
from aotc.target import Target
from aotc.tracing.assembly import trace
from tests.checks.building import build

MODEL = """
import aotc
import aotc.numpy as np
import numpy

state = aotc.State({"w": numpy.float32([1, 2, 3]), "n": numpy.int32(0)})


@aotc.entry(x=aotc.Spec(("n", 3), "f32"))
def predict(x):
    return {"y": np.tanh(x).sum(0), "best": np.argmax(x, 1)}


@aotc.entry(x=aotc.Spec((3,), "f32"))
def train_step(state, x):
    loss, g = aotc.value_and_grad(lambda w: (np.sin(w) * x).sum())(state["w"])
    return {"w": state["w"] - 0.1 * g, "n": state["n"] + 1}, loss
"""


@pytest.fixture
def model(tmp_path):
    """A model with an entry of symbolic size, and one that trains."""
    file = tmp_path / "small.py"
    file.write_text(MODEL)
    return file


def refusal(model):
    """The error of a build whose code is wrong; nothing is left of it."""
    with pytest.raises(CompileError) as caught:
        build(model)
    assert not list(model.parent.glob("*.aotc"))
    return caught.value


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
    sizes = [each.sizes["n"] for each in items_of(program, program.module, entry)]
    assert set(own) <= set(sizes)
    assert all(least <= size <= 64 and size % step == 0 for size in sizes)


def test_the_size_of_most_calls_is_checked_too(model):
    report = build(model, optimum={"n": 40}, targets=[Target.parse("cpu")])
    manifest = json.loads((report.bundle / FILE).read_bytes())
    (row,) = (row for row in manifest["self_check"] if row["entry"] == "predict")
    assert [each["n"] for each in row["checked"]] == [1, 3, 67, 40, 4099]
    assert manifest["symbols"]["n"]["optimum"] == 40


def test_a_wrong_lowering_fails_the_build_with_op_and_line(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    error = refusal(model)
    assert (error.code, error.exit_code) == ("self-check", 3)
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


SMALL = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((2, 40), "f32"))
def f(x):
    small = np.tanh(x)
    return np.concatenate([x * 1e5, small], axis=1)
"""


def test_a_wrong_element_beside_much_larger_ones_fails_the_build(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    model.write_text(SMALL)
    error = refusal(model)
    assert "of 160 elements wrong: at [" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:8")


def test_a_sum_that_is_wrong_only_beyond_a_block_fails_the_build(model, monkeypatch):
    right = OPS["tanh"].lower

    def cut_off(low, op, x):
        kind = ir.IndexType.get()

        def body(element):
            row = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
            block = arith.ConstantOp(kind, 4096).result
            inside = arith.cmpi(arith.CmpIPredicate.ult, row.result, block)
            none = arith.ConstantOp(element.type, 0.0).result
            return arith.select(inside, element, none)

        result = Tensor.of(op.y)
        return low.pointwise([right(low, op, x)], result, body)

    monkeypatch.setattr(OPS["tanh"], "lower", cut_off)
    error = refusal(model)
    assert "at n=4099" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


INTEGERS = """
import aotc
import aotc.numpy as np


@aotc.entry(k=aotc.Spec((5,), "i32"), rows=aotc.Spec((3,), "i32"))
def f(k, rows):
    table = np.arange(4) * 7
    size = np.abs(k)
    return size, np.bitwise_not(k), table[rows]
"""


def without_sign(low, op, x):
    """Right where no element is negative."""
    return low.pointwise([x], Tensor.of(op.y), lambda element: element)


def in_16_bits(low, op, x):
    """Right where elements have no more than 16 bits."""

    def body(element):
        ones = arith.ConstantOp(element.type, -1).result
        few = arith.ConstantOp(element.type, 16).result
        cut = arith.shrsi(arith.shli(element, few), few)
        return arith.xori(cut, ones)

    return low.pointwise([x], Tensor.of(op.y), body)


@pytest.mark.parametrize(
    ("op", "rule", "rows", "line"),
    [
        ("abs", without_sign, "rows", 9),
        ("abs", without_sign, "k + rows[0]", 9),
        ("bitwise_not", in_16_bits, "rows", 10),
    ],
    ids=["negative", "negative-and-an-index", "large"],
)
def test_integers_that_are_wrong_if_negative_or_large_fail_the_build(
    model, monkeypatch, op, rule, rows, line
):
    monkeypatch.setattr(OPS[op], "lower", rule)
    model.write_text(INTEGERS.replace("[rows]", f"[{rows}]"))
    error = refusal(model)
    assert f"graph.{op}" in error.message
    assert error.where.endswith(f"small.py:{line}")


def test_a_wrong_state_fails_the_build(model, monkeypatch):
    monkeypatch.setattr(OPS["cos"], "lower", OPS["sin"].lower)
    error = refusal(model)
    assert "train_step" in error.message
    assert "graph.cos" in error.message


def keep_old_states(right):
    """A pass that in addition returns every state as it was."""

    def run(self, unit):
        right(self, unit)
        functions = functions_of(unit.module)
        for entry in unit.program.entries:
            block = functions[entry.name].entry_block
            old = {
                port.name: value
                for port, value in zip(entry.arguments, block.arguments, strict=True)
            }
            returned = block.operations[len(block.operations) - 1].operation.operands
            for number, port in enumerate(entry.results):
                if port.kind == "state":
                    returned[number] = old[port.name]
        return True

    return run


def test_a_pass_that_spoils_an_update_is_named(model, monkeypatch):
    monkeypatch.setattr(UpdateInPlace, "run", keep_old_states(UpdateInPlace.run))
    error = refusal(model)
    assert "train_step" in error.message
    assert "first differs after: update-in-place" in error.message


DEEP = """
import aotc
import aotc.numpy as np
import numpy

kernels = [numpy.full((16, 16), 0.05 * i, "f4") for i in range(8)]
state = aotc.State({"w": kernels})


def loss(kernels, x):
    for kernel in kernels:
        x = np.tanh(x @ kernel) * 1.5
    return np.square(x - 1.0).mean()


@aotc.entry(x=aotc.Spec((512, 16), "f32"))
def train_step(state, x):
    value, grads = aotc.value_and_grad(loss)(state["w"], x)
    return {"w": [w - 0.1 * g for w, g in zip(state["w"], grads)]}, value


@aotc.entry(x=aotc.Spec((2,), "f32"))
def other(x):
    return np.tanh(x)
"""


def test_a_pass_that_a_budget_of_memory_asked_for_is_named(model, monkeypatch):
    model.write_text(DEEP)
    (variant,) = build(model, self_check="off", force=True).variants
    most = variant.memory["train_step"].peak_bytes * 3 // 4
    monkeypatch.setattr(Rematerialize, "run", keep_old_states(Rematerialize.run))
    with pytest.raises(CompileError) as caught:
        build(model, peak_memory=most, force=True)
    assert "first differs after: rematerialize{entry=train_step" in caught.value.message


def test_passes_for_a_target_know_it_where_the_op_at_fault_is_sought(
    model, monkeypatch
):
    right, targets = UpdateInPlace.run, []

    def note_target(self, unit):
        targets.append(unit.target)
        return right(self, unit)

    monkeypatch.setattr(UpdateInPlace, "run", note_target)
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    refusal(model)
    assert len(targets) > 1
    assert set(targets) == set(Target.default())


def test_off_says_nothing_and_checks_nothing(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    monkeypatch.setenv("AOTC_SELF_CHECK", "off")
    report = build(model)
    assert report.self_checks == []
    assert "self_check" not in json.loads((report.bundle / FILE).read_bytes())


def test_what_takes_too_long_for_the_reference_is_said(model, monkeypatch, capsys):
    monkeypatch.setattr("aotc.checks.work._USUAL", 1.0)
    assert main(["build", str(model), "-o", str(model.parent)]) == 0
    assert "predict on x86_64-v3 NOT CHECKED" in capsys.readouterr().out


def test_code_that_dies_is_a_failure_of_the_build_not_its_end(model, monkeypatch):
    def die(self, *_, **__):
        self._process.send_signal(11)
        self._process.wait()
        self._answer("predict", None)

    monkeypatch.setattr(process.CompiledProcess, "call", die)
    error = refusal(model)
    assert error.code == "compiled-code-died"
    assert "SIGSEGV" in error.message


def test_the_line_of_code_that_dies_is_named(model, monkeypatch, deadly_lowering):
    monkeypatch.setattr(OPS["tanh"], "lower", deadly_lowering)
    error = refusal(model)
    assert error.code == "compiled-code-died"
    assert "SIGFPE" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


def test_too_little_memory_for_a_call_is_said_and_blames_nobody(model, monkeypatch):
    def give_up(*_, **__):
        raise SetupError("out-of-memory", "there is no memory for it")

    monkeypatch.setattr(process.CompiledProcess, "call", give_up)
    for row in build(model).self_checks:
        assert not row.checked
        assert all("memory" in why for _, why in row.unchecked)


def test_a_call_without_end_is_said_and_other_entries_are_compared(model, monkeypatch):
    started = process.CompiledProcess._answer

    def answer(self, what, seconds):
        if what == "predict":  # it never gets an answer
            self._process.send_signal(signal.SIGSTOP)
            seconds = 0.001
        return started(self, what, seconds)

    monkeypatch.setattr(process.CompiledProcess, "_answer", answer)
    predict, train_step = build(model).self_checks
    reasons = [why for _, why in predict.unchecked]
    assert "did not end within" in reasons[0]
    assert set(reasons[1:]) == {"an earlier call did not end"}
    assert train_step.checked
    assert not train_step.unchecked


ENDLESS = """
import aotc
import aotc.numpy as np
from aotc import control


@aotc.entry(x=aotc.Spec(("n", 3), "f32"))
def where_negative(x):
    step = np.maximum(np.min(x), 0.0)
    return control.while_loop(lambda v: v < 9.0, lambda v: v + step, 0.0)


@aotc.entry(x=aotc.Spec((4,), "f32"))
def always(x):
    for _ in range(4):
        x = np.tanh(x) * 2.0
    return control.while_loop(lambda v: np.sum(v) == np.sum(v), np.cos, x), x


@aotc.entry(x=aotc.Spec((3,), "f32"))
def after(x):
    return np.tanh(x)
"""


def test_loops_without_end_keep_nothing_else_from_being_compared(model, monkeypatch):
    model.write_text(ENDLESS)
    monkeypatch.setattr("aotc.checks.work._USUAL", 1e8)
    monkeypatch.setattr(self_check, "_ENDLESS_SECONDS", 0.5)
    rows = {row.entry: row for row in build(model).self_checks}
    # no call waits for what the reference evaluator has not seen to end
    assert rows["where_negative"].checked
    assert {why for _, why in rows["where_negative"].unchecked} == {TOO_LONG}
    reasons = [why for _, why in rows["always"].unchecked]
    assert "it did not end within 0.5 s" in reasons
    assert rows["after"].checked
    assert not rows["after"].unchecked


SENSITIVE = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((64, 64), "f32"))
def chaotic(x):
    for _ in range(12):
        x = np.sin(5.0 * (x @ x))
    return x
"""


def test_what_rounding_alone_carries_apart_is_no_mismatch(model):
    model.write_text(SENSITIVE)
    (row,) = build(model).self_checks
    (result,) = row.results
    assert result.distance.error > 1e-4
    assert result.passed


PLAIN = """
@aotc.entry(x=aotc.Spec((3, 40), "f32"))
def plain(x):
    return np.tanh(x)
"""

# near 0, rounding decides whether the root of what is chaotic is a number
OPEN = SENSITIVE.replace("    for", "    plain = np.tanh(x)\n    for").replace(
    "return x", "return np.sqrt(x), plain"
)


def test_elements_that_rounding_leaves_open_are_left_out(model):
    model.write_text(OPEN)
    (row,) = build(model).self_checks
    root, plain = row.results
    assert 1e-4 < root.distance.error < float("inf")
    assert plain.distance.error < 1e-5
    assert row.checked


def test_an_open_result_hides_no_wrong_one(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    model.write_text(OPEN)
    assert "graph.tanh" in refusal(model).message


def test_modules_in_the_folder_of_the_user_are_not_ours(model, monkeypatch):
    model.write_text(SENSITIVE.replace("range(12)", "range(1)"))
    for name in ("pickle", "resource", "signal"):
        (model.parent / f"{name}.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(model.parent)
    (row,) = build(model).self_checks
    assert row.checked


def test_noise_leaves_exact_results_alone():
    from aotc.checks.rounding import _is_exact

    x = np.float32([0.25, -1.5, 3.3])
    assert _is_exact(-x[::-1], [x])
    assert _is_exact(np.floor(x), [x])
    assert not _is_exact(x * np.float32(0.3), [x])


# A decoder as exporters write it: what is hidden has the least number added to it, by
# a mask of integers and by a causal one, which together hide all from some rows.
MASKED = """
import aotc
import aotc.numpy as np
import numpy
from aotc import nn

weights = aotc.Weights({"w": numpy.random.default_rng(0).normal(size=(8, 8)) / 3})


@aotc.entry(x=aotc.Spec((2, 12, 8), "f32"), mask=aotc.Spec((2, 12), "i64"))
def least(weights, x, mask):
    low = numpy.finfo("f4").min
    return attend(weights, x, (1.0 - mask.astype("f32"))[:, None] * low, low)


@aotc.entry(x=aotc.Spec((2, 12, 8), "f32"), mask=aotc.Spec((2, 12), "i64"))
def infinite(weights, x, mask):
    low = -numpy.inf
    return attend(weights, x, np.where(mask[:, None] > 0, 0.0, low), low)


def attend(weights, x, hidden, low):
    causal = np.arange(12)[:, None] >= np.arange(12)
    for _ in range(2):
        y = nn.layer_norm(x) @ weights["w"].astype("f32")
        scores = np.where(causal, y @ np.swapaxes(y, 1, 2), low) + hidden
        x = x + nn.softmax(scores) @ y
    return x
"""


def test_decoders_with_masks_that_hide_all_from_a_row_are_checked(model):
    model.write_text(MASKED)
    for row in build(model).self_checks:
        assert row.checked
        assert not row.unchecked
        assert row.farthest.rounding_ulp < 1e4  # no number is as good as open


def test_noise_leaves_the_largest_number_finite_and_alone():
    most = np.finfo(np.float32).max
    noise = next(noises())
    x = np.float32([most, -most, np.inf, *[most / 2, 1] * 50])
    moved = noise._disturb(x)
    assert (moved[:3] == x[:3]).all()
    assert np.isfinite(moved[3:]).all()
    assert (moved[3:] != x[3:]).mean() > 0.5


SERIES = {
    "random numbers in series": (
        1 - np.random.default_rng(7).random(1_000_000).astype(np.float32),
        lambda x: np.cumsum(x)[-1],
    ),
    "one number in eight lanes": (
        np.full(16384, 0.1, np.float32),
        lambda x: np.cumsum(x.reshape(-1, 8), axis=0)[-1].sum(),
    ),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_long_sum_in_series_is_no_mismatch_and_a_lost_term_is_one(name):
    x, added = SERIES[name]

    @aotc.entry(x=aotc.Spec(("n",), "f32"))
    def total(x):
        return anp.sum(x)

    module = trace([total], {}).module
    expected = reference.evaluate(module, "total", [x])

    def verdict(found):
        noisy = partial(reference.evaluate, module, "total", [x])
        rounding = Rounding(expected, lambda noise: noisy(with_op=noise))
        return judge(["total"], [np.float32(found)], expected, rounding)[0]

    in_series = added(x)
    assert abs(in_series - expected[0]) > 32 * np.spacing(expected[0])
    assert verdict(in_series).passed
    assert not verdict(x[: -(x.size // 128)].sum()).passed


@aotc.entry(x=aotc.Spec((4, "n"), "f32"), y=aotc.Spec(("n", 3), "f32"))
def sums(x, y):
    product = x @ y
    return {
        "product": product,
        "sums of them": anp.sum(product * 0.25, axis=1),
        "cut off": anp.tanh(anp.sum(x, axis=1)),
    }


@pytest.mark.parametrize(
    ("row", "passed"),
    [
        ([3e38, 3e38, -3e38, -3e38], True),
        ([1e38, 1, 1e38, -1e38], False),
        ([np.inf, 1, 2, 3], False),
        ([1, 2, 3, 4], False),
    ],
)
def test_a_sum_that_overflows_in_some_order_may_be_anything_and_no_other(row, passed):
    module = trace([sums], {}).module
    given = [np.float32([row] * 4), np.ones((4, 3), np.float32)]
    with np.errstate(all="ignore"):
        right = reference.evaluate(module, "sums", given)
        noisy = partial(reference.evaluate, module, "sums", given)
        rounding = Rounding(right, lambda noise: noisy(with_op=noise))
        for other in (np.nan, 0.0):
            found = [np.full_like(each, other) for each in right]
            verdicts = judge([""] * 3, found, right, rounding)
            assert [each.passed for each in verdicts] == [passed] * 3


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def tail(x):
    return aotc.nn.gelu(x)


@pytest.mark.parametrize(("number", "passed"), [(-5.3, True), (-4.0, False)])
def test_gelu_may_be_zero_only_where_one_plus_erf_has_one_digit(number, passed):
    x, module = np.full(4, number, np.float32), trace([tail], {}).module
    right = reference.evaluate(module, "tail", [x])
    noisy = partial(reference.evaluate, module, "tail", [x])
    rounding = Rounding(right, lambda noise: noisy(with_op=noise))
    (verdict,) = judge(["tail"], [np.zeros(4, np.float32)], right, rounding)
    assert verdict.passed == passed


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def certain(x):
    return aotc.nn.log_softmax(x)


@pytest.mark.parametrize(("ulps_of_one", "passed"), [(1, True), (2000, False)])
def test_the_logarithm_of_nearly_one_may_be_off_by_last_places_of_one(
    ulps_of_one, passed
):
    x, module = np.float32([0, -16, -17]), trace([certain], {}).module
    right = reference.evaluate(module, "certain", [x])
    noisy = partial(reference.evaluate, module, "certain", [x])
    rounding = Rounding(right, lambda noise: noisy(with_op=noise))
    found = right[0] - np.float32([ulps_of_one, 0, 0]) * np.finfo("f4").eps
    (verdict,) = judge(["certain"], [found], right, rounding)
    assert verdict.passed == passed


def test_sums_of_each_image_s_own_number_are_no_mismatch_with_sums_in_series():
    """The gradient of a bias before a ReLU and the mean over an image, channels last.

    Its terms are alike along the axes of the sum, and differ from channel to channel:
    added up in series, which NumPy does, they are rounded all one way.
    """

    @aotc.entry(x=aotc.Spec(("n", 16, 16, 24), "f32"))
    def total(x):
        return anp.sum(x, axis=(0, 1, 2))

    module = trace([total], {}).module
    rng = np.random.default_rng(7)
    numbers = rng.random((64, 1, 1, 24), np.float32)
    x = np.where(rng.random((64, 16, 16, 24)) < 0.5, numbers, np.float32(0))
    expected = reference.evaluate(module, "total", [x])

    def verdict(found):
        noisy = partial(reference.evaluate, module, "total", [x])
        rounding = Rounding(expected, lambda noise: noisy(with_op=noise))
        return judge(["total"], [found.astype(np.float32)], expected, rounding)[0]

    exact, in_series = x.sum((0, 1, 2), dtype=np.float64), x.sum((0, 1, 2))
    assert np.array_equal(expected[0], exact.astype(np.float32))
    assert not np.allclose(in_series, exact, rtol=32 * np.finfo("f4").eps, atol=0)
    assert verdict(in_series).passed
    assert not verdict(x[:-1].sum((0, 1, 2))).passed


@aotc.entry(x=aotc.Spec(("n",), "f32"), y=aotc.Spec(("n",), "bf16"))
def compared(x, y):
    one = anp.sin(x) ** 2 + anp.cos(x) ** 2
    lost = anp.sum(x) - anp.sum(x[::-1])
    return {
        "open": [
            one == 1,
            one < 1,
            anp.where(one != 1, 2.0, -3.0),
            lost == 0,
            lost.astype("bool"),
        ],
        "strict": [one == 2, x == 0, one != one, y == 0.5, anp.max(y) == y],
    }


def test_only_comparisons_that_rounding_decides_are_open():
    module = trace([compared], {}).module
    rng = np.random.default_rng(7)
    x = rng.standard_normal(67).astype(np.float32)
    y = (rng.integers(120, 136, 67) / 256).astype(dtypes.to_numpy("bf16"))
    right = reference.evaluate(module, "compared", [x, y])
    wide = x.astype(np.float64)
    one = (np.sin(wide) ** 2).astype("f") + (np.cos(wide) ** 2).astype("f")
    assert 0 < np.mean((one == 1) != right[0]) < 0.5
    compiled = [
        one == 1,
        one < 1,
        np.where(one != 1, np.float32(2), np.float32(-3)),
        ~right[3],
        ~right[4],
    ]

    def verdicts(found):
        noisy = partial(reference.evaluate, module, "compared", [x, y])
        rounding = Rounding(right, lambda noise: noisy(with_op=noise))
        return [v.passed for v in judge([""] * len(right), found, right, rounding)]

    assert verdicts([*compiled, *right[5:]]) == [True] * 10
    assert verdicts([*compiled, *(~x for x in right[5:])]) == [True] * 5 + [False] * 5


def test_code_that_does_not_load_fails_the_build(model, monkeypatch):
    from aotc import packager

    files = packager.files

    def damaged(*given):
        return {
            name: b"not a module" if name.endswith(".vmfb") else content
            for name, content in files(*given).items()
        }

    monkeypatch.setattr(packager, "files", damaged)
    error = refusal(model)
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
