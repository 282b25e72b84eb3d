"""Compiled collectives on four devices of one process, beside the reference."""

from __future__ import annotations

import numpy as np
import pytest

import aotc
from aotc import reference, training
from aotc.checks.certificate import certify
from aotc.checks.checked_devices import CheckedDevicesEntry
from aotc.checks.comparable import comparable_entries
from aotc.checks.compiled import DevicesBundle
from aotc.checks.samples import check_items_of
from aotc.checks.trials import trial_of
from aotc.checks.work import WorkBudget
from aotc.core.pytree import flatten
from aotc.dialects import context
from aotc.errors import InputError
from aotc.importers import load
from aotc.passes import run_passes
from aotc.runtime import load_devices
from tests.parallel.conftest import MODEL


@pytest.fixture(scope="module")
def graph():
    program = load(MODEL)
    run_passes(program.module, ["autodiff", "inline"])
    return program


def on_reference(program, name, inputs):
    """What the reference evaluator returns on each device, and the leaves of states."""
    entry = program.entry(name)
    given = [
        [
            device[port.name] if port.kind == "input" else program.parameters[port.name]
            for port in entry.arguments
        ]
        for device in inputs
    ]
    return reference.evaluate_devices(program.module, name, given, "data")


def on_devices(models, name, inputs):
    names = [leaf.name for leaf in models.manifest.entry_points[name].inputs]
    return models.call(name, [[device[x] for x in names] for device in inputs])


def drawn(rng, **shapes):
    return [
        {
            name: rng.standard_normal(shape).astype("f4")
            for name, shape in shapes.items()
        }
        for _ in range(4)
    ]


def test_each_collective_and_its_adjoint_computes_what_the_reference_does(
    bundle, graph
):
    models, rng = load_devices(bundle), np.random.default_rng(0)
    inputs = drawn(rng, x=(3, 8))
    for device in inputs:
        device["k"] = rng.integers(0, 256, 5).astype("u1")
    inputs[2]["x"][0, :3] = np.nan, np.inf, -np.inf
    for name, given in (
        ("exchange", inputs),
        ("exchange", [{**device, "x": device["x"][:0]} for device in inputs]),
        ("adjoints", drawn(rng, x=(2, 8), w=(2, 8))),
    ):
        wanted = on_reference(graph, name, given)
        for found, expected in zip(
            on_devices(models, name, given), wanted, strict=True
        ):
            for ours, theirs in zip(found, expected, strict=True):
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
                ours, theirs = (np.asarray(x, "f8") for x in (ours, theirs))
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_network_that_is_split_computes_what_one_device_computes(bundle):
    models = load_devices(bundle)
    x = np.random.default_rng(2).standard_normal((2, 5, 8)).astype("f4")
    y, grads = models.first.whole(x=x)
    parts = [
        models.first.entry("split").build(leaves)
        for leaves in on_devices(models, "split", [{"x": x}] * 4)
    ]
    axes = {"up": 1, "down": 0, "q": 1, "k": 1, "v": 1, "o": 0}
    for part, _ in parts:
        np.testing.assert_allclose(part, y, rtol=1e-5, atol=1e-6)
    for name, axis in axes.items():
        joined = np.concatenate([each[name] for _, each in parts], axis)
        np.testing.assert_allclose(joined, grads[name], rtol=1e-4, atol=1e-6)


def test_a_call_without_its_devices_says_what_is_missing_and_changes_nothing(bundle):
    model = aotc.load(bundle)
    before = [x.tobytes() for x in flatten(model.read_state())[0]]
    with pytest.raises(InputError, match="4 devices along 'data'") as failure:
        model.step(x=np.ones((2, 3), "f4"), y=np.ones((2, 2), "f4"))
    assert failure.value.code == "needs-devices"
    with pytest.raises(InputError, match="4 devices along 'data'") as failure:
        training.fit(model, "data.npz", entry="step", batch_size=8)
    assert failure.value.code == "needs-devices"
    assert not failure.value.message.startswith("step 1")  # none has begun
    assert before == [x.tobytes() for x in flatten(model.read_state())[0]]
    assert model.whole(x=np.zeros((2, 5, 8), "f4"))[0].shape == (2, 5, 8)


