"""What calls count: by entry and code, refused and failed ones, bytes, and threads."""

import threading

import numpy as np
import pytest

from aotc.counting import counters
from aotc.errors import AotcError
from aotc.runtime.call_counts import FunctionCallCounters


class _Difference:
    """What the registry of the process has more than when this was made."""

    def __init__(self):
        self._before = self._samples()

    @staticmethod
    def _samples():
        return {
            (sample.family, *sorted(sample.labels.items())): sample.number
            for metric in counters.metrics()
            for sample in metric.samples
            if metric.family.kind != "gauge"
        }

    def __call__(self, family, **labels):
        wanted = set(labels.items())
        return sum(
            number - self._before.get(key, 0)
            for key, number in self._samples().items()
            if key[0] == family and wanted <= set(key[1:])
        )


@pytest.fixture
def specialized(manifest, files, signer, trust, tmp_path):
    from aotc.artifacts import write_bundle
    from aotc.runtime import load

    (echo,) = (e for e in manifest["entry_points"] if e["name"] == "echo")
    echo["specializations"] = [{"export": "echo__k_4", "sizes": {"k": 4}}]
    bundle = write_bundle(tmp_path, manifest, files, signer)
    return load(bundle, trust=trust, threads=1)


def test_counts_calls_by_entry_and_code_with_bytes_and_elements(specialized):
    more = _Difference()
    for size in (4, 4, 0, 3, 1):
        specialized.echo(x=np.ones(size, np.float32))
    specialized.train(x=np.ones(3, np.float32), scale=2.0)
    model = {"model": "small", "version": "1.0.0"}
    assert more("calls", entry="echo", variant="k=4", path="compiled", **model) == 2
    assert more("calls", entry="echo", variant="general", **model) == 3
    assert more("calls", entry="train", target=specialized.variant.id) == 1
    assert more("call_duration_seconds", entry="echo", variant="k=4") == 2
    assert more("transferred_bytes", entry="echo", direction="in") == 12 * 4
    assert more("transferred_bytes", entry="echo", direction="out") == 12 * 4
    assert more("transferred_bytes", entry="train", direction="in") == 3 * 4 + 4
    assert more("input_elements", entry="echo") == 12
    assert more("synchronizations", entry="echo") == 5
    assert more("padding_elements") == 0


def test_bytes_are_those_of_the_dtypes(model):
    more = _Difference()
    arrays = model.manifest.entry_points["same"].inputs
    assert [leaf.dtype for leaf in arrays] == ["bool", "u8", "f16", "bf16", "i64"]
    bits = [np.zeros(2, bool), np.zeros(2, np.uint8)]
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    halves = (np.zeros(2, np.float16), np.zeros(3, bf16))
    model.same(parts={"bits": bits, "halves": halves, "l": 7})
    for direction in ("in", "out"):
        moved = more("transferred_bytes", entry="same", direction=direction)
        assert moved == 2 + 2 + 4 + 6 + 8


def test_a_refused_call_counts_for_its_guard_and_not_as_a_call(model):
    more = _Difference()
    x = np.ones((2, 4), np.float32)
    for wrong in (x[0], x.astype("f8"), x[:, :3], np.ones((65, 4), np.float32)):
        with pytest.raises(AotcError) as caught:
            model.predict(x=wrong)
        assert more("guard_failures", entry="predict", guard=caught.value.guard) == 1
    assert more("guard_failures") == 4
    assert more("calls") == more("call_failures") == 0


def test_reading_and_writing_states_are_no_calls(model):
    more = _Difference()
    model.write_state(model.read_state())
    assert more("calls") == 0


def test_no_call_is_lost_between_threads_and_figures_outlive_the_model(bundle, trust):
    from aotc.runtime import load

    more = _Difference()
    models = [load(bundle, trust=trust, threads=1) for _ in range(2)]

    def call(model):
        for size in range(150):  # more shapes together than a function remembers
            for x in (np.ones(size, np.float32), np.ones(size + 150, np.float32)):
                model.echo(x=x)

    threads = [threading.Thread(target=call, args=(m,)) for m in models * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del models, threads
    assert more("calls", entry="echo") == 6 * 300
    assert more("call_duration_seconds", entry="echo") == 6 * 300
    assert more("input_elements", entry="echo") == 6 * sum(range(300))


def test_padding_is_what_is_computed_beyond_what_is_given():
    labels = {"model": "m", "version": "1", "target": "t", "entry": "padded"}
    counts = FunctionCallCounters(labels)
    more = _Difference()
    padded = counts.for_shapes("padded", (4, 1), ((3, 2), ()), ((8, 2), ()))
    for _ in range(3):
        padded.add(1000, [np.zeros((8, 2))])
    assert more("padding_elements", entry="padded") == 3 * 10
    assert more("input_elements", entry="padded") == 3 * 7
    assert more("transferred_bytes", entry="padded", direction="in") == 3 * 25
