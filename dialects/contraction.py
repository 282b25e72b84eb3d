"""Sums of products: dot_general, convolution and the windows it is made of.

Axes of images are N, spatial…, C inside the dialect; kernels are spatial…, C/groups, F.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.elementwise import f32, i32, require_dtype
from aotc.dialects.graph import GraphOp, Int, Ints, Operand, Pure, Result, Sample
from aotc.dialects.patches import patches
from aotc.dialects.reduction import accumulator, convert
from aotc.dialects.types import Shape, Size, Tensor
from aotc.errors import InputError
from aotc.mlir import arith, ir, linalg


class DotGeneral(GraphOp, name="dot_general", traits=[Pure]):
    """y = the sum of lhs * rhs over the contracted axes, for each index of the others.

    Result axes: batch axes, free axes of lhs, free axes of rhs. bf16 and f16 accumulate
    in f32.
    """

    lhs: Operand[Any]
    rhs: Operand[Any]
    lhs_batch: Ints
    rhs_batch: Ints
    lhs_contract: Ints
    rhs_contract: Ints
    y: Result[Any]
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **axes: Any) -> Tensor:
        """Batch, free of lhs, free of rhs."""
        require_dtype(lhs, dt.NUMBERS)
        require_dtype(rhs, (lhs.dtype,))
        for kind in ("batch", "contract"):
            left, right = axes[f"lhs_{kind}"], axes[f"rhs_{kind}"]
            if [lhs.shape[a] for a in left] != [rhs.shape[a] for a in right]:
                raise InputError(
                    "shape-mismatch",
                    f"{kind} axes {tuple(left)} of {lhs} and {tuple(right)} of {rhs} "
                    "differ in size",
                )
        batch = [lhs.shape[axis] for axis in axes["lhs_batch"]]
        left_free = free_axes(lhs.rank, axes["lhs_batch"], axes["lhs_contract"])
        right_free = free_axes(rhs.rank, axes["rhs_batch"], axes["rhs_contract"])
        return lhs.with_shape(
            batch + [lhs.shape[a] for a in left_free] + [rhs.shape[a] for a in right_free]
        )

    @staticmethod
    def ref(lhs: Any, rhs: Any, **axes: Any) -> Any:
        """np.einsum over numbered axes."""
        left, right, out = loop_numbers(lhs.ndim, rhs.ndim, **axes)
        wide = dt.to_numpy(accumulator(dt.canonical(lhs.dtype)))
        return np.einsum(lhs.astype(wide), left, rhs.astype(wide), right, out)

    @classmethod
    def jvp(cls, b: Any, op: Any, dl: Any, dr: Any) -> Any:
        """Linear in each operand."""
        axes = cls.attributes_of(op)
        terms = []
        if dl is not None:
            terms.append(b.dot_general(dl, op.rhs, **axes))
        if dr is not None:
            terms.append(b.dot_general(op.lhs, dr, **axes))
        return b.add(*terms) if len(terms) == 2 else terms[0]

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Contract dy with the other operand over that one's free axes."""
        sides = [
            (op.lhs, op.lhs_batch, op.lhs_contract),
            (op.rhs, op.rhs_batch, op.rhs_contract),
        ]
        return [_operand_adjoint(b, dy, sides, which) for which in (0, 1)]

    @staticmethod
    def lower(low: Any, op: Any, lhs: Any, rhs: Any) -> Any:
        """linalg.matmul where it is one, a contraction generic otherwise."""
        source, result = Tensor.of(op.lhs), Tensor.of(op.y)
        wide = result.with_dtype(accumulator(result.dtype))
        init = low.full(wide, 0)
        if _is_matmul(op, source.rank, Tensor.of(op.rhs).rank) and not _unsigned(result):
            total = linalg.matmul(lhs, rhs, outs=[init])
        else:
            total = _contract(low, op, lhs, rhs, init, wide.dtype)
        return convert(low, total, wide, result.dtype)

    samples = [
        Sample((f32(2, 3), f32(3, 4)), dict(zip(
            ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
            ((), (), (1,), (0,)), strict=True,
        ))),
        Sample((f32("n", 2, 3), f32("n", 4, 3)), dict(zip(
            ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
            ((0,), (0,), (2,), (2,)), strict=True,
        ))),
        Sample((f32(3, 2), f32(3, 2, 2)), dict(zip(
            ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
            ((), (), (0, 1), (0, 2)), strict=True,
        ))),
        Sample((i32(2, 3), i32(3)), dict(zip(
            ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
            ((), (), (1,), (0,)), strict=True,
        ))),
        Sample((f32(3), f32(3)), dict(zip(
            ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
            ((), (), (0,), (0,)), strict=True,
        ))),
    ]