def test_devices_with_inputs_of_other_shapes_or_other_entries_do_not_wait(bundle):
    models = load_devices(bundle)
    rows = [[np.ones((n, 8), "f4"), np.ones(5, "u1")] for n in (2, 2, 3, 2)]
    with pytest.raises(InputError) as failure:
        models.call("exchange", rows)
    assert failure.value.code == "devices-diverge"
    with pytest.raises(InputError) as failure:
        models.call(
            "exchange", [*rows[:2], rows[0], [np.ones((2, 7), "f4"), rows[0][1]]]
        )
    assert failure.value.code == "shape-mismatch"  # that of the one at fault
    assert len(models.call("exchange", [rows[0]] * 4)) == 4
    for missing in ([rows[0]] * 3, [rows[0][:1]] * 4):
        with pytest.raises(InputError, match=r"4 devices .* \(x, k\)") as failure:
            models.call("exchange", missing)
        assert failure.value.code == "input-structure"


def test_a_step_that_fails_half_way_leaves_the_states_of_all_devices(bundle):
    models = load_devices(bundle)
    data = {"x": np.ones((8, 3), "f4"), "y": np.ones((8, 2), "f4")}
    training.fit(models, data, entry="step", steps=2, batch_size=4)
    before = [x.tobytes() for x in flatten(models.first.read_state())[0]]
    devices, count = models.devices, 0
    exchange = devices.exchange

    def fail_at_the_second(place, asked, x):
        nonlocal count
        count += place == 0
        if count == 2:
            raise InputError("assertion-failed", "this device has had enough")
        return exchange(place, asked, x)

    devices.exchange = fail_at_the_second
    with pytest.raises(InputError, match="had enough"):
        training.fit(models, data, entry="step", batch_size=4)
    for model in models:
        assert before == [x.tobytes() for x in flatten(model.read_state())[0]]


def test_states_that_come_to_differ_are_found_before_they_are_kept(bundle):
    models = load_devices(bundle)
    with pytest.raises(InputError, match=r"state.params.c of device 1") as failure:
        training.fit(
            models,
            {"x": np.ones((8, 2), "f4")},
            entry="forgets_to_reduce",
            batch_size=8,
            checkpoint="ck",
        )
    assert failure.value.code == "states-differ"


def test_a_nan_of_several_devices_is_not_to_be_searched_as_that_of_one(bundle):
    data = {"x": np.full((4, 3), np.nan, "f4"), "y": np.ones((4, 2), "f4")}
    with pytest.raises(InputError, match="is nan in step 1") as failure:
        training.fit(load_devices(bundle), data, entry="step", batch_size=4)
    assert "Axis of 1 device" in failure.value.hint


def test_rows_that_devices_cannot_divide_are_refused(bundle):
    models = load_devices(bundle)
    data = {"x": np.ones((12, 3), "f4"), "y": np.ones((12, 2), "f4")}
    for given, options in (
        (data, {"batch_size": 6}),
        ([data | {"x": data["x"][:6]}], {}),
    ):
        with pytest.raises(InputError) as failure:
            training.fit(models, given, entry="step", **options)
        assert failure.value.code == "batch-size"


class OtherDevices:
    """Compiled devices whose outputs are those of others."""

    def __init__(self, bundle, first):
        target = load_devices(bundle).first.variant.id
        self._call = DevicesBundle(str(bundle), target).load()
        self._first = first

    def call(self, entry, arrays, before, after, seconds=None):
        outputs, states = self._call(entry, arrays, before, after)
        shift = self._first * len(outputs) // 4
        return outputs[shift:] + outputs[:shift], states


def test_a_self_check_compares_what_each_device_computes(bundle, graph):
    for name in ("step", "exchange"):
        with context():
            subject = CheckedDevicesEntry(graph, graph.module, graph.entry(name))
            items = check_items_of(graph, graph.module, subject.entry)
            trial = trial_of(subject, items[1], WorkBudget.usual())
            verdicts = [
                each.passed
                for first in (0, 1)
                for row in trial.judge(
                    [
                        *subject.compiled_results(
                            trial.calls, OtherDevices(bundle, first)
                        )
                    ],
                )
                for each in row
            ]
        right, others = np.split(np.array(verdicts), 2)
        assert right.all()
        assert others.all() == (name == "step")  # whose outputs are equal on all


def test_parity_leaves_out_what_several_devices_compute_and_says_so(graph):
    with pytest.warns(UserWarning, match="whole is compared .* not adjoints, exchange"):
        (entry,) = comparable_entries(graph)
    assert entry.name == "whole"
    with (
        pytest.raises(InputError, match=r"several devices .* \(split\)"),
        context(),
    ):
        comparable_entries(load(MODEL, entries=["split"]))


def test_gradients_that_are_computed_with_collectives_are_not_certified():
    with pytest.raises(InputError, match="gradients that one device computes"):
        certify(load(MODEL, entries=["split"]))
