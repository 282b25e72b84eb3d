"""Results of programs, by the reference evaluator."""

from typing import Any

import numpy as np

from aotc import reference
from aotc.passes import run_passes
from aotc.programs.program import Program


def results_of(program: Program, *arrays: np.ndarray) -> Any:
    """The results of the only entry, called `entry`; derivatives are written here."""
    run_passes(program.module, ["autodiff", "inline"])
    results = reference.evaluate(program.module, "entry", arrays)
    return program.entries[0].output_tree.unflatten(results)
