"""`pad`: an op in the sizes of a bucket gives what it gives in those of the call.

What comes after the call's elements is filled with garbage: NaN, the least integers.
"""

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.calls.padded_entries import CUT, add_padded_entry
from aotc.dialects.functions.entries import Entry, entries_of, write_entry
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.graph import Reason
from aotc.dialects.plain import plain_of
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.sizes.contracts import Contract
from tests.dialects.cases import Case

BUCKET = 8
FLAT = {"padding": (1, 1, 1, 1), "dilation": (1, 1)}
AXES = {
    "lhs_batch": (0,),
    "rhs_batch": (0,),
    "lhs_contract": (2,),
    "rhs_contract": (1,),
}
ROWS = {"axes": (0,), "along": (0,), "kept": (1,)}
INDICES = np.array([0, 2, -1, 9, 1], "i4")
ATTENTION = {"scale": 0.5, "causal": False, "safe": False}

# ops along padded axes of each kind, which their own samples do not have
MORE = [
    ("reduce_sum", OpSample((f32("n", 3, "m"),), {"axes": (0, 2)})),
    ("reduce_max", OpSample((i32(3, "n"),), {"axes": (1,)})),
    ("reduce_prod", OpSample((f32("n", "n"),), {"axes": (0,)})),
    ("argmax", OpSample((f32(3, "n"),), {"axis": 1})),
    ("softmax", OpSample((f32("m", "n"),), {"axis": 1})),
    ("log_softmax", OpSample((f32("n", 4),), {"axis": 0})),
    ("cumsum", OpSample((f32("n", 3),), {"axis": 0, "reverse": True})),
    ("cumsum", OpSample((i32(2, "n"),), {"axis": 1, "reverse": False})),
    ("cummax", OpSample((f32("n", "m"),), {"axis": 0, "reverse": True})),
    ("cumlogsumexp", OpSample((f32("n", 2),), {"axis": 0, "reverse": True})),
    ("dot_general", OpSample((f32("m", 2, "n"), f32("m", "n", 3)), AXES)),
    ("dot_general", OpSample((f32(2, "n", "m"), f32(2, "m", "n")), AXES)),
    (
        "conv_general",
        OpSample(
            (f32("n", "h", "w", 2), f32(3, 3, 2, 4)),
            {**FLAT, "strides": (2, 1), "groups": 1},
        ),
    ),
    (
        "max_pool",
        OpSample((f32(1, "h", "w", 2),), {**FLAT, "window": (3, 3), "strides": (2, 1)}),
    ),
    (
        "attention",
        OpSample(
            (f32("b", "l", 2, 4), f32("b", "s", 2, 4), f32("b", "s", 2, 4), f32()),
            ATTENTION,
        ),
    ),
    (
        "attention",
        OpSample(
            (
                f32(1, "s", 2, 4),
                f32(1, "s", 1, 4),
                f32(1, "s", 1, 4),
                f32(1, 1, "s", 1),
            ),
            {**ATTENTION, "causal": True},
        ),
    ),
    ("reshape", OpSample((f32("n", 2, 3),), {"shape": (6, "n")})),
    ("reshape", OpSample((f32(2, "n"),), {"shape": (1, 2, 1, "n", 1)})),
    ("reverse", OpSample((f32("n", 3),), {"axes": (1,)})),
    (
        "slice",
        OpSample(
            (f32("n", 6),), {"start": (0, 1), "sizes": ("n", 2), "strides": (1, 2)}
        ),
    ),
    (
        "pad",
        OpSample(
            (f32("n", "m"),),
            {"low": (2, 0), "high": (1, -1), "interior": (1, 0), "value": 0.5},
        ),
    ),
    ("concatenate", OpSample((f32(2, 3), f32("n", 3)), {"axis": 0})),
    (
        "normalize",
        OpSample((f32("n", 3),), {"axes": (1,), "epsilon": 1e-5, "centered": True}),
    ),
    (
        "gather",
        OpSample(
            (f32(5, "n"), i32("m")),
            {"axes": (0,), "along": (0,), "kept": (1,), "mode": "clip"},
        ),
    ),
    (
        "scatter_add",
        OpSample(
            (f32(5, "n"), f32(3, "n"), np.array([0, 4, 0], "i4")),
            {"axes": (0,), "along": (0,), "kept": (1,), "mode": "drop"},
        ),
    ),
    ("concatenate", OpSample((f32(2, "n", "m"), f32(2, "k", "m")), {"axis": 1})),
    *[
        (
            "argsort",
            OpSample((of(3, "n"),), {"axis": 1, "descending": back, "count": n}),
        )
        for of in (f32, i32)
        for back, n in ((False, ("n",)), (True, (1,)))
    ],
    *[
        ("gather", OpSample((f32("n", "m"), *at), {**maps, "mode": mode}))
        for mode in ("clip", "drop")
        for at, maps in (
            ((INDICES,), {"axes": (0,), "along": (0,), "kept": (1,)}),
            ((INDICES.astype("u1"),), {"axes": (1,), "along": (1,), "kept": (0,)}),
            ((i32("k", "m"),), {"axes": (0,), "along": (0, 1), "kept": (1,)}),
            ((i32("k"), i32("k")), {"axes": (0, 1), "along": (0,), "kept": ()}),
        )
    ],
    *[
        (op, OpSample((f32(x, 3), f32(many, 3), at), {**ROWS, "mode": mode}))
        for op, mode in (("scatter", "drop"), ("scatter_add", "clip"))
        for x, many, at in (
            ("n", 5, INDICES),
            (4, "m", i32("m")),
            ("n", "m", i32("m")),
        )
    ],
]
CASES = [
    Case(op, f"padded{number}", sample) for number, (op, sample) in enumerate(MORE)
]


