"""Winograd convolutions are as near to the graph's as their error bound says."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.importers import load
from aotc.kernels import families
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import machine_of
from aotc.kernels.planning import winograd
from aotc.kernels.planning.tile import choose_tile, cycles
from aotc.kernels.winograd.matrices import OUTPUTS, WINDOW, matrices
from aotc.kernels.winograd.reference import Transforms, convolve
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "convolutions_of_three.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
NAMES = tuple(entry.name for entry in load(MODEL).entries)
SOME = ("edges", "uneven", "small_images", "residual", "images", "ranges")
UNIT = 2.0**-24  # half a unit in the last place of 1


@dataclass(frozen=True)
class Built:
    """The model with tiles of one size, also where they do not pay."""

    path: Path
    outputs: int
    names: tuple[str, ...]

    @cached_property
    def model(self):
        return aotc.load(self.path, allow_unsigned=True)


@pytest.fixture(
    scope="module",
    params=[("x86_64-v3", 4, NAMES), ("x86_64-v4", 4, SOME), ("x86_64-v4", 2, SOME)],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def built(request, tmp_path_factory):
    level, outputs, names = request.param
    target = Target.parse(level)
    require_runs_here(target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "_WORTH", math.inf)
        patch.setattr(winograd, "OUTPUTS", (outputs,))
        report = build(
            MODEL,
            entries=names,
            targets=[target],
            numerics="relaxed",
            output=tmp_path_factory.mktemp("kernels"),
            self_check="off",
            sign=False,
        )
    return Built(report.bundle, outputs, names)


@cache
def _program():
    program = load(MODEL)
    run_passes(program.module, ("autodiff",), silently=True)
    return program


def _inputs(entry, rng, images=3):
    shapes = {port.name: port.type.shape for port in entry.ports("input")}
    return {
        name: rng.normal(
            size=[n if isinstance(n, int) else images for n in shape]
        ).astype("f")
        for name, shape in shapes.items()
    }


def _expected(name, inputs):
    program = _program()
    given = [
        inputs.get(port.name, program.parameters.get(port.name))
        for port in program.entry(name).arguments
    ]
    return reference.evaluate(program.module, name, given)


def error_bound(x, kernel, padding, outputs):
    """How far results of F(outputs × outputs, 3 × 3) may be from the exact ones.

    Every result is a sum of products; each term goes through at most so many roundings
    in each step: one of its transformed weight, one for each further term of a row of
    B' along both axes (and for its factor), one for each channel, and the same of A'
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 3.1; for this
    algorithm Barabasz et al., ACM TOMS 46 (2020), article 37, section 4).
    """
    exact = matrices(outputs)
    terms = [
        max(sum(1 for x in row if x) for row in matrix)
        for matrix in (exact.input, exact.output)
    ]
    count = 1 + 2 * (terms[0] + 1) + x.shape[-1] + 2 * (terms[1] + 1)
    gamma = count * UNIT / (1 - count * UNIT)
    wide = np.abs(x.astype(np.float64)), np.abs(kernel.astype(np.float64))
    return gamma * convolve(*wide, padding, Transforms.of(outputs).absolute())


def test_a_kernel_computes_what_the_graph_says(built):
    for name in built.names:
        inputs = _inputs(_program().entry(name), np.random.default_rng(1))
        found = built.model.entries[name](**inputs)
        found = found if isinstance(found, tuple) else (found,)
        for mine, theirs in zip(found, _expected(name, inputs), strict=True):
            atol = 3e-5 * max(1.0, float(abs(theirs).max()))
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_calls_decide_how_many_images_there_are(built, count):
    loaded = built.model
    rng = np.random.default_rng(2)
    inputs = _inputs(_program().entry("images"), rng, count)
    (expected,) = _expected("images", inputs)
    found = loaded.entries["images"](**inputs)
    assert found.shape == expected.shape
    scale = float(abs(expected).max(initial=1.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-5 * scale)


def test_threads_compute_the_same(built):
    loaded = built.model
    several = aotc.load(built.path, allow_unsigned=True, threads=2)
    for name in ("edges", "small_images", "residual"):
        inputs = _inputs(_program().entry(name), np.random.default_rng(3))
        one, two = (each.entries[name](**inputs) for each in (loaded, several))
        np.testing.assert_array_equal(one, two)


def _random_image(rng, kind, shape):
    """Normal numbers; of very different sizes; few large ones among small ones."""
    x = rng.normal(size=shape)
    if kind == "ranges":
        return (x * 2.0 ** rng.integers(-30, 30, shape)).astype("f")
    if kind == "outliers":
        x = np.where(rng.random(shape) < 0.02, 1e6 * x, 1e-3 * x)
    return x.astype("f")


@pytest.mark.parametrize("kind", ["normal", "ranges", "outliers"])
def test_errors_are_within_their_bound(built, kind):
    loaded, outputs = built.model, built.outputs
    rng, program = np.random.default_rng(4), _program()
    (kernel,) = [x for n, x in program.parameters.items() if n.endswith("ranges")]
    for _ in range(3):
        x = _random_image(rng, kind, (2, 10, 9, 24))
        padding = (1, 1, 1, 1)
        exact = _exact(x, kernel)
        error = np.abs(loaded.entries["ranges"](x=x) - exact)
        bound = error_bound(x, kernel, padding, outputs)
        assert (error <= bound).all()
        assert error.max() > 1e-4 * bound.max()  # which says something


def _exact(x, kernel):
    """The sums in f64, with a line of zeros around each image."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("nhwcij,ijcf->nhwf", windows, kernel.astype(np.float64))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_spoils_the_tiles_that_see_it_alone(built, special):
    loaded, outputs = built.model, built.outputs
    x = np.random.default_rng(5).normal(size=(2, 10, 9, 24)).astype("f")
    clean = loaded.entries["ranges"](x=x)
    x[1, 5, 4, 3] = special
    found = loaded.entries["ranges"](x=x)
    seen = np.zeros((2, 10, 9, 1), bool)
    seen[1, 4:7, 3:6] = True
    assert not np.isfinite(found[np.broadcast_to(seen, found.shape)]).any()
    spoilt = np.zeros_like(seen)
    for line in range(0, 10, outputs):
        for position in range(0, 9, outputs):
            tile = np.s_[1, line : line + outputs, position : position + outputs]
            sees = line - 1 <= 5 < line + outputs + 1
            spoilt[tile] = sees and position - 1 <= 4 < position + outputs + 1
    others = np.broadcast_to(~spoilt, found.shape)
    np.testing.assert_array_equal(found[others], clean[others])


