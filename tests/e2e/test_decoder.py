"""Token by token, with its past in a State, a decoder gives the scores of the whole."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.machine.target import Target
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).with_name("decoder_model.py")
LEVELS = ("x86_64-v3", "x86_64-v4")
TOKENS = np.random.default_rng(1).integers(50, size=(2, 40)).astype("i4")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(home))
        targets = [Target.parse(level) for level in LEVELS]
        output = tmp_path_factory.mktemp("out")
        asked = {"targets": targets, "self_check": "off"}
        yield build(MODEL, output=output, **asked).bundle


@pytest.fixture(params=LEVELS)
def model(bundle, request):
    """Freshly loaded: an empty past."""
    require_runs_here(Target.parse(request.param))
    return aotc.load(bundle, target=request.param)


def test_each_step_gives_the_scores_of_the_whole_sequence(model):
    whole = model.predict(tokens=TOKENS)
    for position in range(TOKENS.shape[1]):
        token = TOKENS[:, position : position + 1]
        found = model.decode(tokens=token, position=np.int32(position))
        np.testing.assert_allclose(found, whole[:, position], 1e-4, 1e-4)


def test_generated_tokens_are_those_of_the_whole_sequence(model):
    known, sequence = 5, TOKENS.copy()
    for position in range(known - 1):
        token = sequence[:, position : position + 1]
        model.decode(tokens=token, position=np.int32(position))
    for position in range(known - 1, 20):
        token = sequence[:, position : position + 1]
        scores = model.decode(tokens=token, position=np.int32(position))
        whole = model.predict(tokens=sequence)[:, position]
        assert np.argmax(scores, -1).tolist() == np.argmax(whole, -1).tolist()
        sequence[:, position + 1] = np.argmax(scores, -1)


def test_a_step_writes_one_position_of_the_past(model):
    before = model.read_state("cache")
    model.decode(tokens=TOKENS[:, :1], position=np.int32(17))
    for old, new in zip(before, model.read_state("cache"), strict=True):
        for name in ("key", "value"):
            changed = np.flatnonzero((old[name] != new[name]).any((0, 2, 3)))
            assert changed.tolist() == [17]
