"""`training.map_batches`: results for all rows, in the structure of the entry."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from aotc import training
from aotc.errors import InputError

RATE = {"rate": 3}


def test_results_have_a_row_for_each_row_or_an_element_for_each_step(model, x):
    told = []
    found = training.map_batches(
        model, {"x": x}, entry="predict", constants=RATE, batch_size=4,
        metrics="m.jsonl", on_step=told.append,
    )  # fmt: skip
    batches = [x[start : start + 4] for start in range(0, len(x), 4)]
    np.testing.assert_allclose(found["each"], 3 * x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(found["sum"], [3 * b.sum() for b in batches], rtol=1e-4)
    np.testing.assert_allclose(found["columns"], [b.sum(0) for b in batches], rtol=1e-4)
    assert [step.step for step in told] == list(range(1, 7))
    assert {step.total for step in told} == {6}
    assert len(told[-1].result["each"]) == 2
    lines = map(json.loads, Path("m.jsonl").read_text().splitlines())
    assert [line["metrics"]["sum"] for line in lines] == found["sum"].tolist()


def test_one_array_is_the_result_of_an_entry_that_returns_one(model, x):
    found = training.map_batches(model, x[:20], entry="predict_four")
    np.testing.assert_allclose(found, x[:20].sum(1), rtol=1e-5)
    first = training.map_batches(model, x, entry="predict_four", steps=2)
    assert first.tobytes() == found[:8].tobytes()


def test_nested_inputs_are_found_by_structure_and_by_dotted_name(model, x):
    halves = x[:2]
    nested = training.map_batches(
        model, [{"batch": {"x": x[:4], "other": halves}}], entry="measure"
    )
    dotted = training.map_batches(
        model,
        {"batch.x": x[:4]},
        entry="measure",
        constants={"batch": {"other": halves}},
    )
    assert nested.tobytes() == dotted.tobytes()
    np.testing.assert_allclose(nested, [x[:4].sum() + halves.sum()], rtol=1e-5)


def test_batches_of_your_own_may_have_any_sizes(model, x):
    sizes = [x[:5], x[5:6], x[6:]]
    for data in (sizes, iter(sizes), [{"x": each} for each in sizes]):
        found = training.map_batches(model, data, entry="predict", constants=RATE)
        np.testing.assert_allclose(found["each"], 3 * x.sum(1), rtol=1e-5)
        assert found["sum"].shape == (3,)


def test_results_that_are_not_collected_come_step_by_step(model, x):
    rows = []
    found = training.map_batches(
        model, {"x": x}, entry="predict", constants=RATE, batch_size=11,
        collect=False, on_step=lambda step: rows.append(step.result["each"].copy()),
    )  # fmt: skip
    assert found is None
    np.testing.assert_allclose(np.concatenate(rows), 3 * x.sum(1), rtol=1e-5)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_it_with_the_history_and_no_result(model, x):
    def interrupt(step):
        if step.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(training.Interrupted, match="after step 2") as caught:
        training.map_batches(
            model, x, entry="predict", constants=RATE, batch_size=4, on_step=interrupt
        )
    assert len(caught.value.history.metrics["sum"]) == 2


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"entry": "train"}, "usage", "training.fit"),
        ({"entry": None}, "unknown-entry", "entry='"),
        ({"entry": "predict_four", "constants": {}}, "batch-size", "steps=5 leaves"),
        (
            {"entry": "distances", "constants": {}, "batch_size": 4},
            "batch-size",
            "choose a batch_size that 22",
        ),
        ({"batch_size": None}, "batch-size", "batch_size=32"),
        ({"batch_size": 0}, "bad-number", "batch_size"),
        ({"data": [], "batch_size": None}, "too-few-batches", "no batches"),
        ({"data": [{}]}, "usage", "batch_size belongs to arrays"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_of_python(model, x, change, code, words):
    arguments = {"data": x, "entry": "predict", "constants": RATE, "batch_size": 4}
    with pytest.raises(InputError) as caught:
        training.map_batches(model, **{**arguments, **change})
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "--" not in str(caught.value)


def test_results_of_two_sizes_are_an_error_and_not_a_traceback(model, x):
    with pytest.raises(InputError, match="two sizes of 'output'") as caught:
        training.map_batches(model, [x[:3], x[3:5]], entry="distances")
    assert caught.value.code == "batch-size"


def test_no_rows_are_refused(model, x):
    with pytest.raises(InputError) as caught:
        training.map_batches(model, x[:0], entry="distances", batch_size=4)
    assert caught.value.code == "too-few-rows"
