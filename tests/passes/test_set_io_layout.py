"""set-io-layout: entries take and return images in the layout that is asked for."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn, reference
from aotc.errors import InputError
from aotc.importers.common.imported import Imported
from aotc.importers.common.io_layout import with_io_layout
from aotc.importers.common.original import Original
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(3)
KERNEL = RNG.normal(size=(3, 3, 4, 4)).astype("f4")
LINE = RNG.normal(size=(3, 4, 4)).astype("f4")
CUBE = RNG.normal(size=(2, 2, 2, 4, 4)).astype("f4")
CLASSES = RNG.normal(size=(4, 6)).astype("f4")
IMAGE = (2, 4, 6, 5)
BATCH = aotc.Dim("batch")


def conv(x, kernel=KERNEL, **options):
    """A convolution of channels-first images, as importers write it."""
    last = (0, *range(2, x.ndim), 1)
    first = (0, x.ndim - 1, *range(1, x.ndim - 1))
    make = {3: nn.conv1d, 4: nn.conv2d, 5: nn.conv3d}[x.ndim]
    y = make(anp.transpose(x, last), anp.asarray(kernel), padding="SAME", **options)
    return anp.transpose(y, first)


def max_pool(x):
    y = nn.max_pool(anp.transpose(x, (0, 2, 3, 1)), (2, 2))
    return anp.transpose(y, (0, 3, 1, 2))


def across_channels(x):
    """A norm that pools over channels, written as pooling of volumes."""
    squares = anp.transpose(x[:, None] ** 2, (0, 2, 3, 4, 1))
    sums = nn.sum_pool(squares, (3, 1, 1), strides=(1, 1, 1), padding="SAME")
    return x / anp.sqrt(1 + anp.reshape(sums, x.shape))


def unet(x, mask):
    deep = anp.transpose(nn.relu(conv(x, strides=(2, 2))), (0, 2, 3, 1))
    wide = anp.transpose(nn.conv_transpose(deep, KERNEL, strides=(2, 2)), (0, 3, 1, 2))
    both = anp.concatenate([x, wide[:, :, : x.shape[2], : x.shape[3]]], 1)
    return conv(both[:, 2:6]) * mask


def gradients(x, y):
    loss = lambda x: anp.mean(anp.square(conv(nn.relu(conv(x))) - y))  # noqa: E731
    return aotc.value_and_grad(loss)(x)


# name → function, the inputs, the layouts of inputs and outputs
NETWORKS = {
    "classifier": (
        lambda x: anp.mean(nn.relu(conv(x)), (2, 3)) @ CLASSES,
        [(BATCH, 4, 6, 5)],
        ["nhwc"],
        [""],
    ),
    "normalized": (lambda x: conv((x - 0.5) / 2.0), [IMAGE], ["nhwc"], ["nhwc"]),
    "pooling alone": (max_pool, [IMAGE], ["nhwc"], ["nhwc"]),
    "any size": (
        lambda x: nn.relu(conv(x)),
        [(BATCH, 4, aotc.Dim("h", min=3), aotc.Dim("w", min=3))],
        ["nhwc"],
        ["nhwc"],
    ),
    "no image": (lambda x: conv(x), [(0, 4, 6, 5)], ["nhwc"], ["nhwc"]),
    "one pixel": (lambda x: conv(x), [(1, 4, 1, 1)], ["nhwc"], ["nhwc"]),
    "kept axes": (
        lambda x: anp.mean(conv(x), (2, 3), keepdims=True),
        [IMAGE],
        ["nhwc"],
        ["nhwc"],
    ),
    "norm across channels": (
        lambda x: conv(across_channels(conv(x))),
        [IMAGE],
        ["nhwc"],
        ["nhwc"],
    ),
    "mask": (unet, [IMAGE, (1, 1, 6, 5)], ["nhwc", "nhwc"], ["nhwc"]),
    "gradients": (gradients, [IMAGE, IMAGE], ["nhwc", "nhwc"], ["", "nhwc"]),
    "sequence": (lambda x: conv(x, LINE), [(2, 4, 7)], ["nwc"], ["nwc"]),
    "volume": (lambda x: conv(x, CUBE), [(2, 4, 3, 3, 3)], ["ndhwc"], ["ndhwc"]),
    "branches": (
        lambda x: (conv(x), x, anp.argmax(conv(x), 1)),
        [IMAGE],
        ["nhwc"],
        ["nhwc", "nhwc", ""],
    ),
}


def unit_of(function, shapes, **sources):
    specs = {f"x{i}": aotc.Spec(shape) for i, shape in enumerate(shapes)}
    entry = aotc.entry(**sources, **specs)(named(function, [*sources, *specs]))
    return Unit(trace([entry], {}))


def named(function, names):
    """`function` with parameters of these names."""
    scope = {"function": function}
    made = eval(f"lambda {', '.join(names)}: function({', '.join(names)})", scope)
    made.__name__ = "main"
    return made


def run(unit, *passes):
    with unit.module.context, ir.Location.unknown():
        return run_passes(unit, passes)[-1].changed


def layouts(unit, kind):
    return [port.layout for port in unit.program.entry("main").ports(kind)]


def evaluate(unit, arrays):
    program = unit.program
    inputs = iter(arrays)
    given = [
        next(inputs) if port.kind == "input" else program.parameters[port.name]
        for port in program.entry("main").arguments
    ]
    copy = program.copy().module
    run_passes(copy, ("autodiff",), silently=True)
    return reference.evaluate(copy, "main", given)


def arrays_for(unit):
    return [
        RNG.uniform(0.1, 1, [n if isinstance(n, int) else 4 for n in port.type.shape])
        .astype("f4")
        for port in unit.program.entry("main").ports("input")
    ]  # fmt: skip


def last(array, layout):
    return np.moveaxis(array, 1, -1) if layout else array


@pytest.mark.parametrize("name", NETWORKS)
def test_images_become_channels_last_and_no_transpose_is_left(name):
    function, shapes, inputs, outputs = NETWORKS[name]
    unit = unit_of(function, shapes)
    arrays = arrays_for(unit)
    before = evaluate(unit, arrays)
    assert run(unit, "set-io-layout{layout=nhwc}")
    assert (layouts(unit, "input"), layouts(unit, "output")) == (inputs, outputs)
    moved = [last(x, layout) for x, layout in zip(arrays, inputs, strict=True)]
    assert not run(unit, "set-io-layout{layout=nhwc}")
    for stage in [(), PASS_STAGES[0].names]:
        if stage:
            run(unit, *stage)
        after = evaluate(unit, moved)
        for x, y, layout in zip(before, after, outputs, strict=True):
            np.testing.assert_allclose(y, last(x, layout), rtol=1e-4, atol=1e-5)
    if name != "norm across channels":
        assert "graph.transpose" not in str(unit.module)


def channels_last(function, x, *args, **named):
    """What a function of an image of channels last makes of one of channels first."""
    return anp.moveaxis(function(anp.moveaxis(x, 1, -1), *args, **named), -1, 1)


GRID = RNG.uniform(-1, 1, (2, 3, 7, 2)).astype("f4")
H, W = (aotc.Dim(name, min=3) for name in "hw")

# name → what makes an image of another size
RESIZED = {
    "repeated": lambda x: channels_last(nn.resize, x, method="nearest", scale=2),
    "nearest": lambda x: channels_last(nn.resize, x, (9, 4), method="nearest"),
    "linear": lambda x: channels_last(nn.resize, x, (9, 4)),
    "depth to space": lambda x: channels_last(nn.depth_to_space, x, 2),
    "shuffled pixels": lambda x: channels_last(nn.pixel_shuffle, x, 2),
    "grid": lambda x: channels_last(nn.grid_sample, x, GRID),
}


@pytest.mark.parametrize("sizes", [(6, 5), (H, W)])
@pytest.mark.parametrize("name", RESIZED)
def test_images_behind_ops_that_resize_them_have_the_layout_too(name, sizes):
    resized = RESIZED[name]
    unit = unit_of(lambda x: nn.relu(resized(conv(x))) * 2, [(2, 4, *sizes)])
    arrays = arrays_for(unit)
    before = evaluate(unit, arrays)
    assert run(unit, "set-io-layout{layout=nhwc}")
    assert layouts(unit, "output") == layouts(unit, "input") == ["nhwc"]
    (after,) = evaluate(unit, [last(x, "nhwc") for x in arrays])
    np.testing.assert_allclose(after, last(before[0], "nhwc"), rtol=1e-4, atol=1e-5)


def test_images_before_ops_that_resize_them_have_the_layout_too():
    for name in ("repeated", "nearest", "linear"):
        unit = unit_of(lambda x, name=name: conv(RESIZED[name](x)), [IMAGE])
        assert run(unit, "set-io-layout{layout=nhwc}")
        assert layouts(unit, "input") == ["nhwc"]


def test_pixels_to_channels_have_the_layout_too():
    unit = unit_of(
        lambda x: channels_last(nn.space_to_depth, conv(x), 2), [(2, 4, 6, 8)]
    )
    assert run(unit, "set-io-layout{layout=nhwc}")
    assert layouts(unit, "output") == ["nhwc"]


def test_tokens_and_heads_are_no_images():
    """Of pixels in a row, of channels in groups, and of products with features."""

    def function(x):
        y = conv(x)
        n, c, h, w = y.shape
        tokens = anp.reshape(y, (n, c, h * w))
        heads = anp.reshape(y, (n, 2, c // 2, h, w))
        features = anp.moveaxis(y, 1, -1) @ CLASSES
        scores = anp.matmul(anp.swapaxes(tokens, 1, 2), tokens)[:, None]
        return tokens, heads, anp.moveaxis(heads, 2, -1), features[:, 0], scores

    unit = unit_of(function, [IMAGE])
    assert run(unit, "set-io-layout{layout=nhwc}")
    assert layouts(unit, "output") == [""] * 5


def test_an_image_of_which_nothing_tells_the_channels_is_refused_by_name():
    def function(x):
        columns = anp.sum(conv(x), (1, 2))  # n, w
        return {"heat": columns[:, None, :, None] * np.ones((3, 1, 2), "f4")}

    unit = unit_of(function, [IMAGE])
    with pytest.raises(InputError, match=r"output 'heat'.*\[unknown-layout\]"):
        run(unit, "set-io-layout{layout=nhwc}")


def test_a_model_of_channels_last_takes_the_other_layout_and_back():
    unit = unit_of(lambda x: nn.max_pool(x, (2, 2)) * 2, [(1, 6, 4, 3)])
    assert run(unit, "set-io-layout{layout=nchw}")
    (port,) = unit.program.entry("main").ports("output")
    assert (port.type.shape, port.layout, port.source_layout) == (
        (1, 3, 3, 2),
        "nchw",
        "nhwc",
    )
    assert run(unit, "set-io-layout{layout=nhwc}")
    (port,) = unit.program.entry("main").ports("output")
    assert (port.layout, port.source_layout) == ("nhwc", "nhwc")
    run(unit, "simplify")
    assert "graph.transpose" not in str(unit.module)


def test_only_images_change():
    """Not attention's caches, kernels' gradients, or other arrays of four axes."""

    def function(state, x, query, cache, kernel):
        scores = anp.transpose(cache, (0, 2, 3, 1)) * query  # as if of images
        slope = aotc.grad(lambda k: anp.sum(conv(x, anp.transpose(k, (2, 3, 1, 0)))))
        hidden = conv(x) + state
        return hidden, (hidden, scores, slope(kernel))

    state = aotc.State(np.ones(IMAGE, "f4"))
    shapes = [IMAGE, (2, 3, 5, 4), (2, 4, 3, 5), (4, 4, 3, 3)]
    unit = unit_of(function, shapes, state=state)
    assert run(unit, "set-io-layout{layout=nhwc}")
    assert layouts(unit, "input") == ["nhwc", "", "", ""]
    assert layouts(unit, "output") == ["nhwc", "", ""]
    entry = unit.program.entry("main")
    assert all(
        port.type.shape == IMAGE and not port.layout
        for port in (*entry.ports("state"), entry.results[0])
    )


def test_axes_that_two_convolutions_take_for_different_ones_are_left():
    """A convolution over channels and one over pixels: neither layout is right."""

    def mixer(x):
        tokens = nn.conv1d(x, anp.asarray(LINE[:1]))
        return tokens + conv(x, LINE)

    with pytest.raises(InputError, match="no input or output") as caught:
        run(unit_of(mixer, [(2, 4, 4)]), "set-io-layout{layout=nhwc}")
    assert caught.value.code == "no-images"


@pytest.mark.parametrize(
    ("option", "code"), [("nhcw", "bad-pass-option"), ("nhwc", "no-images")]
)
def test_what_cannot_be_set_is_refused(option, code):
    unit = unit_of(lambda x: anp.transpose(x, (0, 2, 3, 1)) @ CLASSES, [IMAGE])
    with pytest.raises(InputError) as caught:
        run(unit, f"set-io-layout{{layout={option}}}")
    assert caught.value.code == code


def test_the_source_is_compared_in_its_own_layout():
    given = []

    def original_run(inputs):
        given.append(inputs["x"].shape)
        return inputs["x"][:, :3], inputs["x"].sum((2, 3))

    example = {"x": RNG.normal(size=IMAGE).astype("f4")}
    original = Original("a framework", original_run, lambda x: {0: x["x"]}, example)
    network = Imported(
        lambda x: (conv(x)[:, :3], anp.sum(conv(x), (2, 3))),
        {"x": aotc.Spec(IMAGE)},
        original=original,
    )
    unit = Unit(network.program())
    run(unit, "set-io-layout{layout=nhwc}")
    moved = with_io_layout(network, unit.program.entry("main"))
    assert moved.original.example["x"].shape == (2, 6, 5, 4)
    image, sums = moved.original.run(moved.original.example)
    np.testing.assert_array_equal(image, np.moveaxis(example["x"][:, :3], 1, -1))
    np.testing.assert_array_equal(sums, example["x"].sum((2, 3)))
    assert given == [IMAGE]
    assert moved.original.steps(moved.original.example)[0].shape == IMAGE
    theirs = network.compute(example)[0]._data
    ours = moved.compute(moved.original.example)[0]._data  # by node, as in the source
    np.testing.assert_array_equal(theirs, ours)
