"""PyTorch's functions of single elements, where they differ from NumPy's and at edges.

They are imported together, and evaluated at all pairs of numbers that are delicate.
"""

import numpy as np
import pytest

import aotc

torch = pytest.importorskip("torch")

NAN, INF = float("nan"), float("inf")
NUMBERS = torch.tensor(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 100.0, -100.0, 1e-8, 5.0]
)
WHOLE = torch.tensor([127, -128, 0, 1, -1, 7, -7, 100], dtype=torch.int8)
DIVISORS = torch.tensor([1, 7, -7, 127, 3, -3], dtype=torch.int8)

UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc erfinv exp exp2
expm1 floor frac isfinite isinf isnan isneginf isposinf log log10 log1p log2
logical_not logit nan_to_num neg positive rad2deg reciprocal relu round rsqrt sgn
sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc
"""
BINARY = """
add atan2 copysign div eq floor_divide fmax fmin fmod ge gt heaviside hypot le
logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum mul ne pow
remainder sub xlogy
"""
OF_INTEGERS = {
    "trunc": lambda i, j: torch.div(i, j, rounding_mode="trunc"),
    "floor": lambda i, j: torch.div(i, j, rounding_mode="floor"),
    "rest": lambda i, j: (i % j, torch.fmod(i, j), i - j, i * j, i & j, i ^ j, i / j),
    "signs": lambda i, j: (i.sign(), i.abs(), -i, ~i, i.bool(), i.float(), i >> 1),
    "numbers that wrap": lambda i, j: (
        *(i + 200, 200 - i, i * 1000, i // 300, i % 300, i & 200, i | 256, i ^ 511),
        *(i < 200, i == 384, i >= -300, torch.fmod(i, 300), i / 300),
        torch.div(i, 300, rounding_mode="trunc"),
    ),
}


class Together(torch.nn.Module):
    """The results of functions, one after the other."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *args):
        return tuple(function(*args) for function in self.functions.values())


def named(names):
    return {name: getattr(torch, name) for name in names.split()}


def pairs(one, other):
    return [axis.reshape(-1) for axis in torch.meshgrid(one, other, indexing="ij")]


@pytest.mark.parametrize(
    ("functions", "args"),
    [
        (named(UNARY), [NUMBERS]),
        (named(BINARY), pairs(NUMBERS, NUMBERS)),
        (OF_INTEGERS, pairs(WHOLE, DIVISORS)),
    ],
    ids=["numbers", "pairs", "integers"],
)
def test_functions_of_elements_are_those_of_pytorch_at_their_edges(functions, args):
    module = Together(functions)
    found = aotc.from_torch(module, tuple(args))(*(np.asarray(arg) for arg in args))
    for name, ours, wanted in zip(functions, found, module(*args), strict=True):
        several = wanted if isinstance(wanted, tuple) else (wanted,)
        ours = ours if isinstance(wanted, tuple) else (ours,)
        for one, other in zip(ours, several, strict=True):
            one, other = np.asarray(one), other.numpy()
            assert one.dtype == other.dtype, name
            np.testing.assert_allclose(one, other, 2e-5, 1e-7, err_msg=name)
            if name in ("copysign", "neg", "trunc"):
                assert np.array_equal(np.signbit(one), np.signbit(other)), name


def test_a_random_relu_is_its_mean_outside_of_training_and_refused_within():
    x = torch.linspace(-2, 2, 9)
    functions = {"usual": torch.rrelu, "other": lambda x: torch.rrelu(x, 0.1, 0.4)}
    module = Together(functions)
    found = aotc.from_torch(module, (x,))(x.numpy())
    np.testing.assert_allclose(found, [y.numpy() for y in module(x)], 1e-6)
    training = Together({"random": lambda x: torch.rrelu(x, training=True)})
    with pytest.raises(aotc.errors.AotcError, match="draws random numbers"):
        aotc.from_torch(training, (x,))(x.numpy())


@pytest.mark.parametrize("bias", [True, False])
def test_projected_states_of_an_lstm_agree(bias):
    torch.manual_seed(0)
    module = torch.nn.LSTM(
        *(3, 5), 2, proj_size=2, bidirectional=True, batch_first=True, bias=bias
    )
    x = torch.randn(2, 4, 3)
    net = aotc.from_torch(module.eval(), (x,))
    found = net(net.weights.tree, x.numpy())
    wanted = module(x)
    for one, other in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), 1e-5, 1e-6)
