"""Small programs that IREE computes wrongly, or refuses, unless lowered with care.

Every program is compiled in one module and compared with the reference evaluator.
"""

from collections.abc import Callable
from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc import reference
from aotc.backend import compile_targets
from aotc.frontends.assembly import trace
from aotc.passes import run_passes
from aotc.pipeline import lower
from aotc.target import Target

rng = np.random.default_rng(0)
b = aotc.Dim("b", min=1)

Program = tuple[Callable[..., Any], aotc.Spec]
PROGRAMS: dict[str, Program] = {}


def program(*shape: Any, dtype: str = "f32") -> Callable[[Any], Any]:
    """Adds a function of one array of this shape to the programs."""

    def add(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, aotc.Spec(shape, dtype))
        return function

    return add


# ---- Note [strided reads]: a slice that ends at the end, and another reader ---------


@program(3, 5)
def strided_slice_beside_its_source(x):
    h = x * 2
    return anp.concatenate([anp.sin(h[:, ::2]), h], axis=1)


@program(3, 5)
def strided_slices_of_one_source(x):
    h = x * 2
    return anp.sin(h[:, ::2]), h[:, ::4] + 1, h[:, 1::2], h[::2], h[:, ::-2], h


@program(5)
def strided_slice_of_a_vector(x):
    h = anp.tanh(x)
    return h[::2] * 3, h[:, None] * h


@program(3, 5)
def strided_update_beside_its_source(x):
    h = x * 2
    return h.at[:, ::2].add(1.0), h.at[:, ::2].set(1.0) * h, h


@program(3, 5)
def gradients_of_strided_updates(x):
    def loss(x):
        h = x * 2
        return anp.sum(anp.sin(h.at[:, ::2].multiply(3.0) * h[:, ::-1]))

    return aotc.grad(loss)(x), aotc.grad(lambda x: loss(x) + anp.sum(x[:, ::2]))(x)


@program(b, 5)
def strided_slice_of_symbolic_rows(x):
    h = x * 2
    return anp.sin(h[:, ::2]), h


# ---- compiled once, each compared ---------------------------------------------------


@pytest.fixture(scope="module")
def modules() -> tuple[Any, Any]:
    """The programs for the reference evaluator, and compiled."""
    entries = [aotc.entry(x=spec)(function) for function, spec in PROGRAMS.values()]
    evaluated = trace(entries, {})
    run_passes(evaluated.module, ["autodiff", "inline"])
    (variant,) = compile_targets(lower(trace(entries, {})), [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    return evaluated.module, iree.load_vm_module(code, config)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1, 7])
def test_compiled_program_equals_its_reference(name, size, modules):
    evaluated, compiled = modules
    spec = PROGRAMS[name][1]
    shape = [n if isinstance(n, int) else size for n in spec.shape]
    x = rng.normal(size=shape).astype(aotc.dtypes.to_numpy(spec.dtype))
    found = getattr(compiled, name)(x)
    found = found if isinstance(found, (list, tuple)) else [found]
    for got, want in zip(found, reference.evaluate(evaluated, name, [x]), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, 1e-5, 1e-5)
