"""Sizes that values decide, in ONNX files: NonZero, Compress and Unique."""

import warnings

import numpy as np
import pytest

from aotc import reference
from aotc.core.pytree import flatten
from aotc.errors import InputError

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from aotc.importers.onnx import from_onnx  # noqa: E402
from aotc.importers.onnx.ops import PADDED, TABLE  # noqa: E402

RNG = np.random.default_rng(0)
MIXED = RNG.normal(size=(5, 3)).astype("f4")
ALL, NONE, ONE = np.abs(MIXED), -np.abs(MIXED), -np.abs(MIXED)
ONE[2, 0] = 1
SOME = (MIXED, ALL, ONE)
ANY = (*SOME, NONE, RNG.normal(size=(2, 3)).astype("f4"))

CONSTANTS = {
    "zero": np.float32(0),
    "i0": np.int64(0),
    "i1": np.int64(1),
    "l0": np.array([0]),
    "l1": np.array([1]),
    "less": np.array([-1]),
    "end": np.array([2**62]),
    "one": np.array([1], "f4"),
    "scale": np.ones(3, "f4"),
    "w": RNG.normal(size=(3, 3)).astype("f4"),
}

# the elements above 0, and where they are
ELEMENTS = """
    m = Greater(x, zero)  nz = NonZero(m)  at = Transpose(nz)  v = GatherND(x, at)
"""

# the rows whose first element is above 0
ROWS = """
    first = Gather<axis=1>(x, i0)  m = Greater(first, zero)  nz = NonZero(m)
    idx = Squeeze(nz, l0)  v = Gather(x, idx)
"""

CASES = {
    "elements": (
        ELEMENTS
        + """
        total = ReduceSum<keepdims=0>(v)  square = Mul(v, v)
        set = ScatterND(x, at, square)  add = ScatterND<reduction="add">(x, at, square)
        sizes = Shape(v)  wide = Expand(one, sizes)  more = Add(wide, v)
        twos = ConstantOfShape(sizes)  both = Add(twos, more)
        sum = ReduceSum<keepdims=0>(both)""",
        "total set add sizes sum",
        ANY,
    ),
    "routing": (
        ROWS
        + """
        h = MatMul(v, w)  r = Relu(h)  at = Unsqueeze(idx, l1)  nothing = Sub(x, x)
        y = ScatterND<reduction="add">(nothing, at, r)
        gram = Gemm<transA=1>(v, v)  p = Softmax<axis=0>(h)
        shares = ReduceSumSquare<keepdims=1>(p, l0)
        count = Shape(v)  k = Gather(count, i0)  kf = Cast<to=1>(k)
        all = ReduceSum<keepdims=0>(v)  n = LayerNormalization(v, scale)
        normal = ReduceL1<keepdims=0>(n, l0)""",
        "y gram shares kf all normal",
        ANY,
    ),
    "extremes": (
        ROWS
        + """
        best = ArgMax<axis=0, keepdims=0>(v)  least = ReduceMin<keepdims=0>(v, l0)
        mean = ReduceMean<keepdims=0>(v, l0)  log = ReduceLogSumExp<keepdims=0>(v, l0)
        top, where = TopK<axis=0>(v, l1)
        own = ArgMax<axis=1>(v)  picked = GatherElements<axis=1>(v, own)
        sum = ReduceSum<keepdims=0>(picked)  begin = Gather<axis=0>(v, i0)
        across = CumSum(v, i1)  totals = ReduceSum<keepdims=0>(across, l0)""",
        "best least mean log top where sum begin totals",
        SOME,
    ),
    "shapes": (
        ROWS
        + """
        joined = Concat<axis=0>(v, x)  running = CumSum(joined, i0)
        back = CumSum<reverse=1>(v, i0)  last = ReduceSum<keepdims=0>(back, l0)
        mean = ReduceMean<keepdims=0>(running, l0)
        flat = Reshape(v, less)  length = Shape(flat)  sum = ReduceSum<keepdims=0>(flat)
        rest = Slice(v, l1, end)  behind = ReduceSum<keepdims=0>(rest, l0)
        but = Slice(v, l0, less)  before = ReduceSum<keepdims=0>(but, l0)
        size = Shape(idx)  k = Squeeze(size, l0)  line = Range(i0, k, i1)
        weighted = Mul(line, idx)  numbers = ReduceSum<keepdims=0>(weighted)""",
        "mean last length sum behind before numbers",
        ANY,
    ),
    "compress": (
        """
        first = Gather<axis=1>(x, i0)  m = Greater(first, zero)
        v = Compress<axis=0>(x, m)  y = ReduceSum<keepdims=0>(v, l0)
        flat = Reshape(x, less)  marks = Greater(flat, zero)
        u = Compress(x, marks)  product = ReduceProd<keepdims=0>(u)""",
        "y product",
        ANY,
    ),
    "unique": (
        """
        whole = Round(x)  u, first, which, counts = Unique(whole)
        total = ReduceSum<keepdims=0>(u)  starts = ReduceSum<keepdims=0>(first)
        number = ReduceSum<keepdims=0>(counts)  back = Gather(u, which)""",
        "total starts number back which",
        ANY,
    ),
}

