"""Gradients at kinks, ties and poles are those of docs/derivatives.md."""

import re
from pathlib import Path
from typing import NamedTuple

import iree.runtime as iree
import numpy
import pytest

import aotc
import aotc.numpy as np
from aotc import linalg, nn, reference, special
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

PAGE = Path(__file__).parents[2] / "docs" / "derivatives.md"
NAMES = {"inf": numpy.inf, "nan": numpy.nan}


class Row(NamedTuple):
    """A line of the page: a function of x, where, and its gradients there."""

    function: str
    x: str
    aotc: str
    jax: str
    pytorch: str

    def point(self):
        return numpy.array(eval(self.x, dict(NAMES)), "f8")

    def of(self, x, names):
        """The function of an array of any framework."""
        return eval(self.function, {**NAMES, **names, "x": x})


LINE = re.compile(r"\| `(.*?)` \| `(.*?)` \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
ROWS = [Row(*found) for found in LINE.findall(PAGE.read_text(encoding="utf-8"))]
OURS = {"np": np, "nn": nn, "linalg": linalg, "special": special}


def numbers(text):
    """The gradient that a cell holds."""
    return numpy.array([float(n.replace("∞", "inf")) for n in text.split(",")])


def assert_is(found, text):
    numpy.testing.assert_allclose(numpy.ravel(found), numbers(text), 1e-3, 1e-9)


def entry_of(row, with_tangents):
    """The gradient of a row in reverse mode, then in forward mode along each axis."""

    def total(x):
        return np.sum(row.of(x, OURS))

    def slopes(x):
        axes = numpy.eye(row.point().size).reshape(-1, *x.shape)
        axes = axes if with_tangents else ()
        return aotc.grad(total)(x), [aotc.jvp(total, [x], [axis])[1] for axis in axes]

    slopes.__name__ = f"row{ROWS.index(row)}"
    return aotc.entry(x=aotc.Spec(row.point().shape, "f64"))(slopes)


def traced(with_tangents):
    """An entry for each row."""
    found = trace([entry_of(row, with_tangents) for row in ROWS], {})
    run_passes(found.module, ["autodiff", "inline", "simplify", "cse"])
    return found


@pytest.fixture(scope="module")
def evaluated():
    """What the reference computes for each row."""
    module = traced(with_tangents=True).module
    with numpy.errstate(all="ignore"):
        return [
            reference.evaluate(module, f"row{number}", [row.point()])
            for number, row in enumerate(ROWS)
        ]


@pytest.fixture(scope="module")
def compiled():
    """The gradient that the compiled program computes for each row."""
    program = traced(with_tangents=False)
    run_passes(program.module, ["decompose", "lower-to-linalg", "control-to-blocks"])
    (variant,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    module = iree.load_vm_module(code, config)
    return [module[f"row{n}"](row.point()) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda n: ROWS[n].function)
def test_a_gradient_is_what_the_page_says(number, evaluated, compiled):
    row = ROWS[number]
    gradient, *tangents = evaluated[number]
    assert_is(gradient, row.aotc)
    if numpy.isfinite(numbers(row.aotc)).all():  # 0 times ∞ differs between the modes
        assert_is(tangents, row.aotc)
        assert_is(numpy.asarray(compiled[number]), row.aotc)


def test_the_page_says_what_jax_does():
    jax = pytest.importorskip("jax")
    names = {
        "np": jax.numpy,
        "nn": jax.nn,
        "linalg": jax.numpy.linalg,
        "special": jax.scipy.special,
    }
    with jax.enable_x64(True):
        for row in ROWS:
            if row.jax != "–":
                gradient = jax.grad(lambda x, row=row: row.of(x, names).sum())
                assert_is(gradient(row.point()), row.jax)


def test_the_page_says_what_pytorch_does():
    torch = pytest.importorskip("torch")
    for row in ROWS:
        if row.pytorch != "–":
            x = torch.tensor(row.point(), requires_grad=True)
            names = {**NAMES, "torch": torch, "F": torch.nn.functional, "x": x}
            eval(PYTORCH[row.function], names).sum().backward()
            assert_is(x.grad.numpy(), row.pytorch)


# the same functions there
PYTORCH = {
    "np.abs(x)": "torch.abs(x)",
    "np.sqrt(x)": "torch.sqrt(x)",
    "np.log(x)": "torch.log(x)",
    "np.sinc(x)": "torch.sinc(x)",
    "np.hypot(x[0], x[1])": "torch.hypot(x[0], x[1])",
    "np.arctan2(x[0], x[1])": "torch.atan2(x[0], x[1])",
    "np.sign(x) * x": "torch.sign(x) * x",
    "np.mod(x, 1.5)": "torch.remainder(x, 1.5)",
    "np.arcsin(x)": "torch.arcsin(x)",
    "np.power(x, 0.0)": "torch.pow(x, 0.0)",
    "np.power(x, 0.5)": "torch.pow(x, 0.5)",
    "np.power(x, 1.0)": "torch.pow(x, 1.0)",
    "np.power(x, 2.0)": "torch.pow(x, 2.0)",
    "np.power(x, x)": "torch.pow(x, x)",
    "np.power(0.0 * x, x)": "torch.pow(0.0 * x, x)",
    "special.xlogy(x, x)": "torch.special.xlogy(x, x)",
    "special.entr(x)": "torch.special.entr(x)",
    "np.maximum(x, 0.0)": "torch.maximum(x, torch.zeros_like(x))",
    "np.minimum(x, 0.0)": "torch.minimum(x, torch.zeros_like(x))",
    "np.fmax(x, 0.0)": "torch.fmax(x, torch.zeros_like(x))",
    "np.clip(x, -1.0, 1.0)": "torch.clamp(x, -1.0, 1.0)",
    "np.clip(x, 0.0, None)": "torch.clamp(x, min=0.0)",
    "np.where(x > 0, np.log(x), 0.0)": "torch.where(x > 0, torch.log(x), 0.0)",
    "np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0)": (
        "torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0)"
    ),
    "np.max(x)": "torch.amax(x)",
    "np.sort(x)[0]": "torch.sort(x, stable=True)[0][0]",
    "np.median(x)": "torch.median(x)",
    "np.cummax(x)": "torch.cummax(x, 0)[0]",
    "nn.relu(x)": "torch.relu(x)",
    "nn.relu6(x)": "F.relu6(x)",
    "nn.leaky_relu(x)": "F.leaky_relu(x)",
    "nn.elu(x)": "F.elu(x)",
    "nn.hard_tanh(x)": "F.hardtanh(x)",
    "nn.hard_sigmoid(x)": "F.hardsigmoid(x)",
    "nn.hard_swish(x)": "F.hardswish(x)",
    "nn.softmax(x)[0]": "torch.softmax(x, 0)[0]",
    "nn.logsumexp(x)": "torch.logsumexp(x, 0)",
    "np.logaddexp(x[0], x[1])": "torch.logaddexp(x[0], x[1])",
    "np.prod(x)": "torch.prod(x)",
    "np.cumprod(x)": "torch.cumprod(x, 0)",
    "np.var(x)": "torch.var(x, correction=0)",
    "np.std(x)": "torch.std(x, correction=0)",
    "np.sqrt(np.var(x))": "torch.sqrt(torch.var(x, correction=0))",
    "linalg.norm(x)": "torch.linalg.norm(x)",
    "linalg.norm(x, ord=1)": "torch.linalg.norm(x, ord=1)",
    "linalg.norm(x, ord=3)": "torch.linalg.norm(x, ord=3)",
    "linalg.norm(x, ord=0.5)": "torch.linalg.norm(x, ord=0.5)",
    "linalg.norm(x, ord=-1)": "torch.linalg.norm(x, ord=-1)",
    "linalg.norm(x, ord=inf)": "torch.linalg.norm(x, ord=inf)",
    "linalg.norm(x, ord=2)": "torch.linalg.norm(x, ord=2)",
    "linalg.det(x)": "torch.linalg.det(x)",
    "linalg.eigh(x)[1][0]": "torch.linalg.eigh(x)[1][0]",
    "nn.l2_normalize(x)[0]": "F.normalize(x, dim=0)[0]",
    "nn.pairwise_distance(x, x, epsilon=0.0)": "F.pairwise_distance(x, x, eps=0.0)",
}