def garbage(shape, dtype):
    """An array of what nothing may depend on."""
    kind = dtypes.to_numpy(dtype)
    if dtype == "bool":
        return np.ones(shape, kind)
    return np.full(
        shape, np.nan if dtypes.is_float(dtype) else np.iinfo(kind).min, kind
    )


def call_padded(module, name, arrays, symbols, sizes):
    """The results of a padded entry, as it gives them."""
    types, _ = signature(functions_of(module)[name])
    given = []
    for kind, array in zip(types[:-1], arrays, strict=True):
        shape = tuple(
            n if isinstance(n, int) else m
            for n, m in zip(kind.shape, array.shape, strict=True)
        )
        padded = garbage(shape, kind.dtype)
        padded[tuple(map(slice, array.shape))] = array
        given.append(padded)
    told = np.zeros((*(sizes[each] for each in symbols), 0), "i1")
    return reference.evaluate(module, name, [*given, told])


def pad_entry(module, name, symbols, largest):
    """Make a function an entry, and a padded one of it; returns the name of that."""
    contracts = tuple(Contract(each, 0) for each in symbols)
    types = signature(functions_of(module)[name])
    with context():
        write_entry(module, Entry.flat(name, *types, contracts))
        (entry,) = entries_of(module)
        return add_padded_entry(module, entry, largest)


def check(case, graph, sizes, body=None):
    """Compare the padded op with the op; whether it was padded."""
    case.build(graph, body)
    name, symbols = str(case), case.symbols
    arrays = case.inputs(sizes)
    want = reference.evaluate(graph, name, arrays)
    padded = pad_entry(graph, name, symbols, dict.fromkeys(symbols, BUCKET))
    assert graph.operation.verify()
    got = call_padded(graph, padded, arrays, symbols, sizes)
    for one, other in zip(got, want, strict=True):
        case.assert_equal(one[tuple(map(slice, other.shape))], other)
    return not plain_of(functions_of(graph)[padded].attributes[CUT])


def test_a_padded_op_gives_what_the_op_gives(symbolic_case, graph):
    check(symbolic_case, graph, next(symbolic_case.size_choices()))


@pytest.mark.parametrize("use", CASES, ids=str)
@pytest.mark.parametrize("size", range(4))
def test_an_op_is_padded_along_axes_of_any_size(use, graph, size):
    sizes = {name: 1 + (size + n) % 4 for n, name in enumerate(use.symbols)}
    is_padded = check(use, graph, sizes)
    assert is_padded == (str(use) != "reshape_padded16")


def test_a_gradient_of_attention_is_padded_where_none_of_a_bias_is_read(graph):
    query, key, rows = f32("b", "l", 2, 4), f32("b", "s", 2, 4), f32("b", 2, "l")
    operands = query, key, key, f32(1, 1, 1, "s"), query, rows, rows
    use = Case("attention_gradient", "padded", OpSample(operands, ATTENTION))

    def body(trace, *values):
        return OPS["attention_gradient"].build(*values, **ATTENTION)[:3]

    assert check(use, graph, {"b": 2, "l": 3, "s": 5}, body)


@pytest.mark.parametrize("name", OPS)
def test_an_op_without_a_rule_says_so(name):
    rule = OPS[name].rule("pad")
    assert isinstance(rule, Reason) or rule.__doc__
