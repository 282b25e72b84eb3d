"""Validation between steps: means over rows, the best states, an end, and resuming."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from aotc import training
from aotc.cli.main import main
from aotc.errors import InputError
from aotc.training import Validation


def fit(model, x, y, **options):
    return training.fit(model, {"x": x, "y": y}, entry="train", **options)


def scores(w, x):
    return np.cos(x @ w)


def watched(model, x, found):
    """An `on_step` that computes what a validation after each step has to find."""

    def on_step(step):
        found[step.step] = scores(model.read_state()["w"], x).mean()

    return on_step


def test_a_validation_is_the_mean_over_the_rows_whatever_the_batches_are(model, x, y):
    found: dict[int, float] = {}
    history = fit(
        model, x, y, epochs=3, on_step=watched(model, x, found),
        validation=Validation({"x": x}, entry="score", monitor="mean"),
    )  # fmt: skip
    assert [each.step for each in history.validations] == [5, 10, 15]
    assert [each.epoch for each in history.validations] == [1, 2, 3]
    for each in history.validations:
        # 22 rows in batches of four: the last batch is smaller
        assert each.means["mean"] == pytest.approx(found[each.step], rel=1e-5)
        assert each.means["each"] == pytest.approx(found[each.step], rel=1e-5)
        assert each.means.keys() == {"mean", "each"}


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_states_of_the_best_validation_are_kept(load, x, y, mode):
    model = load()
    values: dict[int, float] = {}
    history = fit(
        model, x, y, epochs=4, on_step=watched(model, x, values),
        validation=Validation(
            {"x": x}, entry="score", monitor="mean", mode=mode, every=2, best="b.st"
        ),
    )  # fmt: skip
    best = (min if mode == "min" else max)(range(2, 21, 2), key=values.get)
    assert history.best is not None
    assert history.best.step == best
    other = load()
    other.load_state("b.st")
    assert other.read_state()["n"] == best


def test_a_loop_ends_when_validations_have_not_become_better_for_long(model, x, y):
    history = fit(
        model, x, y, epochs=100,
        validation=Validation({"x": x}, entry="score", monitor="mean", patience=3),
    )  # fmt: skip
    assert history.ended_early
    means = [each.means["mean"] for each in history.validations]
    assert len(means) == int(np.argmin(means)) + 4
    assert history.steps == 5 * len(means)


def test_a_resumed_loop_validates_and_ends_as_one_that_never_stopped(load, x, y):
    def run(model, folder, metrics, **options):
        return fit(
            model, x, y, metrics=metrics, **options,
            validation=Validation(
                {"x": x}, entry="score", monitor="mean", every=3, patience=4,
                best=f"{folder}.best",
            ),
        )  # fmt: skip

    whole_model, model = load(), load()
    whole = run(whole_model, "whole", "whole.jsonl", epochs=40, checkpoint="whole")
    run(model, "parts", "parts.jsonl", steps=7, checkpoint="parts")
    run(load(), "parts", "parts.jsonl", steps=9, resume="parts")
    parts = run(load(), "parts", "parts.jsonl", epochs=40, resume="parts")
    assert whole.ended_early
    assert parts.ended_early
    assert (parts.steps, parts.best.step) == (whole.steps, whole.best.step)

    def content(name):
        return (Path(name) / "checkpoint.safetensors").read_bytes()

    assert content("whole") == content("parts")
    assert Path("whole.best").read_bytes() == Path("parts.best").read_bytes()

    def records(name):
        rows = [json.loads(line) for line in Path(name).read_text().splitlines()]
        return [{**row, "seconds": 0} for row in rows]

    assert records("whole.jsonl") == records("parts.jsonl")
    again = run(load(), "parts", "parts.jsonl", epochs=40, resume="parts")
    assert (again.steps, again.validations) == (whole.steps, ())


def test_a_validation_that_a_signal_ends_is_made_when_the_loop_goes_on(load, x, y):
    class Stopping:
        """Batches of which the first one brings a signal."""

        def __init__(self):
            self.passes = 0

        def __len__(self):
            return 2

        def __iter__(self):
            self.passes += 1
            if self.passes == 2:
                signal.raise_signal(signal.SIGTERM)
            yield {"x": x[:4]}
            yield {"x": x[4:8]}

    asked = Validation(Stopping(), entry="score", monitor="mean")
    with pytest.raises(training.Interrupted) as stopped:
        fit(load(), x, y, epochs=3, checkpoint="ck", validation=asked)
    history = stopped.value.history
    assert (history.steps, len(history.validations)) == (10, 1)
    plain = Validation({"x": x[:8]}, entry="score", monitor="mean")
    resumed = fit(load(), x, y, epochs=3, resume="ck", validation=plain)
    assert [each.step for each in resumed.validations] == [10, 15]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({}, "usage", "each, mean"),
        ({"monitor": "columns"}, "usage", "monitor='each' or 'mean'"),
        ({"monitor": "mean", "mode": "most"}, "usage", "'most'"),
        ({"monitor": "mean", "patience": 0}, "bad-number", "patience"),
        ({"entry": "train"}, "usage", "trains"),
        ({"entry": None}, "unknown-entry", "Validation(entry="),
        ({"entry": "predict_four", "batch_size": 5}, "batch-size", ""),
        ({"entry": "predict_four"}, "batch-size", "Validation(steps=5)"),
        ({"data": iter([])}, "usage", "stream"),
        ({"monitor": "mean", "best": "there.st"}, "output-exists", "another run"),
        (
            {"entry": "predict", "monitor": "sum", "constants": {"rate": np.ones(2)}},
            "dtype-mismatch",
            "rate",
        ),
    ],
)
def test_what_does_not_fit_is_told_before_a_step(model, x, y, options, code, words):
    Path("there.st").touch()
    asked = {"data": {"x": x}, "entry": "score"} | options
    with pytest.raises(InputError) as refused:
        fit(model, x, y, validation=Validation(**asked))
    assert refused.value.code == code
    assert words in str(refused.value)
    assert model.read_state()["n"] == 0


def test_validations_of_another_kind_do_not_go_on_from_a_checkpoint(load, x, y):
    asked = {"data": {"x": x}, "entry": "score", "monitor": "mean"}
    fit(load(), x, y, checkpoint="ck", validation=Validation(**asked))
    other = Validation(**asked, mode="max")
    with pytest.raises(InputError) as refused:
        fit(load(), x, y, epochs=2, resume="ck", validation=other)
    assert refused.value.code == "other-loop"


def test_a_mean_that_is_not_finite_ends_the_loop_unless_it_is_allowed(load, x, y):
    broken = x.copy()
    broken[3] = np.nan
    asked = Validation({"x": broken}, entry="score", monitor="each", best="b.st")
    with pytest.raises(InputError) as refused:
        fit(load(), x, y, validation=asked)
    assert refused.value.code == "not-finite"
    history = fit(load(), x, y, validation=asked, allow_nan=True)
    assert history.best is None
    assert not Path("b.st").exists()


def test_the_command_line_validates_keeps_the_best_and_tells_both(
    built, load, x, y, capsys, monkeypatch
):
    bundle, _ = built
    np.savez("data.npz", x=x, y=y)
    load()
    run = ["run", str(bundle), "--threads", "1", "--loop", "data.npz"]
    train = [
        *run, "--entry", "train", "--epochs", "50", "--validate", "data.npz",
        "--validate-entry", "score", "--monitor", "each:max", "--patience", "2",
        "--best", "best.safetensors", "--format", "json",
    ]  # fmt: skip
    assert main(train) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ended_early"]
    values = [each["means"]["each"] for each in document["validations"]]
    assert document["best"]["means"]["each"] == max(values)
    assert Path("best.safetensors").exists()

    score = [*run, "--entry", "score", "--batch-size", "4", "--load-state"]
    given = [*score, "best.safetensors", "--metrics", "m.jsonl"]
    assert main([*given, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == len(x)
    assert document["means"]["each"] == pytest.approx(max(values), rel=1e-6)
    Path("m.jsonl").unlink()
    assert main(given) == 0
    assert f"(mean over {len(x)} rows)" in capsys.readouterr().out
    assert main([*run, "--entry", "train", "--patience", "2"]) == 2
    assert "--patience needs --validate" in capsys.readouterr().err
    validate = ["--validate", "data.npz", "--validate-entry", "none"]
    assert main([*run, "--entry", "train", *validate]) == 2
    offered = capsys.readouterr().err
    assert "--validate-entry" in offered
    assert "score" in offered
    assert "train" not in offered.split("hint:")[1]  # it updates the state
