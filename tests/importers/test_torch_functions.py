"""Functions and layers of PyTorch, one by one."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import InputError

torch = pytest.importorskip("torch")
from tests.importers.torch_modules import ROWS, Call, agrees, stored  # noqa: E402

# ---- ops ----------------------------------------------------------------------------

IMAGE = torch.linspace(-2, 2, 2 * 4 * 9 * 7).reshape(2, 4, 9, 7)

MODULES = {
    "strided convolution": torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
    "transposed convolution": torch.nn.ConvTranspose2d(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=2
    ),
    "max pooling": torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "mean pooling": torch.nn.AvgPool2d(3, 2, 1),
    "adaptive pooling": torch.nn.AdaptiveAvgPool2d((3, 2)),
    "group norm": torch.nn.GroupNorm(2, 4),
    "instance norm": torch.nn.InstanceNorm2d(4),
    "upsampling": torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    "shuffled pixels": torch.nn.PixelShuffle(2),
    "softmax over channels": torch.nn.Softmax2d(),
    "reflected padding": torch.nn.ReflectionPad2d(2),
    "padding that goes round": torch.nn.CircularPad2d((1, 2, 3, 0)),
    "padding that goes round what is left": torch.nn.CircularPad2d((3, -1, -2, 4)),
    "mirrored padding that cuts": torch.nn.ReflectionPad2d((3, -1, -2, 4)),
    "padding with a number": torch.nn.ConstantPad2d((1, -2, 0, 3), 0.5),
    "parts": Call(lambda x: x.chunk(3, -1)),
}


@pytest.mark.parametrize("name", MODULES)
def test_layers_of_images_agree(name):
    agrees(MODULES[name], IMAGE)


def quantized(x):
    """`x` in 8 bits and back, with a scale for each column."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops = torch.ops.quantized_decomposed
    scales, zeros = torch.tensor([0.1, 0.3]), torch.tensor([0, 3])
    limits = 1, -128, 127, torch.int8
    levels = ops.quantize_per_channel(x, scales, zeros, *limits)
    return levels, ops.dequantize_per_channel(levels, scales, zeros, *limits)


def quantized_halves(x):
    """`x` in 16 bits and 8 and back, from numbers of half precision."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops, found = torch.ops.quantized_decomposed, []
    scales, zeros = torch.tensor([0.003, 0.3]), torch.tensor([9, 100])
    for half in x.half(), x.bfloat16():
        limits = -32768, 32767, torch.int16
        levels = ops.quantize_per_tensor(half, 0.003, 3, *limits)
        found += [
            levels,
            ops.quantize_per_channel(half, scales, zeros, 1, *limits),
            torch.fake_quantize_per_tensor_affine(half, 0.3, 100, 0, 255).float(),
            torch.fake_quantize_per_channel_affine(
                half, scales, zeros.int(), 1, 0, 255
            ).float(),
        ]
    wide = -(2**31), 2**31 - 1, torch.int32
    ends = torch.where(x > 0, 2**31 - 1, -(2**31)).int()
    return *found, ops.dequantize_per_tensor(ends, 0.5, -5, *wide)


def dynamically_quantized(x):
    """Levels spread over what `x` holds, in half precision too."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    ops = torch.ops.quantized_decomposed
    limits = -128, 127, torch.int8
    half = x.bfloat16()
    scale, zero = ops.choose_qparams(half, -128, 127, 1e-5, torch.int8)
    levels = ops.quantize_per_tensor.tensor(half, scale, zero, *limits)
    found = ops.dequantize_per_tensor.tensor(levels, scale, zero, *limits)
    return scale, zero, levels, found


