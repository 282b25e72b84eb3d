"""Branches, loops and complex numbers in PyTorch modules."""

import numpy as np
import pytest

import aotc
from aotc.core.dtypes import canonical_dtype

torch = pytest.importorskip("torch")
from tests.importers.torch_modules import Call, agrees  # noqa: E402


class Turned(torch.nn.Module):
    """Positions as angles, in complex numbers: a constant, and the last axis of x."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
        turns = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("turns", turns)

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.turns).flatten(-2)


# ---- control flow -------------------------------------------------------------------


def test_branches_run_one_side():
    def forward(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    agrees(Call(forward), torch.ones(3))
    agrees(Call(forward), -torch.ones(3))


def test_loops_run_as_long_as_their_condition_holds():
    from torch._higher_order_ops import while_loop

    def forward(x):
        return while_loop(
            lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)
        )

    agrees(Call(forward), torch.ones(3))


def test_scans_carry_and_stack():
    from torch._higher_order_ops import scan

    def forward(xs):
        return scan(lambda c, x: (c + x, c * x), torch.zeros(2), xs)

    agrees(Call(forward), torch.randn(4, 2))


def test_maps_apply_a_graph_to_each_row():
    from torch._higher_order_ops.map import map as torch_map

    def forward(xs, y):
        return torch_map(lambda x, y: (x @ y, x.sum()), xs, y)

    agrees(Call(forward), torch.randn(3, 4), torch.randn(4, 2))


def test_graphs_within_graphs_are_inlined():
    from torch.utils.checkpoint import checkpoint

    def forward(layer, x):
        with torch.no_grad():
            y = layer(x)
        return y + checkpoint(lambda x: torch.relu(layer(x)), x, use_reentrant=False)

    agrees(Call(forward, torch.nn.Linear(4, 4)), torch.randn(2, 4))


# ---- complex numbers -----------------------------------------------------------------


def test_complex_numbers_inside_a_module_agree():
    agrees(Turned(), torch.randn(3, 5, 4))
    agrees(Call(lambda x: torch.fft.ifft(torch.fft.fft(x) * 1j).abs()), torch.randn(6))
    agrees(Call(lambda x: torch.fft.irfft2(torch.fft.rfft2(x))), torch.randn(2, 6, 4))
    agrees(Call(lambda x: torch.fft.rfft(x).angle()), torch.randn(2, 9))


ON_COMPLEX = {
    "logarithms and powers": lambda z: [
        *(z.log(), z.log2(), z.log10(), z.log1p(), z.exp2(), z.expm1(), z.sqrt()),
        *(z.rsqrt(), z.square(), z.sigmoid(), torch.nn.functional.silu(z)),
        *(z**3, z**-2, z**0.5, z ** (1 - 2j), z**z, 2**z, torch.float_power(z, z)),
    ],
    "trigonometric functions": lambda z: [
        *(z.sin(), z.cos(), z.tan(), z.asin(), z.acos(), z.atan()),
        *(z.sinh(), z.cosh(), z.tanh(), z.asinh(), z.acosh(), z.atanh()),
    ],
    "comparisons": lambda z: [
        *(z == z.conj(), z != 3, z.real + 0 == z, z.sgn(), z.isnan(), z.isfinite()),
        *(z.logical_not(), z.logical_and(z.real), z.any(), z.all(0)),
        *(torch.where(z.real > 0, z, 2j), z.masked_fill(z.imag > 0, 1.0)),
    ],
    "real numbers among complex ones": lambda z: [
        *(torch.cat([z, z.real]), torch.stack([z.imag, z]), 2 - z, z - z.real),
        *(z * torch.tensor(2.0, dtype=torch.float64), torch.full_like(z, 2.0)),
        *(torch.nn.functional.pad(z, (1, 2), value=3.0), z.clone().fill_(4.0)),
        *(z.clone().copy_(z.real), torch.eye(2, dtype=torch.complex64)),
    ],
    "elements and products": lambda z: [
        *(z.index_copy(0, torch.tensor([1]), z[:1]), torch.take(z, torch.tensor([3]))),
        *(torch.vdot(z[0], z[1]), z[0].dot(z[1]), z.sum(0, dtype=torch.complex128)),
        *(
            z.var(),
            z.std(0),
            torch.addmm(z, z, z, beta=2j),
            z.masked_scatter(z != 0, z),
        ),
        torch.nn.functional.linear(z, z, z[0]),
    ],
}


@pytest.mark.parametrize("functions", ON_COMPLEX.values(), ids=ON_COMPLEX)
def test_functions_of_complex_numbers_agree_on_both_sides_of_their_cuts(functions):
    real = torch.tensor([-2.0, -0.5, 0.25, 3.0]).repeat(4, 1)
    imag = torch.tensor([[-1.5], [-0.0], [0.0], [0.75]]).expand(4, 4)
    z = torch.complex(real, imag)
    net = aotc.from_torch(Call(functions), (z,))
    found = net(aotc.complexes.Complex(real.numpy(), imag.numpy()))
    for number, (one, other) in enumerate(zip(found, functions(z), strict=True)):
        parts = [one.real, one.imag] if isinstance(one, tuple) else [one]
        theirs = (
            torch.view_as_real(other.resolve_conj()).movedim(-1, 0)
            if other.is_complex()
            else other[None]
        )
        for mine, part in zip(parts, theirs, strict=True):
            assert canonical_dtype(mine.dtype) == canonical_dtype(part.numpy().dtype), (
                number
            )
            ours = np.asarray(mine, np.float64)
            np.testing.assert_allclose(ours, part.double(), 2e-5, 2e-6, str(number))


def test_complex_inputs_and_results_are_pairs():
    z = torch.randn(3, dtype=torch.complex64)
    net = aotc.from_torch(Call(lambda z: (z * z).conj()), (z,))
    found = net(aotc.complexes.Complex(z.real.numpy(), z.imag.numpy()))
    expected = (z * z).conj().resolve_conj().numpy()
    np.testing.assert_allclose(np.asarray(found.real), expected.real, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found.imag), expected.imag, rtol=1e-5)
    assert net.program("f").entries[0].name == "f"
