"""Ops as SciPy says them, where their references are not simply NumPy's functions."""

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.special


def each(function):
    """Return a function of single matrices as one of stacks."""

    def stacked(*arrays):
        batch = arrays[0].shape[:-2]
        if not all(x.size for x in arrays):
            raise NotImplementedError("empty matrices")
        found = [function(*(x[i] for x in arrays)) for i in np.ndindex(batch)]
        found = [part if isinstance(part, tuple) else (part,) for part in found]
        columns = [np.stack(part) for part in zip(*found, strict=True)]
        return tuple(part.reshape(*batch, *part.shape[1:]) for part in columns)

    return stacked


def lu(x):
    """Return the LU decomposition, with the permutation as row indices."""
    permutation, low, up = scipy.linalg.lu(x, p_indices=True)
    return low - np.eye(len(x), dtype=x.dtype) + up, np.argsort(permutation)


def linear_recurrence(a, x, axis, reverse):
    """Return the linear recurrence by a bidiagonal solve."""
    if not x.size:
        raise NotImplementedError("an empty matrix")
    a, x = (np.moveaxis(v, axis, 0) for v in (a, x))
    flat = [v.reshape(len(v), -1).astype("f8") for v in (a, x)]
    columns = []
    for a_column, x_column in zip(*(v.T for v in flat), strict=True):
        order = slice(None, None, -1 if reverse else 1)
        a_column, x_column = a_column[order], x_column[order]
        system = np.eye(len(x_column)) - np.diag(a_column[1:], -1)
        solved = scipy.linalg.solve_triangular(system, x_column, lower=True)
        columns.append(solved[order])
    y = np.array(columns).T.reshape(x.shape).astype(x.dtype)
    return np.moveaxis(y, 0, axis)


def fft(re, im, axis, inverse):
    """Return the FFT; neither direction divides by the size."""
    transform = scipy.fft.ifft if inverse else scipy.fft.fft
    z = transform(re + 1j * im, axis=axis, norm="forward" if inverse else None)
    return z.real, z.imag


def conv_general(x, kernel, strides, padding, dilation, groups):
    """Return the convolution, channel by channel and feature by feature."""
    if not x.size:
        raise NotImplementedError("empty images")
    pairs = zip(padding[::2], padding[1::2], strict=True)
    x = np.pad(x, [(0, 0), *pairs, (0, 0)]).astype("f8")
    spread = np.zeros(
        [d * (n - 1) + 1 for n, d in zip(kernel.shape, dilation, strict=False)]
        + [*kernel.shape[-2:]]
    )
    spread[tuple(slice(None, None, d) for d in dilation)] = kernel
    steps = tuple(slice(None, None, s) for s in strides)
    per_group, features = kernel.shape[-2], kernel.shape[-1]
    columns = []
    for feature in range(features):
        base = feature // (features // groups) * per_group
        columns.append([
            sum(
                scipy.signal.correlate(
                    image[..., base + c], spread[..., c, feature], "valid", "direct"
                )
                for c in range(per_group)
            )[steps]
            for image in x
        ])  # fmt: skip
    return np.moveaxis(np.array(columns), 0, -1)


def eigh(x):
    """Return the eigenvalues, as signs of eigenvectors are arbitrary."""
    return each(lambda a: scipy.linalg.eigvalsh((a + a.T) / 2))(x)[0], None


def svd(x):
    """Return the singular values, as signs of vectors are arbitrary."""
    return None, each(scipy.linalg.svdvals)(x)[0], None


SCIPY = {
    "exp2": scipy.special.exp2,
    "logistic": scipy.special.expit,
    "cbrt": scipy.special.cbrt,
    "rsqrt": lambda x: (1 / np.sqrt(x.astype("f8"))).astype(x.dtype),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "polygamma": lambda x, order: (
        scipy.special.polygamma(order, x) if order else scipy.special.psi(x)
    ),
    "linear_recurrence": linear_recurrence,
    "cholesky": lambda x: each(
        lambda a: scipy.linalg.cholesky((a + a.T) / 2, lower=True)
    )(x),
    "triangular_solve": lambda a, x, lower, transpose, unit_diagonal: each(
        lambda a, x: scipy.linalg.solve_triangular(
            a, x, trans=int(transpose), lower=lower, unit_diagonal=unit_diagonal
        )
    )(a, x),
    "lu": lambda x: each(lu)(x),
    "eigh": eigh,
    "svd": svd,
    "fft": fft,
    "conv_general": conv_general,
    "softmax": scipy.special.softmax,
    "log_softmax": scipy.special.log_softmax,
}
