"""Origins of a tensor's elements: one number, other ops, or memory."""

from aotc.mlir import Operation, Value, ir


def filled_with(value: Value) -> Value | None:
    """Return the scalar that a lowered tensor is filled with, or None.

    Note [parts of fills]: what rearranges a fill is written as another fill. IREE 3.13
    makes a step of a fill and of the slice of it that is joined with others, and does
    not compile it where a reader gives that another shape ("write affecting operations
    on global resources are restricted to workgroup distributed contexts").
    """
    op = value.owner
    is_fill = not isinstance(op, ir.Block) and op.name == "linalg.fill"
    return op.operands[0] if is_fill else None


def operands_of(op: Operation) -> list[Value]:
    """Return the values that an op reads from outside, also in its regions."""
    values, inner = list(op.operands), set[Value]()
    rest = [block for region in op.regions for block in region]
    while rest:
        block = rest.pop()
        inner.update(block.arguments)
        for each in block.operations:
            values += each.operands
            inner.update(each.results)
            rest += [nested for region in each.regions for nested in region]
    return [value for value in values if value not in inner] if inner else values


def needs_memory(
    value: Value, known: dict[Value, bool], *, on_gpu: bool = False
) -> bool:
    """Return whether a lowered tensor must be stored for IREE to index it.

    Args:
        value: a tensor.
        known: the answers so far, for values of one function; gets new ones.
        on_gpu: whether the code is for a GPU.

    Note [reads with gaps]: IREE 3.13 fuses a slice, and a plain copy of one, into what
    reads it, and cannot compile a tensor.extract from a buffer whose last axis has a
    stride. Code for GPUs takes the elements of any slice for neighbours, silently,
    also where rows have others between them. Such a slice is put into memory first.

    Note [widened reads]: what widens its input (extsi, extui, extf, and integers as
    floats), and what is computed of that by elements, IREE 3.13 computes again in
    whatever reads it, and if that reads in steps, the whole of it: on the stack, which
    fails to compile where a call decides about the size.
    """
    seen: list[Value] = []
    while value not in known:
        seen.append(value)
        source, has_gaps = _view_source(value, on_gpu)
        if source is None or has_gaps:
            known[value] = has_gaps
        else:
            value = source
    known.update(dict.fromkeys(seen, known[value]))
    return known[value]


def _view_source(value: Value, on_gpu: bool) -> tuple[Value | None, bool]:
    """Return the source that a value views or copies, or None.
    The bool says whether the value must itself be stored.
    """
    op = value.owner
    if isinstance(op, ir.Block):
        return None, False
    if op.name == "tensor.extract_slice":
        return op.operands[0], (_is_noncontiguous if on_gpu else _has_gaps)(op)
    if op.name.startswith(_VIEWS) or _is_copy(op):
        return op.operands[0], False
    return None, _is_dynamic_widening(op)


# ops that only change the shape
_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def _is_copy(op: Operation) -> bool:
    """Return whether an op is a linalg.generic that copies its one input."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    body = list(op.regions[0].blocks[0].operations)
    maps = {ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]}
    argument = op.regions[0].blocks[0].arguments[0]
    return len(body) == 1 and body[0].operands[0] == argument and len(maps) == 1


def _is_dynamic_widening(op: Operation) -> bool:
    """Return whether an op of dynamic size, or one fused into it, widens elements.

    It is a linalg.generic that goes by elements, and so is what widens them.
    """
    rest, seen = [op], set[Operation]()
    while rest:
        each = rest.pop()
        if each in seen or not _is_dynamic_elementwise(each):
            continue
        seen.add(each)
        if any(_is_widening(inner) for inner in each.regions[0].blocks[0]):
            return True
        owners = (x.owner for x in list(each.operands)[:-1])
        rest += [x for x in owners if not isinstance(x, ir.Block)]
    return False


def _is_widening(op: Operation) -> bool:
    """Return whether a scalar op casts a number to more bits."""
    if op.name not in _WIDENING:
        return False
    return bool(op.operands[0].type.width < op.results[0].type.width)


def _is_dynamic_elementwise(op: Operation) -> bool:
    """Return whether an op is an elementwise linalg.generic of dynamic size."""
    if op.name != "linalg.generic":
        return False
    kind = ir.RankedTensorType(op.results[0].type)
    kinds = op.attributes["iterator_types"]
    return not kind.has_static_shape and "reduction" not in str(kinds)


_WIDENING = ("arith.extsi", "arith.extui", "arith.extf", "arith.uitofp", "arith.sitofp")


def _has_gaps(slice_op: Operation) -> bool:
    """Return whether a slice leaves elements out along, or below, its last axis."""
    source, sizes, strides = _slice_geometry(slice_op)
    last = max((axis for axis, n in enumerate(sizes) if n != 1), default=-1)
    return last >= 0 and (strides[last] != 1 or any(n != 1 for n in source[last + 1 :]))


def _is_noncontiguous(slice_op: Operation) -> bool:
    """Return whether the elements of a slice are not contiguous in their source."""
    source, sizes, strides = _slice_geometry(slice_op)
    first = next((axis for axis, n in enumerate(sizes) if n != 1), len(sizes))
    below = zip(sizes[first + 1 :], source[first + 1 :], strict=True)
    is_part = any(n != whole or n < 0 for n, whole in below)
    return is_part or any(step != 1 for step in strides[first:])


def _slice_geometry(slice_op: Operation) -> tuple[list[int], list[int], list[int]]:
    """Return a slice's source shape, its sizes and its strides."""
    source = ir.RankedTensorType(slice_op.operands[0].type).shape
    sizes, strides = (
        [*ir.DenseI64ArrayAttr(slice_op.attributes[name])]
        for name in ("static_sizes", "static_strides")
    )
    return source, sizes, strides
