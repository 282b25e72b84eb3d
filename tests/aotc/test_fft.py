"""Fourier transforms are NumPy's, on pairs of real arrays; they have derivatives."""

import math

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import fft, reference
from aotc.errors import InputError
from aotc.fft import Complex
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

rng = np.random.default_rng(0)


def complexes(*shape, dtype="c16"):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def joined(z):
    if isinstance(z, Complex):
        return np.asarray(z.real) + 1j * np.asarray(z.imag)
    return np.asarray(z)


def assert_close(ours, theirs, slack=1e-13):
    ours = joined(ours)
    assert ours.shape == theirs.shape
    scale = max(1, abs(theirs).max())
    np.testing.assert_allclose(ours, theirs, atol=slack * scale, rtol=0)


NORMS = [None, "backward", "ortho", "forward"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 4, 7, 12])
def test_transforms_along_one_axis_are_those_of_numpy(n, norm):
    z, x = complexes(3, 7, 2), rng.normal(size=(3, 7, 2))
    for name in ("fft", "ifft", "irfft", "hfft"):
        if n == 1 and name in ("irfft", "hfft"):
            continue
        ours, theirs = getattr(fft, name), getattr(np.fft, name)
        assert_close(ours(z, n, 1, norm), theirs(z, n, 1, norm))
        assert_close(ours(x, n, 1, norm), theirs(x, n, 1, norm))
    for name in ("rfft", "ihfft"):
        ours, theirs = getattr(fft, name), getattr(np.fft, name)
        assert_close(ours(x, n, 1, norm), theirs(x, n, 1, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "axes"), [(None, None), (None, (0, 2)), ((4, 9), (2, 1)), ((3, 4), (-1, 0))]
)
def test_transforms_along_several_axes_are_those_of_numpy(s, axes, norm):
    z, x = complexes(4, 5, 6), rng.normal(size=(4, 5, 6))
    for name, operand in (("fftn", z), ("ifftn", z), ("rfftn", x), ("irfftn", z)):
        ours = getattr(fft, name)(operand, s, axes, norm)
        assert_close(ours, getattr(np.fft, name)(operand, s, axes, norm))


def test_two_axes_are_the_last_two():
    z, x = complexes(2, 4, 6), rng.normal(size=(2, 4, 6))
    for name, operand in (("fft2", z), ("ifft2", z), ("rfft2", x), ("irfft2", z)):
        assert_close(getattr(fft, name)(operand), getattr(np.fft, name)(operand))


def test_frequencies_and_shifts_are_those_of_numpy():
    for n in (1, 4, 5):
        assert_close(fft.fftfreq(n, 0.1, "f64"), np.fft.fftfreq(n, 0.1))
        assert_close(fft.rfftfreq(n, 0.1, "f64"), np.fft.rfftfreq(n, 0.1))
    x = np.arange(20.0).reshape(4, 5)
    for axes in (None, 1, (0, 1)):
        for name in ("fftshift", "ifftshift"):
            assert_close(getattr(fft, name)(x, axes), getattr(np.fft, name)(x, axes))
    z = complexes(5)
    assert_close(
        fft.fftshift(fft.as_complex(z.real) + 1j), np.fft.fftshift(z.real) + 1j
    )


def cosines(x, type):
    """The definitions, by loops."""
    n = len(x)
    j = np.arange(n)
    if type == 2:
        return [2 * np.sum(x * np.cos(np.pi * k * (2 * j + 1) / (2 * n))) for k in j]
    if type == 3:
        rest = [x[1:] * np.cos(np.pi * j[1:] * (2 * k + 1) / (2 * n)) for k in j]
        return [x[0] + 2 * each.sum() for each in rest]
    return [
        2 * np.sum(x * np.cos(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n))) for k in j
    ]


@pytest.mark.parametrize("type", [2, 3, 4])
def test_cosine_transforms_follow_their_definition_and_invert(type):
    x = rng.normal(size=(6, 3))
    wanted = np.stack([cosines(column, type) for column in x.T], 1)
    assert_close(fft.dct(x, type, 0), wanted)
    assert_close(fft.idct(fft.dct(x, type, 0), type, 0), x)
    ortho = fft.dct(np.eye(5), type, norm="ortho")
    assert_close(np.asarray(ortho) @ np.asarray(ortho).T, np.eye(5))


