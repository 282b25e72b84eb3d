"""Make the calls in a file with the IREE runtime of this process, whatever its release.

    PYTHONPATH=UNPACKED_WHEEL python -m benchmarks.compat.run_calls BUNDLE VARIANT
                                                                CALLS [PUBLIC_KEY]

CALLS is a pickled list of (entry, leaves of its inputs). What each returns and leaves
in the states goes to standard output, pickled. The loader's own question whether this
runtime fits is left out: here the answer is found by trying.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from aotc.artifacts.pack import read_bundle
from aotc.artifacts.selection import Selection
from aotc.core.pytree import flatten
from aotc.runtime import engine, loader
from aotc.runtime.model import Model


def load_unasked(path: str, variant_id: str, trust: str | None) -> Model:
    """Load a variant without the check of the table of runtimes."""
    bundle = read_bundle(path, trust, trust is None)
    variant = bundle.manifest.variants[variant_id]
    device = engine.device(variant.backend, 1)
    code = loader._map(bundle, variant, device, exchange=None, is_mapped=False)
    return Model(bundle.manifest, variant, code, Selection(variant, "optimal", ()))


def made(model: Model, entry: str, leaves: list[Any]) -> list[Any]:
    """Make a call; return its results and the states after it, as arrays."""
    outputs = [leaf.copy() for leaf in model.entry(entry).call_flat(leaves)]
    states = [
        leaf.copy()
        for name in model.entries[entry].spec.updates
        for leaf in flatten(model.read_state(name))[0]
    ]
    return outputs + states


def main() -> None:
    """Make the calls that the command line names."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # models print, too
    trust = sys.argv[4] if len(sys.argv) > 4 else None
    model = load_unasked(sys.argv[1], sys.argv[2], trust)
    calls = pickle.loads(Path(sys.argv[3]).read_bytes())
    results = [made(model, entry, leaves) for entry, leaves in calls]
    pickle.dump((engine.iree_version(), results), answers)
    answers.flush()


if __name__ == "__main__":
    main()