def free_axes(rank: int, batch: Sequence[int], contract: Sequence[int]) -> list[int]:
    """The axes that are neither batch nor contracted, in order."""
    return [axis for axis in range(rank) if axis not in batch and axis not in contract]


def loop_numbers(
    lhs_rank: int,
    rhs_rank: int,
    *,
    lhs_batch: Any,
    rhs_batch: Any,
    lhs_contract: Any,
    rhs_contract: Any,
) -> tuple[list[int], list[int], list[int]]:
    """One loop number per axis of lhs, rhs and result; results come first."""
    left_free = free_axes(lhs_rank, lhs_batch, lhs_contract)
    right_free = free_axes(rhs_rank, rhs_batch, rhs_contract)
    results = len(lhs_batch) + len(left_free) + len(right_free)
    contracted = range(results, results + len(lhs_contract))
    left, right = [0] * lhs_rank, [0] * rhs_rank
    for axes, numbers, start in (
        (lhs_batch, left, 0),
        (rhs_batch, right, 0),
        (left_free, left, len(lhs_batch)),
        (right_free, right, len(lhs_batch) + len(left_free)),
    ):
        for offset, axis in enumerate(axes):
            numbers[axis] = start + offset
    for axes, numbers in ((lhs_contract, left), (rhs_contract, right)):
        for axis, number in zip(axes, contracted, strict=True):
            numbers[axis] = number
    return left, right, list(range(results))


def _operand_adjoint(b: Any, dy: Any, sides: list[Any], which: int) -> Any:
    """The cotangent of operand `which` of a dot_general, in its own axis order."""
    (mine, batch, contract), (other, other_batch, other_contract) = (
        sides[which],
        sides[1 - which],
    )
    mine_rank, other_rank = Tensor.of(mine).rank, Tensor.of(other).rank
    mine_free = free_axes(mine_rank, batch, contract)
    other_free = free_axes(other_rank, other_batch, other_contract)
    count = len(batch)
    first = count if which == 1 else count + len(mine_free)
    raw = b.dot_general(
        dy,
        other,
        lhs_batch=tuple(range(count)),
        rhs_batch=other_batch,
        lhs_contract=tuple(range(first, first + len(other_free))),
        rhs_contract=tuple(other_free),
    )
    # raw has axes: batch, my free axes, my contracted axes in the order of the other
    by_other = sorted(range(len(contract)), key=lambda i: other_contract[i])
    order = [*batch, *mine_free, *(contract[i] for i in by_other)]
    return b.transpose(raw, permutation=tuple(order.index(a) for a in range(mine_rank)))


def _is_matmul(op: Any, lhs_rank: int, rhs_rank: int) -> bool:
    plain = not op.lhs_batch and (lhs_rank, rhs_rank) == (2, 2)
    return plain and (op.lhs_contract, op.rhs_contract) == ((1,), (0,))


def _unsigned(tensor: Tensor) -> bool:
    return tensor.dtype in dt.UNSIGNED


def multiply_accumulate(dtype: str, source: str) -> Any:
    """The body `total + x * y`, with x and y widened to `dtype` first."""
    from aotc.dialects.approximations import conversion

    if not dt.is_float(dtype):
        return lambda x, y, total: arith.AddIOp(total, arith.MulIOp(x, y)).result
    widen = (lambda x: x) if source == dtype else conversion(source, dtype)
    return lambda x, y, total: arith.AddFOp(
        total, arith.MulFOp(widen(x), widen(y))
    ).result


def _contract(low: Any, op: Any, lhs: Any, rhs: Any, init: Any, wide: str) -> Any:
    left, right, out = loop_numbers(
        lhs.type.rank, rhs.type.rank, **DotGeneral.attributes_of(op)
    )
    loops = len(out) + len(op.lhs_contract)
    maps = [
        ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(n) for n in numbers])
        for numbers in (left, right, out)
    ]
    kinds = ["parallel"] * len(out) + ["reduction"] * len(op.lhs_contract)
    body = multiply_accumulate(wide, Tensor.of(op.lhs).dtype)
    return low.generic([lhs, rhs], maps, init, kinds, body)


# ---- convolution --------------------------------------------------------------------


def window_count(size: Size, window: int, stride: int, dilation: int = 1) -> Size:
    """How many windows fit along an axis of `size`."""
    return (size - dilation * (window - 1) - 1) // stride + 1