# ---- short times --------------------------------------------------------------------


def short_time(x, n, hop, window, centered):
    """Frame by frame, as PyTorch defines it."""
    if centered:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)], mode="reflect")
    starts = range(0, x.shape[-1] - n + 1, hop)
    return np.stack([np.fft.rfft(x[..., i : i + n] * window) for i in starts], -1)


FRAMES = [(16, None, None), (16, 3, None), (15, 4, None), (16, 5, 12), (9, 2, 6)]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("n", "hop", "width"), FRAMES)
def test_short_time_transforms_are_those_of_each_frame(n, hop, width, center):
    x, size = rng.normal(size=(2, 60)), width or n
    weights = np.hanning(size + 2)[1:-1]
    before = (n - size) // 2
    whole = np.pad(weights, (before, n - size - before))
    how = {"window": weights, "center": center}
    z = fft.stft(x, n, hop, width, **how)
    theirs = short_time(x, n, hop or n // 4, whole, center)
    assert_close(z, theirs)
    everything = fft.stft(x, n, hop, width, **how, normalized=True, onesided=False)
    assert_close(everything[..., : n // 2 + 1, :], theirs / math.sqrt(n))

    start = 0 if center else before  # what no window sees is lost
    again = np.asarray(fft.istft(z, n, hop, width, **how))[..., start : -n or None]
    np.testing.assert_allclose(
        again, x[..., start : start + again.shape[-1]], 1e-9, 1e-9
    )
    both = fft.istft(everything, n, hop, width, **how, normalized=True, onesided=False)
    np.testing.assert_allclose(
        np.asarray(both)[..., start : -n or None], again, 1e-9, 1e-9
    )


def test_a_signal_has_the_length_that_is_asked_for():
    x = rng.normal(size=50)
    z = fft.stft(x, 16, 4)
    for length in (30, 50, 80):
        found = np.asarray(fft.istft(z, 16, 4, length=length))
        known = min(length, 48)
        assert found.shape == (length,)
        np.testing.assert_allclose(found[:known], x[:known], 1e-9, 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fft.stft(1.0, 4),
        lambda: fft.stft(np.zeros(9), 4, 0),
        lambda: fft.stft(np.zeros(9), 4, 2, 5),
        lambda: fft.stft(np.zeros(9), 4, window=np.ones(3)),
        lambda: fft.stft(np.zeros(9), 0),
        lambda: fft.istft(np.zeros((3, 4)), 4),
        lambda: fft.istft(fft.stft(np.zeros(9), 4), 8),
        lambda: fft.istft(Complex(np.zeros(3), np.zeros(3)), 4),
        lambda: fft.istft(Complex(np.zeros(()), np.zeros(())), 4),
    ],
)
def test_bad_frames_are_refused(call):
    with pytest.raises(InputError, match="expected"):
        call()


# ---- compiled as matrix products ----------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 31, 32, 37, 48, 100, 131, 360, 1024])
@pytest.mark.parametrize(("dtype", "slack"), [("float32", 1e-6), ("float64", 1e-13)])
def test_every_size_decomposes_into_the_transform(n, dtype, slack):
    z = complexes(2, n)

    @aotc.entry(re=aotc.Spec((2, n), dtype), im=aotc.Spec((2, n), dtype))
    def entry(re, im):
        return fft.fft(Complex(re, im)), fft.ifft(Complex(re, im))

    module = trace([entry], {}).module
    run_passes(module, ["decompose"])
    parts = [z.real.astype(dtype), z.imag.astype(dtype)]
    found = reference.evaluate(module, "entry", parts)
    assert_close(found[0] + 1j * found[1], np.fft.fft(z), slack)
    assert_close(found[2] + 1j * found[3], np.fft.ifft(z), slack)


def test_other_axes_may_be_symbolic_and_results_are_named():
    @aotc.entry(x=aotc.Spec(("n", 12)))
    def entry(x):
        return fft.rfft(x)

    program = trace([entry], {})
    assert [port.name for port in program.entries[0].results] == ["real", "imag"]
    x = rng.normal(size=(5, 12)).astype("f4")
    re, im = reference.evaluate(program.module, "entry", [x])
    assert_close(re + 1j * im, np.fft.rfft(x), 1e-6)


def test_the_gradient_of_a_power_spectrum_is_its_inverse_transform():
    # of sum |X|**2 / 2, by Parseval n x
    @aotc.entry(x=aotc.Spec((10,), "f64"))
    def entry(x):
        def power(x):
            z = fft.fft(x)
            return anp.sum(z.real**2 + z.imag**2) * 0.5

        return aotc.grad(power)(x)

    module = trace([entry], {}).module
    run_passes(module, ["autodiff", "inline"])
    x = rng.normal(size=10)
    (found,) = reference.evaluate(module, "entry", [x])
    np.testing.assert_allclose(found, 10 * x)


# ---- complex numbers ----------------------------------------------------------------


def test_complex_arithmetic_is_that_of_numpy():
    a, b, x = complexes(3, 3), complexes(3, 3), rng.normal(size=(3, 3))
    p, q = (Complex(anp.asarray(z.real), anp.asarray(z.imag)) for z in (a, b))
    real = anp.asarray(x)
    for ours, theirs in (
        (p + q, a + b), (p - q, a - b), (p * q, a * b), (p / q, a / b), (-p, -a),
        (p @ q, a @ b), (p + real, a + x), (real + p, x + a), (real - p, x - a),
        (real * p, x * a), (real / p, x / a), (real @ p, x @ a), (x * p, x * a),
        (p * 2, a * 2), (2 - p, 2 - a), (1j * p, 1j * a), ((2 + 1j) / p, (2 + 1j) / a),
        (abs(p), abs(a)), (fft.angle(p), np.angle(a)), (fft.conj(p), a.conj()),
        (fft.exp(p), np.exp(a)), (p[1:, 0], a[1:, 0]), (p.sum(0), a.sum(0)),
        (p.mean(), a.mean()), (p.reshape(9), a.reshape(9)),
        (p.transpose(), a.T), (fft.polar(abs(p), fft.angle(p)), a),
    ):  # fmt: skip
        assert_close(ours, theirs)


def test_the_size_of_a_complex_number_neither_overflows_nor_divides_by_zero():
    z = Complex(anp.asarray([3e30, 0.0]), anp.asarray([4e30, 0.0]))
    np.testing.assert_allclose(np.asarray(abs(z)), [5e30, 0.0], rtol=1e-6)
    assert math.isfinite(abs(z)[1].item())


# ---- what is refused ----------------------------------------------------------------

X = np.zeros((4, 3), "f4")
BAD = {
    "bad-axis": [lambda: fft.fft(X, axis=2), lambda: fft.fftn(X, axes=(0, 0))],
    "bad-norm": [lambda: fft.fft(X, norm="unitary")],
    "bad-shape": [
        lambda: fft.fft(X, 0),
        lambda: fft.fft(X[:, :0]),
        lambda: fft.irfft(X[:, :1]),
        lambda: fft.fftn(X, (2, 2), (0,)),
    ],
    "not-real": [lambda: fft.rfft(X + 1j), lambda: fft.rfft(fft.fft(X))],
    "bad-argument": [lambda: fft.dct(X, 1), lambda: fft.dct(X, norm="forward")],
}


@pytest.mark.parametrize(
    ("code", "call"), [(code, call) for code, calls in BAD.items() for call in calls]
)
def test_bad_arguments_are_refused_by_name(code, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code


def test_a_symbolic_size_along_the_axis_is_refused():
    @aotc.entry(x=aotc.Spec(("n", 4)))
    def entry(x):
        return fft.fft(x, axis=0)

    with pytest.raises(InputError, match="expected a fixed size along the transformed"):
        trace([entry], {})