TYPES = {
    "sizes": "int64",
    "best": "int64",
    "where": "int64",
    "length": "int64",
    "numbers": "int64",
    "starts": "int64",
    "number": "int64",
    "which": "int64",
}


def proto_of(nodes, outputs):
    """The model of nodes in ONNX's text form."""
    results = ", ".join(f"{TYPES.get(name, 'float')} {name}" for name in outputs)
    names = sorted(name for name in CONSTANTS if name in nodes.replace(")", ","))
    text = f"""<ir_version: 9, opset_import: ["": 18]>
    net (float[n, 3] x) => ({results}) {{ {nodes} }}"""
    proto = parser.parse_model(text)
    for name in names:
        array = numpy_helper.from_array(np.asarray(CONSTANTS[name]), name)
        proto.graph.initializer.append(array)
    for value in proto.graph.output:  # the results have any rank
        value.type.tensor_type.ClearField("shape")
    return proto


def imported(tmp_path, nodes, outputs):
    """The network of nodes, and what ONNX's reference evaluator makes of them."""
    proto, file = proto_of(nodes, outputs), tmp_path / "net.onnx"
    file.write_bytes(proto.SerializeToString())
    return from_onnx(file), ReferenceEvaluator(proto)


def evaluated(net, x):
    """What the graph of a network computes, by the names of the results."""
    program = net.program()
    (entry,) = program.entries
    stored = [] if net.weights is None else flatten(net.weights.tree)[0]
    found = reference.evaluate(program.module, entry.name, [*stored, x])
    return {port.name: y for port, y in zip(entry.results, found, strict=True)}


def require_equal(net, evaluator, outputs, x):
    """Compare the results with those of ONNX's reference evaluator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = dict(zip(outputs, evaluator.run(None, {"x": x}), strict=True))
    for name, ours in evaluated(net, x).items():
        assert ours.shape == expected[name].shape, name
        np.testing.assert_allclose(ours, expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx_however_many_elements_there_are(name, tmp_path):
    nodes, listed, inputs = CASES[name]
    outputs = listed.split()
    net, evaluator = imported(tmp_path, nodes, outputs)
    for x in inputs:
        require_equal(net, evaluator, outputs, x)


@pytest.mark.parametrize("name", CASES)
def test_nothing_depends_on_what_padding_holds(name, tmp_path, bad_padding):
    bad_padding("aotc.importers.common.padded", "aotc.importers.onnx.ops.padded")
    nodes, listed, _ = CASES[name]
    net, evaluator = imported(tmp_path, nodes, listed.split())
    require_equal(net, evaluator, listed.split(), MIXED)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("", r"the result 'v' has the shape f32\[u0, 3\]"),
        ("y = Det(v)", "no rule for their padding"),
        ("y = LpPool<kernel_shape=[1]>(v)", "no rule for their padding"),
        (
            "t = Transpose(v)  f = Reshape(t, less)  y = Neg(f)",
            r"of f32\[3, u0\] .* no rule",
        ),
    ],
)
def test_refuses_what_has_no_rule_for_padding_at_its_node(nodes, message, tmp_path):
    net, _ = imported(tmp_path, ROWS + nodes, ["y"] if nodes else ["v"])
    with pytest.raises(InputError, match=message) as caught:
        net.program()
    assert caught.value.code == "data-dependent-shape"
    assert "net.onnx:" in caught.value.where
    assert caught.value.hint


def test_calls_without_an_element_have_no_position_of_the_largest(tmp_path):
    nodes = ROWS + "best = ArgMax<axis=0, keepdims=0>(v)"
    net, _ = imported(tmp_path, nodes, ["best"])
    with pytest.raises(InputError, match="at least one element"):
        evaluated(net, NONE)


def test_each_rule_is_of_an_operator_that_is_imported():
    assert not PADDED.keys() - TABLE.keys()
