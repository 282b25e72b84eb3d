"""Hybrid functions leave as packages, whose Python is that of the function."""

import json
import subprocess
import sys

import numpy
import pytest

from aotc.cli.main import main
from aotc.errors import InputError
from aotc.importers.python import run_file
from aotc.runtime.regions import Regions, form_of

SOURCE = '''"""A model that looks things up."""
import numpy
import aotc
import aotc.numpy as np
from aotc import nn

source = numpy.random.default_rng(0)
kernel = source.standard_normal((6, 4)).astype("f")
weights = aotc.Weights({"w": numpy.full((6, 4), 0.25, "f")})
table = numpy.arange(40, dtype="f").reshape(10, 4)
seen = []


def nearest(query, k):
    return table[numpy.argsort(numpy.square(table - query).sum(1))[:k]]


@aotc.island
def noted(x):
    seen.append(x.shape)
    return x


@aotc.hybrid
def answer(weights, x, k=2, *, scale=1.0):
    """Look up, and mix."""
    q = nn.relu(x @ weights["w"])
    docs = nearest(numpy.asarray(q.sum(0)), k)
    mixed = noted(nn.softmax(q @ docs.T) @ docs) * scale
    for step in range(3):
        if mixed.max() > -9:
            mixed = mixed / 2 + step
    return {"mixed": mixed, "count": len(docs)}


@aotc.hybrid
def branching(x):
    y = np.tanh(x)
    if y.sum() > 0:
        return y + 1
    return y - 1


@aotc.hybrid
def with_weights(weights, x):
    return np.tanh(x), list(weights)


@aotc.hybrid
def with_functions(x):
    return [np.sin(each) for each in numpy.asarray(np.tanh(x))]


@aotc.hybrid
def with_source(x):
    return np.tanh(x) + source.standard_normal(x.shape).astype("f")


weights2 = aotc.Weights({"w": source.standard_normal(3)})
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("hybrid") / "model.py"
    path.write_text(SOURCE)
    return run_file(path)


def _x(rows):
    return numpy.random.default_rng(rows).standard_normal((rows, 6)).astype("f")


@pytest.fixture(scope="module")
def package(module, tmp_path_factory):
    for rows in (3, 5):
        module.answer(_x(rows))
    return module.answer.export(tmp_path_factory.mktemp("packages") / "lookup")


_DEVICE = """
import sys, json, numpy
import lookup
x = numpy.load(sys.argv[1])
found = lookup.answer(x)
compiler = [name for name in sys.modules if "mlir" in name or "aotc.tracing" in name]
print(json.dumps([found["mixed"].tolist(), found["count"], compiler, lookup.seen]))
"""


def test_a_package_computes_other_sizes_without_a_compiler(module, package, tmp_path):
    numpy.save(tmp_path / "x.npy", _x(7))
    done = subprocess.run(
        [sys.executable, "-c", _DEVICE, tmp_path / "x.npy"],
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    mixed, count, compiler, seen = json.loads(done.stdout)
    expected = module.answer(_x(7))
    numpy.testing.assert_allclose(mixed, expected["mixed"], rtol=1e-5, atol=1e-6)
    assert (count, compiler, seen) == (2, [], [[7, 4]])


def test_the_manifest_lists_boundaries_that_were_measured(package):
    (bundle,) = package.glob("*.aotc")
    found = json.loads((bundle / "manifest.json").read_text())["hybrid"]
    assert found["graph_breaks"] == len(found["boundaries"])
    lookup = next(b for b in found["boundaries"] if "nearest" in b["operation"])
    assert lookup["place"] == "model.py:28"
    assert (lookup["calls"], lookup["bytes_in"], lookup["synchronizations"]) == (
        2,
        32,
        2,
    )


def test_aotc_explain_lists_the_boundaries_of_a_package(package, capsys):
    assert main(["explain", str(package), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["graph_breaks"] == len(document["boundaries"]) > 2
    assert main(["explain", str(package)]) == 0
    assert "nearest" in capsys.readouterr().out
    assert main(["inspect", str(next(package.glob("*.aotc")))]) == 0
    assert "BOUNDARIES" in capsys.readouterr().out


def test_a_number_that_code_was_made_for_is_guarded_on_the_device(package):
    regions = Regions(str(package / "__init__.py"), "lookup-1.0.0.aotc")
    rows = regions.load().manifest.data["hybrid"]["regions"]
    name = next(each["region"] for each in rows if "step" in each["inputs"])
    mixed = numpy.ones((3, 4), "f")
    (halved,) = regions(name, mixed=mixed, step=2)
    numpy.testing.assert_allclose(halved, mixed / 2 + 2)
    for wrong in ({"step": 3}, {"step": 2.0}, {"mixed": mixed.astype("d")}):
        with pytest.raises(InputError) as caught:
            regions(name, **{"mixed": mixed, "step": 2, **wrong})
        assert caught.value.code == "region-guard"
        assert next(iter(wrong)) in caught.value.message


def test_values_of_other_types_are_other_forms():
    forms = [form_of(each)[0] for each in (1, True, 1.0, -1.0, -0.0, 0.0, "1", None)]
    assert len({json.dumps(each) for each in forms}) == len(forms)
    arrays = [numpy.float32(1), numpy.zeros(3), numpy.zeros(3, "f"), [numpy.zeros(3)]]
    assert len({json.dumps(form_of(each)[0]) for each in arrays}) == len(arrays)
    assert form_of(numpy.zeros(3))[0] == form_of(numpy.zeros(4))[0]


@pytest.mark.parametrize(
    ("name", "calls", "code", "told"),
    [
        ("branching", [], "no-call", "a call"),
        ("branching", [(1.0,)], "no-call", "none has reached model.py:41"),
        ("with_weights", [(1.0,)], "bad-hybrid", "weights"),
        ("with_functions", [(1.0,)], "bad-hybrid", "aotc"),
        ("with_source", [(1.0,)], "bad-hybrid", "source"),
    ],
)
def test_what_a_package_cannot_have_is_refused(
    module, tmp_path, name, calls, code, told
):
    function = getattr(module, name)
    for first, *rest in calls:
        function(numpy.full((2, 3), first, "f"), *rest)
    with pytest.raises(InputError) as caught:
        function.export(tmp_path / "package")
    assert caught.value.code == code
    assert told in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_package_is_not_written_over_another(module, package):
    with pytest.raises(InputError) as caught:
        module.answer.export(package)
    assert caught.value.code == "file-exists"


def test_a_build_refuses_a_hybrid_function(module, capsys):
    assert main(["build", module.__file__ + ":answer"]) != 0
    assert "hybrid-in-build" in capsys.readouterr().err
