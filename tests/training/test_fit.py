"""`training.fit`: data as Python has them, results as arrays, and every way to end."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from aotc import training
from aotc.errors import InputError
from aotc.training import batches as batches_module
from aotc.training.batches import RowBatches


def expected(rows_of_steps, x, y):
    """The losses that NumPy finds for these rows in each step."""
    w, losses = np.zeros(2), []
    for rows in rows_of_steps:
        w = w * 0.9 + np.sin(x[rows] * y[rows, None]).sum(0)
        losses.append(w.sum())
    return losses


def shuffled(steps, rows, seed):
    for step in range(steps):
        epoch, index = divmod(step, rows // 4)
        order = np.random.default_rng((seed, epoch)).permutation(rows)
        yield order[index * 4 : index * 4 + 4]


def batches_of(x, y, count=5):
    """Batches of four rows, in order."""
    return [
        {"x": x[i * 4 : i * 4 + 4], "y": y[i * 4 : i * 4 + 4]} for i in range(count)
    ]


def fit(model, data, **options):
    return training.fit(model, data, entry="train", **options)


def states(model):
    return {name: array.tobytes() for name, array in model.read_state().items()}


# ---- data ---------------------------------------------------------------------------


def test_rows_are_shuffled_by_seed_and_epoch_and_metrics_are_arrays(model, x, y):
    history = fit(model, {"x": x, "y": y, "unused": 3}, epochs=3, seed=7)
    losses = expected(shuffled(15, len(x), 7), x, y)
    np.testing.assert_allclose(history.metrics["loss"], losses, rtol=1e-5)
    assert history.metrics["loss"].dtype == np.float32
    assert history.metrics["count"].tolist() == list(range(1, 16))
    assert history.metrics["count"].dtype == np.int32
    assert list(history.metrics) == ["count", "loss"]
    assert (history.entry, history.steps, history.began_at) == ("train", 15, 0)
    assert (history.batch_size, history.steps_per_epoch, history.seed) == (4, 5, 7)
    assert history.checkpoint is None
    assert model.read_state()["n"] == 15


def test_arrays_of_a_mapping_a_file_and_an_open_file_are_one_thing(load, x, y):
    np.savez("data.npz", x=x, y=y, other=x)
    with np.load("data.npz") as opened:
        found = [
            fit(load(), data, steps=7).metrics["loss"].tobytes()
            for data in ({"x": x, "y": y}, "data.npz", Path("data.npz"), opened)
        ]
    assert len(set(found)) == 1


def test_a_mapping_is_not_asked_for_what_no_input_is_named_after(model, x, y):
    class Archive(dict):
        def __getitem__(self, key):
            assert key != "huge"
            return super().__getitem__(key)

    fit(model, Archive(x=x, y=y, huge=None), steps=1)


def test_batches_of_your_own_keep_their_order(load, x, y):
    batches = batches_of(x, y)
    losses = expected([slice(i % 5 * 4, i % 5 * 4 + 4) for i in range(10)], x, y)
    history = fit(load(), batches, epochs=2)
    np.testing.assert_allclose(history.metrics["loss"], losses, rtol=1e-5)
    assert (history.steps_per_epoch, history.batch_size) == (5, None)
    stream = fit(load(), (batch for batch in batches))
    np.testing.assert_allclose(stream.metrics["loss"], losses[:5], rtol=1e-5)
    assert (stream.steps, stream.steps_per_epoch) == (5, None)


def test_batches_of_an_entry_with_one_input_need_no_name(load, x):
    sizes = {"entry": "train_any", "constants": {"rate": 1}}
    named = training.fit(load(), [{"x": x[:3]}, {"x": x[3:4]}], **sizes)
    assert named.metrics["count"].tolist() == [1, 2]
    plain = training.fit(load(), [x[:3], x[3:4]], **sizes)
    assert plain.metrics["loss"].tobytes() == named.metrics["loss"].tobytes()
    whole = training.fit(load(), x, batch_size=11, **sizes)
    assert whole.steps == 2


def test_a_batch_that_breaks_the_contract_is_named_by_its_step(model, x, y):
    batches = [*batches_of(x, y, 2), {"x": x[:3], "y": y[:3]}]
    with pytest.raises(InputError) as caught:
        fit(model, batches)
    assert str(caught.value).startswith("step 3: train: input 'x': expected f32[4, 2]")
    assert caught.value.code == "shape-mismatch"


def test_a_stream_is_not_read_further_than_its_steps(load, x, y):
    stream = iter(batches_of(x, y))
    first = fit(load(), stream, steps=2)
    assert (first.steps, len(list(stream))) == (2, 3)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("size", [1, 4, 22])
def test_row_batches_begin_anywhere_as_if_they_had_begun_at_the_start(x, seed, size):
    batches = RowBatches({"x": x}, size, seed)
    count = 2 * batches.per_epoch + 1
    drawn = batches.after(0)
    whole = [next(drawn)["x"] for _ in range(count)]
    for step in range(count):
        np.testing.assert_array_equal(next(batches.after(step))["x"], whole[step])


@pytest.mark.parametrize(
    "lay_out",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: np.broadcast_to(x[:1], x.shape),
    ],
)
def test_a_digest_is_that_of_the_rows_however_they_lie_in_memory(
    x, lay_out, monkeypatch
):
    plain = lay_out(x).copy(order="C")
    expected = RowBatches({"x": plain}, 4, 0).digest()
    monkeypatch.setattr(batches_module, "_PART", 3 * plain[:1].nbytes)
    assert RowBatches({"x": lay_out(x)}, 4, 0).digest() == expected
    assert RowBatches({"x": plain + 1}, 4, 0).digest() != expected


def test_rows_without_elements_have_a_digest():
    assert RowBatches({"x": np.zeros((3, 0), "f4")}, 1, 0).digest()


# ---- steps --------------------------------------------------------------------------


def test_on_step_gets_every_step_before_its_checkpoint(load, x, y):
    told, model = [], load()

    def on_step(step):
        told.append(step)
        model.write_state({**model.read_state(), "key": np.full(2, step.step, "u4")})
        assert not Path("ck/checkpoint.safetensors").exists() or step.step > 1

    history = fit(
        model, {"x": x, "y": y}, steps=6, checkpoint="ck", checkpoint_every=1,
        on_step=on_step,
    )  # fmt: skip
    assert [step.step for step in told] == list(range(1, 7))
    assert [step.epoch for step in told] == [1] * 5 + [2]
    assert {step.total for step in told} == {6}
    assert told[3].metrics["loss"] == history.metrics["loss"][3]
    np.testing.assert_allclose(told[0].result["each"].sum(), told[0].metrics["loss"])
    other = load()
    other.load_state("ck/checkpoint.safetensors")
    assert other.read_state()["key"].tolist() == [6, 6]


def test_an_error_of_the_data_or_of_on_step_is_the_callers(model, x, y):
    def broken():
        yield batches_of(x, y)[0]
        raise PermissionError(13, "Permission denied", "a.npy")

    with pytest.raises(PermissionError):
        fit(model, broken())
    with pytest.raises(ZeroDivisionError):
        fit(model, {"x": x, "y": y}, on_step=lambda step: 1 / 0)


def test_a_metric_that_is_not_finite_ends_the_loop_in_words_of_python(model, x, y):
    x = np.full_like(x, np.nan)
    data = {"x": x, "y": np.maximum(y, 1)}
    with pytest.raises(InputError, match="loss is nan in step 1") as caught:
        fit(model, data, checkpoint="ck")
    assert caught.value.code == "not-finite"
    assert "allow_nan=True goes on" in caught.value.hint
    assert "--find-nan loop_model.py" in caught.value.hint
    history = fit(model, data, allow_nan=True)
    assert np.isnan(history.metrics["loss"]).all()


# ---- going on -----------------------------------------------------------------------


def own_list(x, y):
    return batches_of(x, y)


def own_stream(x, y):
    return (batch for batch in batches_of(x, y) * 3)


def arrays(x, y):
    return {"x": x, "y": y}


def test_numbers_of_numpy_are_numbers(load, x):
    one, two = (np.int64(n) for n in (1, 2))
    training.fit(
        load(), {"x": x}, entry="train_any", constants={"rate": np.float32(1)},
        batch_size=two, seed=one, epochs=one, steps=two, checkpoint="ck",
        checkpoint_every=one,
    )  # fmt: skip
    resumed = training.fit(
        load(), {"x": x}, entry="train_any", constants={"rate": 1}, steps=3, resume="ck"
    )
    assert (resumed.began_at, resumed.batch_size, resumed.seed) == (2, 2, 1)


@pytest.mark.parametrize("data", [arrays, own_list, own_stream])
@pytest.mark.parametrize("stop", [1, 5, 7])
def test_a_resumed_run_ends_with_the_same_bits(load, x, y, data, stop):
    straight = load()
    whole = fit(straight, data(x, y), steps=12, metrics="m.jsonl", checkpoint="a")
    fit(load(), data(x, y), steps=stop, metrics="n.jsonl", checkpoint="b")
    resumed = load()
    rest = fit(resumed, data(x, y), steps=12, metrics="n.jsonl", resume="b")
    assert states(resumed) == states(straight)
    assert (rest.began_at, rest.steps) == (stop, 12)
    both = [whole.metrics["loss"][stop:], rest.metrics["loss"]]
    assert both[0].tobytes() == both[1].tobytes()
    files = [Path(folder, "checkpoint.safetensors").read_bytes() for folder in "ab"]
    assert files[0] == files[1]
    records = [
        [json.loads(line)["metrics"] for line in Path(file).read_text().splitlines()]
        for file in ("m.jsonl", "n.jsonl")
    ]
    assert records[0] == records[1]
    again = fit(load(), data(x, y), steps=12, resume="b")
    assert (again.steps, again.metrics) == (12, {})


def test_a_checkpoint_of_the_command_goes_on_in_python(built, load, x, y):
    from aotc.cli.main import main

    np.savez("data.npz", x=x, y=y)
    command = ["run", str(built[0]), "--entry", "train", "--loop", "data.npz"]
    command += ["--threads", "1"]
    assert main([*command, "--steps", "7", "--seed", "3", "--checkpoint", "ck"]) == 0
    fit(load(), {"x": x, "y": y}, epochs=3, resume="ck", checkpoint="python")
    assert main([*command, "--epochs", "3", "--resume", "ck"]) == 0
    one, two = (Path(d, "checkpoint.safetensors") for d in ("python", "ck"))
    assert one.read_bytes() == two.read_bytes()


def test_an_epoch_of_your_own_batches_is_kept_when_it_ends(load, x, y):
    steps = []

    def on_step(step):
        file = Path("ck/checkpoint.safetensors")
        steps.append(file.stat().st_mtime_ns if file.exists() else None)

    fit(load(), batches_of(x, y), epochs=2, checkpoint="ck", on_step=on_step)
    assert steps[:5] == [None] * 5
    assert len(set(steps[5:])) == 1
    assert None not in steps[5:]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_loop_in_order_and_raises(load, x, y, number):
    data = {"x": x, "y": y}
    straight = load()
    fit(straight, data, steps=9)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def interrupt(step):
        if step.step == 3:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt, match=number.name) as caught:
        fit(load(), data, steps=9, checkpoint="ck", on_step=interrupt)
    assert isinstance(caught.value, training.Interrupted)
    assert (caught.value.signal, caught.value.history.steps) == (number, 3)
    assert len(caught.value.history.metrics["loss"]) == 3
    assert handlers == (
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGTERM),
    )
    resumed = load()
    fit(resumed, data, steps=9, resume="ck")
    assert states(resumed) == states(straight)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_during_validation_ends_the_training_around_it_in_order(load, x, y):
    model = load()

    def validate(step):
        stop = step.step == 3
        training.map_batches(
            model, x, entry="predict_four", steps=2,
            on_step=lambda _: os.kill(os.getpid(), signal.SIGINT) if stop else None,
        )  # fmt: skip

    with pytest.raises(training.Interrupted, match="after step 3") as caught:
        fit(model, {"x": x, "y": y}, steps=9, checkpoint="ck", on_step=validate)
    assert caught.value.history.entry == "train"
    resumed = fit(load(), {"x": x, "y": y}, steps=9, resume="ck")
    assert (resumed.began_at, resumed.steps) == (3, 9)


def test_trains_in_a_thread_too_where_no_signal_can_be_taken_over(model, x, y):
    found = []
    data = {"x": x, "y": y}
    thread = threading.Thread(target=lambda: found.append(fit(model, data)))
    thread.start()
    thread.join()
    assert found[0].steps == 5


# ---- what is refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"entry": None}, "unknown-entry", "entry='train' or 'train_any' or"),
        ({"entry": "predict"}, "usage", "map_batches"),
        ({"batch_size": 8}, "batch-size", "8 by batch_size"),
        ({"batch_size": 2.0}, "bad-number", "batch_size to be a whole number"),
        ({"epochs": 0}, "bad-number", "epochs to be a whole number of 1"),
        ({"seed": -1}, "bad-number", "seed to be a whole number of 0"),
        ({"checkpoint_every": 3}, "usage", "checkpoint_every needs checkpoint"),
        ({"constants": {"q": 1}}, "unknown-input", "x: f32[4, 2]"),
        ({"constants": 0.1}, "input-structure", "expected a mapping"),
        ({"entry": "train_any"}, "no-batches", "constants={'rate': VALUE}"),
        (
            {"entry": "train_any", "constants": {"rate": 1}},
            "batch-size",
            "batch_size=32",
        ),
        ({"resume": "ck"}, "no-checkpoint", "checkpoint.safetensors"),
        ({"data": {"X": 1}}, "missing-input", "give constants={'x': VALUE}"),
        ({"data": "none.npz"}, "no-such-file", "none.npz"),
        ({"data": 3}, "input-type", "iterable of batches, got int"),
        ({"data": np.zeros(3)}, "input-structure", "names of inputs (x, y)"),
        ({"data": {"x": [[1, 2]], "y": [1]}}, "input-type", "numpy.asarray"),
        ({"data": []}, "too-few-batches", "there are no batches"),
        ({"data": iter([])}, "too-few-batches", "there are no batches"),
        ({"data": iter([]), "epochs": 2}, "usage", "got epochs=2"),
        ({"data": [{}], "seed": 1}, "usage", "seed belongs to arrays"),
        ({"data": [{}], "batch_size": 4}, "usage", "batch_size belongs to arrays"),
        ({"data": [{"x": 1}]}, "missing-input", "batch 1: no array for the input y"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_of_python(
    model, x, y, change, code, words
):
    before = states(model)
    arguments = {"data": {"x": x, "y": y}, "entry": "train", **change}
    with pytest.raises(InputError) as caught:
        training.fit(model, **arguments)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "--" not in str(caught.value)
    assert states(model) == before
    assert list(Path().iterdir()) == []


def test_masked_rows_are_refused_and_not_trained_on(model, x, y):
    masked = np.ma.masked_array(x, x > 1)
    with pytest.raises(InputError, match="masked"):
        fit(model, {"x": masked, "y": y})


def test_another_loop_is_refused_and_leaves_the_states(load, x, y):
    fit(load(), {"x": x, "y": y}, checkpoint="ck")
    whole = Path("ck/checkpoint.safetensors").read_bytes()
    for data, options, words in [
        ({"x": x, "y": y}, {"seed": 1}, r"the seed .* \(0\), got 1"),
        ({"x": x + 1, "y": y}, {}, "the data"),
        (batches_of(x, y), {}, r"\(4\), got batches of your own"),
    ]:
        model = load()
        before = states(model)
        with pytest.raises(InputError, match=words) as caught:
            fit(model, data, epochs=2, resume="ck", **options)
        assert caught.value.code == "other-loop"
        assert "model.load_state" in caught.value.hint
        assert states(model) == before
    assert Path("ck/checkpoint.safetensors").read_bytes() == whole
    with pytest.raises(InputError, match="resume='ck'"):
        fit(load(), {"x": x, "y": y}, checkpoint="ck")


def test_batches_that_do_not_come_again_are_an_error_and_not_the_end(load, x, y):
    class Once:
        """It has a length, and gives its batches once."""

        def __init__(self):
            self.left = iter(batches_of(x, y))

        def __len__(self):
            return 5

        def __iter__(self):
            return self.left

    with pytest.raises(InputError, match="expected 5 batches") as caught:
        fit(load(), Once(), epochs=2)
    assert caught.value.code == "too-few-batches"
    fit(load(), iter(batches_of(x, y)), checkpoint="ck")
    with pytest.raises(InputError, match="5 batches before the checkpoint, got 3"):
        fit(load(), iter(batches_of(x, y, 3)), resume="ck")
