"""Functions made of several ops give, compiled, what they give at once."""

import iree.runtime as iree
import numpy as np

import aotc
import aotc.numpy as anp
from aotc import complexes, fft, nn, reference
from aotc.backend import compile_targets
from aotc.core.pytree import flatten
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

rng = np.random.default_rng(0)


def _positive(row):
    """The first two of the elements above 0, and 1 for each that is missing."""
    return anp.compress(row > 0, row, size=2, fill_value=1.0)


# Functions of x: f32[n, 4], k: i32[6] and a signal s: f32[2, 40].
FUNCTIONS = {
    "found": lambda x, k, s: (
        anp.argwhere(s > 0, size=7, fill_value=-1),
        anp.extract(k > 0, k, size=5, fill_value=9),
        anp.where(x > 0, size=3, fill_value=-1),
        anp.compress(x[:, 0] > 0, x, 0, size=5, fill_value=2.0),
        anp.unique(x, size=x.size, return_inverse=True),
    ),
    "found for each": lambda x, k, s: (
        aotc.vmap(lambda row: anp.extract(row > 0, row * row, size=3))(x),
        aotc.grad(lambda x: anp.sum(anp.extract(x > 0, x, size=4) ** 2))(x),
        aotc.vmap(aotc.grad(lambda row: anp.sum(_positive(row) ** 2)))(x),
        aotc.jvp(lambda x: anp.compress(x[:, 0] > 0, x * x, 0, size=4), [x], [x])[1],
        x[anp.nonzero(x > 0, size=2)],
    ),
    "distinct": lambda x, k, s: anp.unique(
        k, return_index=True, return_inverse=True, return_counts=True, size=4
    ),
    "lines": lambda x, k, s: (
        anp.interp(x, anp.linspace(0, 2, 4), [1.0, 0.0, 2.0, 5.0], left=-3.0),
        anp.interp(x, [0.4, 0.1], [1.0, 2.0], period=0.7),
        anp.unwrap(x * 4),
    ),
    "together": lambda x, k, s: (
        anp.cov(x, rowvar=False),
        anp.corrcoef(x, rowvar=False),
        anp.vecdot(x, x, axis=0),
        anp.matvec(x.T @ x, x),
        anp.unstack(x, axis=1),
    ),
    "short times": lambda x, k, s: (
        fft.stft(s, 8, 4, window=anp.hanning(9)[:-1]),
        fft.istft(fft.stft(s, 8, 4), 8, 4),
    ),
    "functions of complex numbers": lambda x, k, s: [
        getattr(complexes, name)(complexes.Complex(x, x[:, ::-1]))
        for name in (
            *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt"),
            *("cos", "cosh", "exp2", "expit", "expm1", "log", "log10", "log1p", "log2"),
            *("rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh"),
        )
    ],
    "powers of complex numbers": lambda x, k, s: (
        complexes.power(complexes.Complex(x, x[:, ::-1]), 3),
        complexes.power(complexes.Complex(x, x[:, ::-1]), 0.5 - 1j),
    ),
    "margins": lambda x, k, s: (
        nn.soft_margin_loss(x, anp.sign(x)),
        nn.triplet_margin_loss(x, -x, x + 1),
    ),
}

# What cannot be computed at once, because it is a transformation, in NumPy.
BY_HAND = {
    "found for each": lambda x, k, s: (
        np.stack([_filled(row[row > 0] ** 2, 3, 0.0) for row in x]),
        np.where(_first(x.ravel() > 0, 4).reshape(x.shape), 2 * x, 0.0),
        np.where([_first(row > 0, 2) for row in x], 2 * x, 0.0),
        _filled(2 * x[x[:, 0] > 0] ** 2, 4, 0.0),
        x[x > 0][:2],
    ),
}


def _first(mask, size):
    """The first true elements of a vector, as many as `size`."""
    return mask & (np.cumsum(mask) <= size)


def _filled(found, size, fill):
    missing = np.full((max(size - len(found), 0), *found.shape[1:]), fill)
    return np.concatenate([found[:size], missing])


def test_functions_compile_to_what_they_are_at_once():
    inputs = [
        rng.normal(size=(6, 4)).astype("f4"),
        np.array([3, 0, 3, -2, 5, 0], "i4"),
        rng.normal(size=(2, 40)).astype("f4"),
    ]
    n = aotc.Dim("n", min=2)

    @aotc.entry(x=aotc.Spec((n, 4)), k=aotc.Spec(6, "i32"), s=aotc.Spec((2, 40)))
    def entry(x, k, s):
        return {name: function(x, k, s) for name, function in FUNCTIONS.items()}

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    wanted = reference.evaluate(program.module, "entry", inputs)
    names = [port.name for port in program.entries[0].results]
    arrays = [anp.asarray(x) for x in inputs]
    at_once = {
        name: BY_HAND[name](*inputs) if name in BY_HAND else function(*arrays)
        for name, function in FUNCTIONS.items()
    }
    for name, one, other in zip(names, wanted, flatten(at_once)[0], strict=True):
        np.testing.assert_allclose(one, np.asarray(other), 1e-4, 1e-4, err_msg=name)

    run_passes(
        program.module,
        ["simplify", "cse", "decompose", "lower-to-linalg", "control-to-blocks"],
    )
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    found = iree.load_vm_module(code, config).entry(*inputs)
    for name, one, other in zip(names, found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, 1e-4, 1e-4, err_msg=name)
