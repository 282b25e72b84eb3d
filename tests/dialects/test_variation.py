"""What a sum reads is said to vary only if IREE does not find it to be one number.

Random masks and selections are summed in one compiled module: where the analysis
wrongly says that one varies, an element of each vector is added instead of all.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc import reference
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.pipeline import lower
from aotc.tracing.assembly import trace

SIZE, PROGRAMS = 25, 100
# F is an expression of floats, M of bools, C a number
FLOATS = (
    *("x", "y") * 3,
    *("b.astype('f32')", "m.astype('f32')", "np.broadcast_to(x[:1], x.shape)"),
    *(
        "np.negative(-F)",
        "(F - 0.0)",
        "(F * 1.0)",
        "np.minimum(F, np.inf)",
        "np.exp(F)",
    ),
    *("F.astype('f64').astype('f32')", "np.where(M, F, C)", "np.where(M, C, F)"),
    *("np.where(M, F, F)", "np.where(M, C, C)", "np.abs(F)", "(F + F)", "np.sort(F)"),
)
MASKS = (
    *("(F < F)", "(F <= F)", "(F == F)", "(F != F)") * 2,
    *("(F > C)", "(F <= C)", "(F == C)", "(F != C)", "(C > F)") * 2,
    *(
        "(F > np.nan)",
        "(np.nan >= F)",
        "(F == np.nan)",
        "(F < -np.inf)",
        "(F > -np.inf)",
    ),
    *("(b.astype('f32') < -200)", "(b.astype('f32') != 0.5)", "(m.astype('f32') < 0)"),
    *("np.logical_not(M)", "m", "m"),
    *("(M & M)", "(M | M)", "(i == i.astype('i64').astype('i32'))", "(i < 3)"),
)
NUMBERS = ("0.0", "1.0", "-1.0", "0.5", "1e-40", "-200.0", "300.0")
TEMPLATES = {"F": FLOATS, "M": MASKS, "C": NUMBERS}
SIMPLE = {"F": ("x", "y"), "M": ("(x > 0)", "m"), "C": NUMBERS}


def drawn(rng: random.Random, templates: Sequence[str], depth: int) -> str:
    """A template with expressions in the places of F, M and C."""
    below = TEMPLATES if depth > 1 else SIMPLE
    text = ""
    for letter in rng.choice(templates):
        text += drawn(rng, below[letter], depth - 1) if letter in below else letter
    return text


def programs(seed: int, count: int) -> dict[str, Callable[..., Any]]:
    """Entries that sum a random selection."""
    rng, entries = random.Random(seed), {}
    templates = (
        *("np.where(M, F, C)", "np.where(M, C, C)", "np.where(M, F, F)", "M") * 2,
        *("np.where(m, np.where(m, 1.0, F), 1.0)", "np.where(m, C, np.where(m, F, C))"),
    )
    while len(entries) < count:
        text = f"np.sum({drawn(rng, templates, rng.choice((2, 2, 3)))})"
        if text in entries:
            continue
        name, names = f"f{len(entries)}", {"np": anp}
        exec(f"def {name}(x, y, i, b, m):\n    return {text}", names)
        entries[text] = aotc.entry(
            x=aotc.Spec((SIZE,)),
            y=aotc.Spec((SIZE,)),
            i=aotc.Spec((SIZE,), "i32"),
            b=aotc.Spec((SIZE,), "i8"),
            m=aotc.Spec((SIZE,), "bool"),
        )(names[name])
    return entries


@pytest.mark.filterwarnings("ignore:.*is not used")
def test_sums_of_random_selections_add_all_elements():
    entries, target = programs(0, PROGRAMS), Target.parse("cpu")
    lowered = lower(trace(list(entries.values()), {}), target)
    (variant,) = compile_targets(lowered, [target])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    module = iree.load_vm_module(code, config)
    traced = trace(list(entries.values()), {})
    rng = np.random.default_rng(0)
    given = (
        rng.integers(-8, 9, SIZE).astype("f4") / 4,
        rng.integers(-8, 9, SIZE).astype("f4") / 4,
        rng.integers(-3, 9, SIZE).astype("i4"),
        rng.integers(-3, 9, SIZE).astype("i1"),
        rng.integers(0, 2, SIZE).astype("?"),
    )
    wrong = []
    for number, text in enumerate(entries):
        taken = [port.name for port in traced.entries[number].arguments]
        arrays = [given["xyibm".index(name)] for name in taken]
        (expected,) = reference.evaluate(traced.module, f"f{number}", arrays)
        found = np.asarray(getattr(module, f"f{number}")(*given))
        if not np.allclose(found, expected, 1e-5, 1e-5):
            wrong.append(f"{text}: {found} instead of {expected}")
    assert not wrong
    functions = str(lowered.module).split("func.func @")[1:]
    assert sum("barrier" not in each for each in functions) > PROGRAMS / 4