def windowed_shape(
    x: Tensor, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[Size]:
    """The spatial sizes after sliding a window over x (N, spatial…, C)."""
    spatial = x.shape[1:-1]
    if not len(spatial) == len(window) == len(strides) == len(dilation):
        raise InputError(
            "bad-window",
            f"expected one window, stride and dilation for each of the {len(spatial)} "
            f"spatial axes of {x}; got {tuple(window)}, {tuple(strides)}, {tuple(dilation)}",
        )
    if min((*window, *strides, *dilation), default=1) < 1:
        raise InputError("bad-window", "windows, strides and dilations start at 1")
    counts = [
        window_count(n, w, s, d)
        for n, w, s, d in zip(spatial, window, strides, dilation, strict=True)
    ]
    if any(isinstance(n, int) and n < 1 for n in counts):
        raise InputError(
            "bad-window", f"a window of {tuple(window)} does not fit into {x}"
        )
    return counts


def pad_spatial(b: Any, x: Any, padding: Sequence[int], value: float = 0.0) -> Any:
    """`x` with `padding` (low, high per spatial axis) around its spatial axes."""
    if not any(padding):
        return x
    low, high = (0, *padding[::2], 0), (0, *padding[1::2], 0)
    return b.pad(x, low=low, high=high, interior=(0,) * len(low), value=value)


class Windows(GraphOp, name="windows", traits=[Pure]):
    """y[n, o…, k…, c] = x[n, o * stride + k * dilation…, c]: all windows of an image."""

    x: Operand[Any]
    window: Ints
    strides: Ints
    dilation: Ints
    y: Result[Any]
    dtypes = ("bool", *dt.NUMBERS)

    @staticmethod
    def infer(x: Tensor, *, window: Any, strides: Any, dilation: Any) -> Tensor:
        """N, positions…, window…, C."""
        counts = windowed_shape(x, window, strides, dilation)
        return x.with_shape([x.shape[0], *counts, *window, x.shape[-1]])

    @staticmethod
    def ref(x: Any, *, window: Any, strides: Any, dilation: Any) -> Any:
        """A strided view of every window."""
        spatial = tuple(range(1, x.ndim - 1))
        extent = [d * (w - 1) + 1 for w, d in zip(window, dilation, strict=True)]
        view = np.lib.stride_tricks.sliding_window_view(x, extent, spatial)
        steps = [slice(None, None, s) for s in strides]
        inner = [slice(None, None, d) for d in dilation]
        view = view[(slice(None), *steps, slice(None), *inner)]
        return np.moveaxis(view, len(spatial) + 1, -1)

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.windows(dx, **cls.attributes_of(op))

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Windows overlap, so their elements add up."""
        return [fold(b, dy, Tensor.of(op.x), op.window, op.strides, op.dilation)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """Patches, with the window's axes split off again."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        counts = result.shape[1 : 1 + len(op.window)]
        rows, flat = patches(
            low, x, source, counts, op.window, op.strides, op.dilation
        )
        return low.reshape(rows, flat, result)

    samples = [
        Sample(
            (f32(2, 5, 6, 2),), {"window": (3, 2), "strides": (1, 2), "dilation": (1, 1)}
        ),
        Sample(
            (f32("n", 7, 1),), {"window": (3,), "strides": (2,), "dilation": (2,)}
        ),
        Sample(
            (f32(1, 4, 4, 2),), {"window": (2, 2), "strides": (2, 2), "dilation": (1, 1)}
        ),
    ]


def fold(
    b: Any,
    dy: Any,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    """The adjoint of `windows`: every element of every window added back to its place."""
    tiled = tuple(window) == tuple(strides) and set(dilation) <= {1}
    return (_fold_tiles if tiled else _fold_offsets)(b, dy, x, window, strides, dilation)


def _fold_tiles(
    b: Any, dy: Any, x: Tensor, window: Any, strides: Any, dilation: Any
) -> Any:
    """Windows that touch but do not overlap: a transpose, and zeros for the rest."""
    spatial = len(window)
    counts = Tensor.of(dy).shape[1 : 1 + spatial]
    order = [0]
    for axis in range(1, 1 + spatial):
        order += [axis, axis + spatial]
    mixed = b.transpose(dy, permutation=(*order, 2 * spatial + 1))
    covered = [n * w for n, w in zip(counts, window, strict=True)]
    image = b.reshape(mixed, shape=(x.shape[0], *covered, x.shape[-1]))
    rest = [n - c for n, c in zip(x.shape[1:-1], covered, strict=True)]
    none = (0,) * x.rank
    return b.pad(image, low=none, high=(0, *rest, 0), interior=none, value=0.0)


def _fold_offsets(
    b: Any, dy: Any, x: Tensor, window: Any, strides: Any, dilation: Any
) -> Any:
    """Overlapping windows: one shifted image per offset in the window, added up."""
    source = Tensor.of(dy)
    spatial = len(window)
    counts = source.shape[1 : 1 + spatial]
    ones = (1,) * source.rank
    total = None
    for offset in np.ndindex(*window):
        start = (0,) * (1 + spatial) + offset + (0,)
        sizes = (x.shape[0], *counts, *(1,) * spatial, x.shape[-1])
        part = b.slice(dy, start=start, sizes=sizes, strides=ones)
        part = b.reshape(part, shape=(x.shape[0], *counts, x.shape[-1]))
        low = [o * d for o, d in zip(offset, dilation, strict=True)]
        high = [
            n - before - ((c - 1) * s + 1)
            for n, before, c, s in zip(x.shape[1:-1], low, counts, strides, strict=True)
        ]
        image = b.pad(
            part,
            low=(0, *low, 0),
            high=(0, *high, 0),
            interior=(0, *(s - 1 for s in strides), 0),
            value=0.0,
        )
        total = image if total is None else b.add(total, image)
    return total


class ConvGeneral(GraphOp, name="conv_general", traits=[Pure]):
    """y[n, o…, f] = sum over k…, c of x[n, o * stride + k * dilation - low…, c] w[k…, c, f].

    x is N, spatial…, C (1 to 3 spatial axes); kernel is spatial…, C / groups, F. `padding`
    holds low and high zeros for each spatial axis. With groups, feature group g sees
    channel group g only.
    """

    x: Operand[Any]
    kernel: Operand[Any]
    strides: Ints
    padding: Ints
    dilation: Ints
    groups: Int
    y: Result[Any]

    @staticmethod
    def infer(
        x: Tensor, kernel: Tensor, *, strides: Any, padding: Any, dilation: Any, groups: int
    ) -> Tensor:
        """N, positions…, F."""
        require_dtype(x, dt.FLOATS)
        require_dtype(kernel, (x.dtype,))
        if x.rank not in (3, 4, 5) or kernel.rank != x.rank:
            raise InputError(
                "shape-mismatch",
                "expected x as N, 1 to 3 spatial axes, C and a kernel of the same rank; "
                f"got {x} and {kernel}",
            )
        _require_channels(x, kernel, groups)
        low, high = padding[::2], padding[1::2]
        around = zip(x.shape[1:-1], low, high, strict=True)
        padded = x.with_shape([x.shape[0], *(n + a + z for n, a, z in around), x.shape[-1]])
        counts = windowed_shape(padded, kernel.shape[:-2], strides, dilation)
        return x.with_shape([x.shape[0], *counts, kernel.shape[-1]])

    @staticmethod
    def ref(
        x: Any, kernel: Any, *, strides: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """Windows times kernel, group by group."""
        around = [(0, 0), *zip(padding[::2], padding[1::2], strict=True), (0, 0)]
        window = kernel.shape[:-2]
        patches = Windows.ref(
            np.pad(x, around), window=window, strides=strides, dilation=dilation
        )
        spatial, wide = len(window), dt.to_numpy(accumulator(dt.canonical(x.dtype)))
        parts = [
            np.tensordot(p.astype(wide), k.astype(wide), axes=spatial + 1)
            for p, k in zip(
                np.split(patches, groups, -1), np.split(kernel, groups, -1), strict=True
            )
        ]
        return np.concatenate(parts, -1)

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any, dk: Any) -> Any:
        """Linear in each operand."""
        attributes = cls.attributes_of(op)
        terms = []
        if dx is not None:
            terms.append(b.conv_general(dx, op.kernel, **attributes))
        if dk is not None:
            terms.append(b.conv_general(op.x, dk, **attributes))
        return b.add(*terms) if len(terms) == 2 else terms[0]

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """A convolution with the mirrored kernel; windows of x against dy."""
        return [_input_adjoint(b, op, dy), _kernel_adjoint(b, op, dy)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any, kernel: Any) -> Any:
        """The named convolution; depthwise and grouped ones in their own form."""
        from aotc.dialects import convolution

        return convolution.lower(low, op, x, kernel)

    samples = [
        Sample(
            (f32(2, 5, 5, 2), f32(3, 3, 2, 4)),
            {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1},
        ),
        Sample(
            (f32("n", 6, 5, 4), f32(3, 2, 2, 6)),
            {"strides": (2, 1), "padding": (0, 1, 1, 0), "dilation": (1, 2), "groups": 2},
        ),
        Sample(
            (f32(1, 7, 3), f32(3, 3, 2)),
            {"strides": (2,), "padding": (0, 0), "dilation": (1,), "groups": 1},
        ),
        Sample(
            (f32(1, 3, 4, 3, 2), f32(2, 2, 2, 2, 3)),
            {
                "strides": (1, 1, 1),
                "padding": (0, 0, 1, 0, 0, 1),
                "dilation": (1, 1, 1),
                "groups": 1,
            },
        ),
        Sample(
            (f32(2, 5, 5, 3), f32(3, 3, 1, 3)),
            {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 3},
        ),
    ]


def _require_channels(x: Tensor, kernel: Tensor, groups: int) -> None:
    channels, per_group, features = x.shape[-1], kernel.shape[-2], kernel.shape[-1]
    if groups < 1 or per_group * groups != channels or features % groups != 0:
        raise InputError(
            "shape-mismatch",
            f"{x} has {channels} channels; kernel {kernel} with {groups} group(s) takes "
            f"{per_group * groups}, and its {features} features must divide by {groups}",
        )


def _kernel_adjoint(b: Any, op: Any, dy: Any) -> Any:
    kernel = Tensor.of(op.kernel)
    window, spatial = kernel.shape[:-2], kernel.rank - 2
    padded = pad_spatial(b, op.x, op.padding)
    patches = b.windows(padded, window=window, strides=op.strides, dilation=op.dilation)
    shared = tuple(range(1 + spatial))
    if op.groups == 1:
        return b.dot_general(
            patches, dy, lhs_batch=(), rhs_batch=(), lhs_contract=shared, rhs_contract=shared
        )
    groups = op.groups
    split = _split_last(b, patches, groups)
    grouped = b.dot_general(
        split,
        _split_last(b, dy, groups),
        lhs_batch=(2 * spatial + 1,),
        rhs_batch=(spatial + 1,),
        lhs_contract=shared,
        rhs_contract=shared,
    )  # groups, window…, C / groups, F / groups
    order = (*range(1, spatial + 2), 0, spatial + 2)
    return b.reshape(b.transpose(grouped, permutation=order), shape=kernel.shape)


def _split_last(b: Any, x: Any, groups: int) -> Any:
    """The last axis as (groups, rest)."""
    shape = Tensor.of(x).shape
    return b.reshape(x, shape=(*shape[:-1], groups, shape[-1] // groups))


def _input_adjoint(b: Any, op: Any, dy: Any) -> Any:
    x, kernel = Tensor.of(op.x), Tensor.of(op.kernel)
    spatial = kernel.rank - 2
    mirrored = _mirrored_kernel(b, op, kernel, spatial)
    counts = Tensor.of(dy).shape[1:-1]
    low: list[Size] = []
    high: list[Size] = []
    for axis in range(spatial):
        reach = op.dilation[axis] * (kernel.shape[axis] - 1)
        before = reach - op.padding[2 * axis]
        spread = (counts[axis] - 1) * op.strides[axis] + 1
        low.append(before)
        high.append(x.shape[1 + axis] + reach - spread - before)
    return _convolve_spread(b, op, dy, mirrored, low, high)


def _convolve_spread(
    b: Any, op: Any, dy: Any, kernel: Any, low: list[Size], high: list[Size]
) -> Any:
    """dy with zeros between and around, convolved with stride 1."""
    spatial = len(low)
    simple = set(op.strides) == {1} and all(
        isinstance(n, int) and n >= 0 for n in (*low, *high)
    )
    padding: list[Any] = [0] * (2 * spatial)
    if simple:
        padding[::2], padding[1::2] = low, high
    else:
        interior = (0, *(s - 1 for s in op.strides), 0)
        dy = b.pad(dy, low=(0, *low, 0), high=(0, *high, 0), interior=interior, value=0.0)
    return b.conv_general(
        dy,
        kernel,
        strides=(1,) * spatial,
        padding=tuple(padding),
        dilation=op.dilation,
        groups=op.groups,
    )


def _mirrored_kernel(b: Any, op: Any, kernel: Tensor, spatial: int) -> Any:
    """Spatially reversed, with channels and features exchanged within each group."""
    window: Shape = kernel.shape[:spatial]
    per_group, features = kernel.shape[-2], kernel.shape[-1]
    flipped = b.reverse(op.kernel, axes=tuple(range(spatial)))
    front = tuple(range(spatial))
    if op.groups == 1:
        return b.transpose(flipped, permutation=(*front, spatial + 1, spatial))
    split = _split_last(b, flipped, op.groups)  # window…, C / groups, groups, F / groups
    swapped = b.transpose(split, permutation=(*front, spatial + 2, spatial + 1, spatial))
    return b.reshape(
        swapped, shape=(*window, features // op.groups, per_group * op.groups)
    )