def test_parameters_of_dynamic_quantization_agree_and_are_vectors():
    x = torch.linspace(-0.3, 1.7, 33).reshape(3, 11)
    agrees(Call(dynamically_quantized), x)
    agrees(Call(dynamically_quantized), x[0, 0].clone())
    found = aotc.from_torch(Call(dynamically_quantized), (x,))(x.numpy())
    assert [np.shape(part) for part in found[:2]] == [(1,), (1,)]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_factors_that_lead_to_equal_or_double_sizes_agree(rank):
    """PyTorch copies or repeats pixels there in some kernels, and not in others."""
    smooth = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[rank]

    def forward(x):
        return [
            torch.nn.functional.interpolate(x, scale_factor=factor, mode=mode)
            for mode in (*smooth, "nearest", "nearest-exact")
            for factor in (1.2, 2.3)
        ]

    image = torch.linspace(0, 1, 3**rank).reshape(1, 1, *[3] * rank) ** 2
    agrees(Call(forward), image)


def interpolated(**options):
    """A function that resizes an image."""
    return lambda x: torch.nn.functional.interpolate(x[None, None], **options)


LONG = torch.arange(244.0).reshape(122, 2)

FUNCTIONS = {
    "casts": (lambda x: (x.to(torch.float64), x.long(), x.bool(), x.half()), LONG),
    "mirrored samples": (
        lambda x: torch.nn.functional.grid_sample(
            x[None, None], x[None, None] / 30 - 2, "bicubic", "reflection", True
        ),
        LONG[:9],
    ),
    "the nearest pixels in single precision": (interpolated(size=(128, 3)), LONG),
    "resizing by a factor": (interpolated(scale_factor=1.3), LONG[:9, :1]),
    "smooth resizing": (
        interpolated(size=(5, 3), mode="bilinear", antialias=True, align_corners=True),
        LONG[:9],
    ),
    "medians": (lambda x: (*x.median(1), x.median(), *x.nanmedian(1)), ROWS),
    "modes": (lambda x: x.mode(1), ROWS),
    "elements up to a number": (lambda x: x.histc(4, 0, 4), ROWS[0]),
    "places": (lambda x: torch.nonzero_static(x > 1, size=4), ROWS),
    "searched rows": (lambda x: torch.searchsorted(x.sort(1)[0], x), ROWS[:1]),
    "adaptive maxima": (
        lambda x: torch.nn.functional.adaptive_max_pool2d(x[None], (3, 2), True),
        LONG[:7].reshape(2, 7, 1),
    ),
    "combined rows": (
        lambda x: x.index_reduce(0, torch.tensor([1, 1]), x, "amax"),
        ROWS[:, [0, 2, 3]],
    ),
    "bags": (
        lambda x: torch.nn.functional.embedding_bag(
            torch.tensor([1, 0, 1]), x, torch.tensor([0, 2]), mode="mean"
        ),
        ROWS[:, :1],
    ),
    "checked inverses": (lambda x: torch.linalg.tensorinv(x, 1), ROWS[:, 2:]),
    "levels": (quantized, torch.tensor([[0.26, -9.0], [99.0, 1.5]])),
    "levels of half precision": (
        quantized_halves,
        torch.linspace(-99, 99, 64).reshape(32, 2),
    ),
}


def shifted(x):
    """Numbers and sizes that are shifted, also in place."""
    y = x.clone()
    y <<= 2
    bytes = x.to(torch.uint8)
    return x >> 1, -x >> 2, x << x, bytes << 7, bytes >> 1, y, x.new_ones(len(x) << 1)


def copied(x):
    """What is a copy, in each way to ask for one."""
    return [
        x.to("cpu", copy=True),
        x.to(copy=True),
        x.to(torch.float64, copy=True),
        x.to(x.double(), copy=True),
        x.to("cpu", torch.float16, copy=True).float(),
    ]


def checked(x):
    """What is asserted of all elements, as the models of transformers do it."""
    torch._check_tensor_all(x > -1e9)
    return x * 2, torch.ops.aten._is_all_true(x > 0), torch.ops.aten._is_any_true(x > 0)


