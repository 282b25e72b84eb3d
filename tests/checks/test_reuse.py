"""A self-check is made once for the same code on such a machine, and says the same."""

from dataclasses import replace

import pytest

from aotc import importers, pipeline
from aotc.artifacts.manifest import FILE
from aotc.checks import process, reuse
from aotc.core import options
from aotc.core.cache import arrays_digest
from aotc.dialects import graph
from aotc.errors import SetupError
from aotc.machine import processor
from aotc.machine.target import Target

MODEL = """
import aotc
import aotc.numpy as np
import numpy

state = aotc.State({"w": numpy.float32([1, 2, 3])})


@aotc.entry(x=aotc.Spec(("rows", 3), "f32"))
def predict(x):
    return np.tanh(x).sum(0)


@aotc.entry(x=aotc.Spec((3,), "f32"))
def train_step(state, x):
    return {"w": state["w"] - 0.1 * x}, (state["w"] * x).sum()
"""


@pytest.fixture
def build(tmp_path):
    """Builds a source, with a cache for this test alone."""

    def build(source=MODEL):
        file = tmp_path / "model.py"
        file.write_text(source)
        target = Target.parse("cpu")
        return pipeline.build(file, output=tmp_path, targets=[target], force=True)

    home = options.override("AOTC_HOME", str(tmp_path / "home"))
    with home, options.override("AOTC_CACHE", str(tmp_path / "cache")):
        yield build


def test_what_was_checked_once_is_not_checked_again_and_said_alike(build, monkeypatch):
    first = build()
    manifest = (first.bundle / FILE).read_bytes()
    assert first.self_check_reuse.startswith("miss")
    monkeypatch.delattr(process.CompiledProcess, "call")
    second = build(f"{MODEL}\n# a comment changes nothing that is computed\n")
    assert second.self_check_reuse == "hit"
    assert second.self_checks == first.self_checks
    assert second.to_json()["self_check"] == first.to_json()["self_check"]
    monkeypatch.undo()
    other = build(MODEL.replace("[1, 2, 3]", "[1, 2, 4]"))
    assert other.self_check_reuse == "miss (changed: archives, weights and states)"
    assert build().self_check_reuse == "hit"
    assert (first.bundle / FILE).read_bytes() == manifest


def test_a_check_that_ran_out_of_memory_is_made_again(build, monkeypatch):
    def give_up(*_, **__):
        raise SetupError("out-of-memory", "there is no memory for it")

    monkeypatch.setattr(process.CompiledProcess, "call", give_up)
    assert not any(row.checked for row in build().self_checks)
    monkeypatch.undo()
    assert all(row.checked for row in build().self_checks)


def test_other_code_and_other_machines_are_checked_for_themselves(build, monkeypatch):
    variants = build().variants
    program = importers.load(build().bundle.parent / "model.py")

    def parts(full=False):
        source = reuse.source_parts(
            program, program.module, arrays_digest(program.parameters)
        )
        return dict(reuse.recipe_of(program, source, variants, ["a"], full=full).parts)

    before = parts()
    assert parts() == before
    assert {**before, **parts(full=True)} == {**before, "mode": "full"}
    monkeypatch.setattr(processor, "cpu_features", lambda: ("avx2",))
    assert parts()["machine"] != before["machine"]
    monkeypatch.undo()
    with options.override("AOTC_PYTHONS", "aarch64=python"):
        assert parts()["machine"] != before["machine"]
    program.numerics = "relaxed"
    assert parts()["numerics"] != before["numerics"]
    variants = [replace(variants[0], vmfb=variants[0].vmfb + b"\0")]
    assert parts()["code"] != before["code"]


def test_parameters_that_a_pass_made_are_checked_for_themselves(build):
    report = build()
    program = importers.load(report.bundle.parent / "model.py")

    def parts(archive):
        source = reuse.source_parts(
            program, program.module, arrays_digest(program.parameters)
        )
        given = program, source, report.variants, [archive]
        return dict(reuse.recipe_of(*given, full=False).parts)

    own, doubled = parts("digest of own"), parts("digest of doubled")
    assert own != doubled
    assert own["weights and states"] == doubled["weights and states"]


def test_a_graph_is_printed_without_being_verified(tmp_path, monkeypatch):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    program = importers.load(file, ())
    verified, signature_of = [], graph.signature_of

    def note(op, cls):
        verified.append(op)
        return signature_of(op, cls)

    monkeypatch.setattr(graph, "signature_of", note)
    reuse.source_parts(program, program.module, "")
    assert not verified
    assert program.module.operation.verify()
    assert verified  # so the verifier would have been seen
