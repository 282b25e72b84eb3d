"""Fuzz the loader with bundles whose manifest is changed and signed again.

    python -m benchmarks.fuzz.manifests BUNDLE --seconds 60

What a good signature vouches for may still be wrong: a packager with a fault, or two
versions of one. Each mutant is loaded, its entries are called on arrays of the kinds
that the manifest promises, and its states are read and written. Anything but a result
or an error of aotc is a failure, and so is the death of the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from aotc import runtime
from aotc.artifacts import Trust, keys, pack, sign, strict_json
from aotc.artifacts.manifest import FILE, SIGNATURE_FILE, Leaf, Symbol
from aotc.artifacts.shapes import SizeExpression
from aotc.core.dtypes import to_numpy
from aotc.errors import AotcError

# what takes the place of a value, beside values of other places in the manifest
ODD = [
    None, True, False, 0, 1, 2, 7, -1, 2**31, 2**53, 0.5, "", "a", "x", "é", "\x00",
    "n", "n+1", "2*n", "n*n", "n//0", "f32", "i32", "bool", "bf16", "f64", "cpu",
    [], {}, [None], {"dict": {}}, {"list": [0]}, {"tuple": [0, 1]}, "dynamic", "pad",
    "route:f", "callback:f", "error", "bucket", "llvm-cpu", "vmvx", "../x",
]  # fmt: skip
_MOST_ELEMENTS = 1 << 16  # of an array that a mutant asks for


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value nested in a JSON value."""
    yield path
    children = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from places(child, (*path, key))


def mutate(manifest: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a copy of a manifest with one to three random changes."""
    changed = deepcopy(manifest)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        known = [path for path in places(changed) if path and path[0] != "schema"]
        path = chance.choice(known)
        with suppress(IndexError, KeyError, TypeError):
            _change(changed, path, known, chance)
    return changed


def _change(
    manifest: dict[str, Any],
    path: tuple[Any, ...],
    known: list[tuple[Any, ...]],
    chance: random.Random,
) -> None:
    """Change one value of a manifest in place: drop, repeat, swap, or replace it."""
    owner, key = _at(manifest, path[:-1]), path[-1]
    alike = [each for each in known if each[-1] == key and len(each) == len(path)]
    other = chance.choice(alike)
    match chance.choice(["odd", "drop", "repeat", "swap", "other", "exchange"]):
        case "odd":
            owner[key] = deepcopy(chance.choice(ODD))
        case "drop":
            del owner[key]
        case "repeat" if isinstance(owner, list):
            owner.insert(chance.randint(0, len(owner)), deepcopy(owner[key]))
        case "swap" if isinstance(owner, list):
            chance.shuffle(owner)
        case "exchange":
            place = _at(manifest, other[:-1])
            owner[key], place[key] = place[key], owner[key]
        case _:
            owner[key] = deepcopy(_at(manifest, other))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path of a JSON value."""
    for key in path:
        value = value[key]
    return value


def write_signed(bundle: Path, manifest: dict[str, Any], signer: keys.Signer) -> None:
    """Write a manifest into a bundle, and a valid signature over its files.

    The list of files in the manifest stays as it is, so that it too may be wrong.
    """
    raw = strict_json.dump(manifest)
    (bundle / FILE).write_bytes(raw)
    digests = {}
    with suppress(KeyError, TypeError):
        digests = {each["path"]: each["sha256"] for each in manifest["files"]}
    digests[FILE] = hashlib.sha256(raw).hexdigest()
    with suppress(TypeError, ValueError, AttributeError):  # a digest that is none
        signed = sign.sign(bundle.name, digests, signer)
        (bundle / SIGNATURE_FILE).write_bytes(signed)


def use(bundle: Path, trust: Trust, seed: int) -> None:
    """Load a bundle, call its entries, read and write its states; raise if refused.

    Raises:
        AotcError: it is refused.
    """
    pack.read_bundle(bundle, trust).check()
    model = runtime.load(bundle, trust=trust, threads=1, fallback=True)
    chance = np.random.default_rng(seed)
    for state in model.manifest.states:
        model.write_state(model.read_state(state), state)
    for entry in model.entries.values():
        for size in (1, 3, 8, 9):
            try:
                leaves = _arrays(
                    entry.spec.inputs, model.manifest.symbols, size, chance
                )
            except (ValueError, OverflowError):  # sizes that no call has
                continue
            with suppress(AotcError):
                entry.build(entry.call_flat(leaves))


def _arrays(
    leaves: tuple[Leaf, ...],
    symbols: dict[str, Symbol],
    size: int,
    chance: np.random.Generator,
) -> list[Any]:
    """Draw input arrays with all symbols set to a size."""
    found = []
    for leaf in leaves:
        shape = [
            each
            if isinstance(each, int)
            else SizeExpression.parse(each).value(dict.fromkeys(symbols, size))
            for each in leaf.shape
        ]
        if any(n < 0 for n in shape) or np.prod(shape, dtype=float) > _MOST_ELEMENTS:
            raise ValueError
        found.append(chance.integers(0, 2, shape).astype(to_numpy(leaf.dtype)))
    return found


class Fuzzer:
    """Makes mutants of one bundle's manifest and loads them.

    Args:
        bundle: to begin from; its code runs on this machine.
        folder: for the mutants.
        seed: of the mutations.
    """

    def __init__(self, bundle: Path, folder: Path, seed: int) -> None:
        self.work = folder / bundle.name
        shutil.copytree(bundle, self.work)
        self.original = json.loads((bundle / FILE).read_bytes())
        # so that mutants may have variants of a key, a channel and a form
        self.original["channel"] = "release"
        self._chance = random.Random(seed)
        self._signer = keys.generate()
        self._trust = Trust.of(self._signer.public_pem)
        self.codes: Counter[str] = Counter()

    def check_original(self) -> None:
        """Raise unless the unchanged bundle is accepted."""
        write_signed(self.work, self.original, self._signer)
        use(self.work, self._trust, 0)

    def step(self) -> str | None:
        """Load one mutant; return a description of a crash, or None."""
        mutant = mutate(self.original, self._chance)
        write_signed(self.work, mutant, self._signer)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(self.work, self._trust, self._chance.randrange(1 << 30))
        except AotcError as error:
            self.codes[error.code] += 1
            return None if len(str(error)) < 3000 else f"a message of {len(str(error))}"
        except Exception:  # noqa: BLE001  what is looked for
            return traceback.format_exc()
        self.codes["taken"] += 1
        return None


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for manifests that fail")
    asked = parser.parse_args(arguments)
    failures, done, start = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(asked.bundle, Path(folder), asked.seed)
        fuzzer.check_original()
        while time.monotonic() - start < asked.seconds:
            wrong = fuzzer.step()
            done += 1
            if wrong is not None:
                failures += 1
                print(wrong)
                if asked.keep:
                    asked.keep.mkdir(parents=True, exist_ok=True)
                    shutil.copy(fuzzer.work / FILE, asked.keep / f"{done}.json")
    print(f"{done} mutants, {failures} wrong; {dict(fuzzer.codes.most_common())}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