def integer_products(x):
    """What torchao's dynamic quantization multiplies on CPUs: u8 and i8."""
    left = (x * 9 + 128).to(torch.uint8).repeat(17, 1)
    right = (x.T * 7).to(torch.int8).repeat(1, 8)
    return torch._int_mm(left, right), torch._int_mm(left.to(torch.int8), right)


FUNCTIONS |= {
    "integer products": (integer_products, torch.linspace(-9, 9, 16).reshape(1, 16)),
    "shifts": (shifted, torch.arange(6)),
    "copies": (copied, ROWS[0]),
    "checks": (checked, ROWS[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree(name):
    function, x = FUNCTIONS[name]
    agrees(Call(function), x)


def test_a_size_is_chosen_by_a_condition():
    def forward(x):
        return x * torch.sym_ite(x.shape[0] > 4, x.shape[0] * 2, x.shape[0])

    x, rows = torch.randn(7, 2), torch.export.Dim("rows")
    net = aotc.from_torch(Call(forward), (x,), dynamic_shapes=(({0: rows},),))
    module = net.program().module
    for size in (3, 4, 5, 7):
        x = torch.randn(size, 2)
        (found,) = reference.evaluate(module, "main", [x.numpy()])
        np.testing.assert_allclose(found, forward(x))


def test_memory_of_another_layout_is_not_read_by_steps():
    def forward(x, strides):
        return x.as_strided((2, 2), strides)

    x = torch.randn(2, 2)
    agrees(Call(forward), x, (1, 2))
    with pytest.raises(InputError, match="row by row"):
        aotc.from_torch(Call(forward), (x.t(), (1, 2)))


SEQUENCE = torch.linspace(-1, 1, 2 * 5 * 3).reshape(2, 5, 3)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("ways", [False, True])
def test_recurrent_networks_agree(kind, ways):
    module = getattr(torch.nn, kind)(3, 4, 2, batch_first=True, bidirectional=ways)
    agrees(module, SEQUENCE)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_the_length_of_what_recurrent_networks_read_may_vary(kind):
    module = getattr(torch.nn, kind)(3, 4, batch_first=True).eval()
    length = torch.export.Dim("length", min=2)
    net = aotc.from_torch(module, (SEQUENCE,), dynamic_shapes=({1: length},))
    longer = torch.cat([SEQUENCE, 2 * SEQUENCE], 1)
    found = net(*stored(net), longer.numpy())[0]
    np.testing.assert_allclose(
        np.asarray(found), module(longer)[0].detach(), rtol=1e-5, atol=1e-6
    )


def test_rows_in_groups_are_multiplied_by_matrices_of_their_own():
    def forward(x, kernels):
        numbers = torch.tensor([0.0, 2.0, 2.0, 0.0, 2.0]).sort()[0]
        ends = torch.histc(numbers, 3, 0, 2).cumsum(0, dtype=torch.int32)
        return torch.nn.functional.grouped_mm(x, kernels, offs=ends).float()

    x, kernels = torch.arange(40.0).view(5, 8) % 3, torch.arange(192.0) % 5
    agrees(
        Call(lambda *a: forward(*(b.bfloat16() for b in a))), x, kernels.view(3, 8, 8)
    )


def test_padding_by_a_large_integer_keeps_it():
    numbers = torch.tensor([1, -2])
    agrees(Call(lambda x: torch.constant_pad_nd(x, [1, 2], 2**53 + 1)), numbers)


@pytest.mark.parametrize("axes", [2, 3, 4, 5])
def test_masks_of_attention_serve_all_batches(axes):
    mask = torch.randn(3, 1, 4, 5, 5)
    mask = mask[(0,) * (5 - axes)]
    q, k, v = torch.randn(3, 3, 2, 4, 5, 8).unbind()
    agrees(Call(torch.nn.functional.scaled_dot_product_attention), q, k, v, mask)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_whole_and_agrees(causal):
    def forward(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal
        )

    q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
    agrees(Call(forward), q, k, v)
    net = aotc.from_torch(Call(forward), (q, k, v))
    assert "graph.attention" in str(net.program("f").module)
