"""The term of a region, computed as it is, gives what the region's ops give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aotc import dtypes, reference
from aotc.dialects.functions import functions_of
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, evaluate_size
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import PlannedKernel
from aotc.kernels.reference import evaluate
from aotc.kernels.terms import term_of
from aotc.pipeline import build
from aotc.program_files import read_program
from aotc.target import Target

MODELS = {
    "contractions.py": {"contraction"},
    "windows.py": {"depthwise", "pooling"},
    "integers.py": {"contraction"},
    "transposes.py": {"transpose"},
    "rows.py": {"rows"},
    "symbolic.py": {"contraction"},
}


@pytest.mark.parametrize("model", MODELS)
def test_terms_of_regions_compute_what_their_ops_do(model: str, tmp_path: Path) -> None:
    target, rng = Target.parse("x86_64-v4"), np.random.default_rng(0)
    source = Path(__file__).parent / model
    build(source, targets=[target], dump=tmp_path, stop_after="regions")
    module = read_program(tmp_path / "x86_64-v4" / "regions.mlir").module
    met = set()
    for name, function in functions_of(module).items():
        kernel = PlannedKernel.of(function, FAMILIES)
        if kernel is None:
            continue
        contracts = contracts_of(function)
        with function.context, known_contracts(contracts):
            term = term_of(function, kernel.anchor)
            if term is None:
                continue
            symbols = [min(c.min + 2, c.max or c.min + 2) for c in contracts]
            arguments = [*function.entry_block.arguments]
            kinds = [Tensor.of(value) for value in arguments]
            given = []
            for kind in kinds:
                shape = [evaluate_size(n, symbols) for n in kind.shape]
                drawn = rng.integers(-3, 4, shape)
                drawn = abs(drawn) if kind.dtype in dtypes.UNSIGNED else drawn
                given.append(drawn.astype(dtypes.to_numpy(kind.dtype)))
            found = evaluate(term, dict(zip(arguments, given, strict=True)), symbols)
        wanted = reference.evaluate(module, name, given)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                mine.astype("f8"), theirs.astype("f8"), rtol=1e-4, atol=1e-4
            )
        met.add(kernel.name)
    assert met >= MODELS[model]