# ---- bytes --------------------------------------------------------------------------

BYTES = MODEL.with_name("convolutions_of_bytes.py")


def _bytes_or_ends(shape, rng):
    """Whole numbers of the range of bytes, and beyond, whose ends are then frequent."""
    return rng.integers(-300, 300, shape).astype("f")


@pytest.mark.parametrize("level", LEVELS)
def test_convolutions_of_bytes_are_exact(level, tmp_path, monkeypatch):
    target = Target.parse(level)
    require_runs_here(target)
    monkeypatch.setattr(winograd, "_WORTH_OF_BYTES", math.inf)
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(BYTES, output=tmp_path, **asked)
    manifest = json.loads((report.bundle / "manifest.json").read_text())
    (variant,) = manifest["variants"]
    kernels = [each["family"] for each in variant["kernels"]["regions"]]
    program, rng = load(BYTES), np.random.default_rng(7)
    assert kernels.count("winograd") == len(program.entries)
    for threads in (1, 2):
        loaded = aotc.load(report.bundle, allow_unsigned=True, threads=threads)
        for entry in program.entries:
            (port,) = entry.ports("input")
            shape = [n if isinstance(n, int) else 3 for n in port.type.shape]
            x = _bytes_or_ends(shape, rng)
            given = [program.parameters.get(each.name, x) for each in entry.arguments]
            expected = reference.evaluate(program.module, entry.name, given)
            found = loaded.entries[entry.name](x=x)
            for mine, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=entry.name)
                assert len(np.unique(theirs)) > 8


# ---- the matrices -------------------------------------------------------------------


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_the_matrices_compute_windows_exactly(outputs):
    exact = matrices(outputs)
    rng = np.random.default_rng(6)
    inputs = [int(n) for n in rng.integers(-9, 9, outputs + 2)]
    window = [int(n) for n in rng.integers(-9, 9, WINDOW)]

    def multiply(matrix, vector):
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]

    products = [
        a * b
        for a, b in zip(
            multiply(exact.filter, window), multiply(exact.input, inputs), strict=True
        )
    ]
    expected = [
        sum(inputs[i + j] * window[j] for j in range(WINDOW)) for i in range(outputs)
    ]
    assert multiply(exact.output, products) == expected


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_what_a_kernel_multiplies_by_is_exact_in_f32(outputs):
    exact = matrices(outputs)
    for row in (*exact.input, *exact.output):
        for number in row:
            assert np.float32(float(number)) == number


