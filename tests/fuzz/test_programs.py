"""Random programs compute, compiled, what the reference evaluator computes.

`programs.json` holds what `python -m benchmarks.fuzz --write` has drawn, `kept/` the
reduced programs of failures that were found and fixed.
"""

import json
from pathlib import Path

import pytest

from benchmarks.fuzz.checking import check
from benchmarks.fuzz.programs import from_json
from benchmarks.fuzz.running import Runner
from benchmarks.fuzz.source import model_source

HERE = Path(__file__).parent


def drawn():
    rows = json.loads((HERE / "programs.json").read_text(encoding="utf-8"))
    for data in rows:
        program = from_json(data)
        yield f"{program.seed} {program.variant}", program


def kept():
    for file in sorted((HERE / "kept").glob("*.json")):
        yield file.stem, from_json(json.loads(file.read_text(encoding="utf-8")))


PROGRAMS = dict([*drawn(), *kept()])


@pytest.fixture(scope="module")
def verdicts():
    """What came of each program, all compiled together."""
    programs = list(PROGRAMS.values())
    with Runner() as runner:
        found = {id(each.program): each for each in check(programs, runner)}
    return {name: found[id(program)] for name, program in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_the_reference_does(name, verdicts):
    checked = verdicts[name]
    assert checked.failure is None, (
        f"{checked.failure}\n{model_source(checked.program)}"
    )


def test_the_sample_holds_fifty_programs_that_rounding_leaves_decided(verdicts):
    elements = sum(each.elements for each in verdicts.values())
    assert len(list(drawn())) == 50
    assert sum(each.open for each in verdicts.values()) < elements / 4