# ---- where it is taken --------------------------------------------------------------

# image and channels of convolutions of ResNet-50
PAYS = [(56, 64), (28, 128), (14, 256)]


@pytest.mark.parametrize("level", [*LEVELS, "aarch64"])
@pytest.mark.parametrize(("size", "channels"), PAYS)
def test_the_model_of_cycles_expects_less_where_it_pays(level, size, channels):
    machine = machine_of(Target.parse(level))
    both = (size, size)
    shape = ConvolutionGeometry(
        1, both, channels, (3, 3), channels, both, padding=(1, 1)
    )
    tiles = [t for n in OUTPUTS for t in winograd._tiles(shape, n, machine)]
    direct = choose_tile(shape, machine)
    usual = cycles(shape, direct.rows, direct.vectors, machine)
    best = min(winograd.estimate(shape, tile, machine) for tile in tiles)
    assert best < 0.65 * usual


SMALL = """
import numpy
import aotc
from aotc import nn

rng = numpy.random.default_rng(0)
kernel = rng.normal(size=(3, 3, 64, 64)).astype("f4")
w = aotc.Weights({
    "kernel": kernel,
    "half": kernel.astype("f2"),
    "few": rng.normal(size=(3, 3, 3, 64)).astype("f4"),
    "groups": rng.normal(size=(3, 3, 32, 64)).astype("f4"),
    "wide": rng.normal(size=(5, 5, 64, 64)).astype("f4"),
})
state = aotc.State({"kernel": kernel})
image = aotc.Spec((1, 28, 28, 64))


@aotc.entry(x=image)
def taken(w, x):
    return nn.conv2d(x, w["kernel"], padding="SAME")


@aotc.entry(x=aotc.Spec((1, 28, 28, 3)))
def few_channels(w, x):
    return nn.conv2d(x, w["few"], padding="SAME")


@aotc.entry(x=aotc.Spec((1, 3, 3, 64)))
def small_image(w, x):
    return nn.conv2d(x, w["kernel"])


@aotc.entry(x=image)
def groups(w, x):
    return nn.conv2d(x, w["groups"], padding="SAME", groups=2)


@aotc.entry(x=image)
def steps(w, x):
    return nn.conv2d(x, w["kernel"], strides=(2, 2), padding="SAME")


@aotc.entry(x=image)
def dilated(w, x):
    return nn.conv2d(x, w["kernel"], dilation=(2, 2))


@aotc.entry(x=image)
def larger_window(w, x):
    return nn.conv2d(x, w["wide"], padding="SAME")


@aotc.entry(x=aotc.Spec((1, 28, 28, 64), "f16"))
def half(w, x):
    return nn.conv2d(x, w["half"], padding="SAME")


@aotc.entry(x=image)
def train(state, x):
    def loss(kernel):
        return (nn.conv2d(x, kernel, padding="SAME") ** 2).mean()

    value, slope = aotc.value_and_grad(loss)(state["kernel"])
    return {"kernel": state["kernel"] - 0.1 * slope}, value
"""


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.py"
    file.write_text(SMALL)
    return file


def _kernels(source, numerics, target="x86_64-v3", **options):
    """How many kernels of each family a target's program has."""
    report = build(
        source,
        targets=[Target.parse(target)],
        numerics=numerics,
        stop_after="regions",
        **options,
    )
    return Counter(
        name for name in families.FAMILIES if f'kernel = "{name}"' in report.ir
    )


def test_it_is_taken_for_weights_alone_and_only_if_asked(small, tmp_path):
    for name in (entry.name for entry in load(small).entries):
        relaxed = _kernels(small, "relaxed", entries=[name])
        assert relaxed["winograd"] == (name == "taken"), name
    for numerics in ("strict", None):
        assert not _kernels(small, numerics, entries=["taken"])["winograd"]
    left_out = _kernels(small, "relaxed", entries=["taken"], without="winograd")
    assert not left_out["winograd"]
    assert left_out["contraction"]


def test_weights_that_the_build_transforms_have_no_missing_kernel(small):
    """What the build computes is left to nobody, unless it leaves that out."""
    choices = {"targets": [Target.parse("x86_64-v3")], "numerics": "relaxed"}
    for without, number in (("", 0), ("fold-parameters", 1)):
        report = build(
            small, entries=["taken"], stop_after="regions", without=without, **choices
        )
        assert report.ir.count("it is of weights alone") == number, without
