"""Hybrid functions leave as packages, whose Python is that of the function."""

import ast
import importlib
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

import aotc
from aotc.artifacts.manifest import Manifest
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
    shown = mixed
    show = lambda: shown
    shown -= 1
    return {"mixed": show(), "count": len(docs)}


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
        ("branching", [(1.0,)], "no-call", "none has reached model.py:44"),
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


CHANGED = '''
"""A module that changes what it has."""
from __future__ import annotations

import functools

import aotc
import aotc.numpy as np
import numpy
from aotc import nn, errors

from .tables import *
from . import tables

try:
    import no_such_library as fast
except ImportError:
    fast = None

TABLE = numpy.zeros((4, 3), "f")
weights = aotc.Weights({"w": TABLE + 1})
TABLE[1] = 5.0
tables.SCALE = 3.0
KNOWN = {}
DEFAULT = 2


def known(function):
    KNOWN[function.__name__] = function
    return function


@known
def doubled(x: nn.Linear) -> np.ndarray:
    return x * 2


def plain(x):
    return functools.reduce(lambda a, b: a + b, x)


class Config:
    scale = 1.0


Config.scale = 9.0
plain.k = 4.0
later = aotc.island(plain)


@aotc.island
def looked(y, k):
    z = KNOWN["doubled"](y) + TABLE[1, 0] + Config.scale + plain.k + k
    total = later([1, 2, tables.SCALE, OFFSET, errors.InputError.exit_code])
    return z.astype("f"), total


@aotc.hybrid
def answer(x, k=DEFAULT, *, weights, m=1):
    y = np.tanh(x) @ weights["w"].T + m
    z, total = looked(numpy.asarray(y), k)
    return {"z": nn.relu(z) + 1, "total": total, "fast": fast}


DEFAULT = 7

if __name__ == "__main__":
    TABLE[1] = 100
'''

_BOTH = """
import json, sys, numpy
sys.path[:0] = sys.argv[1:3]
from {module} import answer
found = answer(numpy.ones((2, 3), "f"), m=2)
compiler = [name for name in sys.modules if "mlir" in name or "aotc.tracing" in name]
print(json.dumps([found["z"].tolist(), found["total"], found["fast"], compiler]))
"""


def _fresh(module, *folders):
    code = [sys.executable, "-c", _BOTH.format(module=module), *map(str, folders)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A package of the user's, whose module `model` has a hybrid function."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "tables.py").write_text("SCALE = 1.0\nOFFSET = 10\n")
    (folder / "mine" / "model.py").write_text(CHANGED)
    return folder


@pytest.fixture(scope="module")
def imported(library):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(library)
        yield importlib.import_module("mine.model")
    for name in ("mine", "mine.model", "mine.tables"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def changed(imported, tmp_path_factory):
    imported.answer(numpy.ones((2, 3), "f"))
    imported.answer(numpy.ones((2, 3), "f"), m=2)
    return imported.answer.export(tmp_path_factory.mktemp("changed") / "package")


def test_a_package_has_what_the_module_has_changed(library, changed):
    *ours, compiler = _fresh("package", changed.parent, library)
    *original, _ = _fresh("mine.model", library, library)
    numpy.testing.assert_allclose(ours[0], original[0], rtol=1e-6)
    assert (ours[1:], compiler) == (original[1:], [])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("TABLE", lambda m: m.TABLE.fill(8)),
        ("Config", lambda m: setattr(m.Config, "scale", 8.0)),
        ("plain", lambda m: setattr(m.plain, "k", 8.0)),
        ("tables.SCALE", lambda m: setattr(m.tables, "SCALE", 8.0)),
        ("KNOWN", lambda m: m.KNOWN.update(other=1)),
        ("OFFSET", lambda m: setattr(m, "OFFSET", 8.0)),
    ],
)
def test_a_module_that_was_changed_since_is_not_exported(
    imported, changed, tmp_path, name, change
):
    table = imported.TABLE.copy()
    change(imported)
    try:
        with pytest.raises(InputError) as caught:
            imported.answer.export(tmp_path / "package")
    finally:
        imported.TABLE[:], imported.OFFSET = table, 10
        imported.tables.SCALE, imported.Config.scale, imported.plain.k = 3.0, 9.0, 4.0
        imported.KNOWN.pop("other", None)
    assert caught.value.code == "bad-hybrid"
    assert f"another value of '{name}' than the module has now" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_verify_compares_the_python_of_a_package(changed, tmp_path, capsys):
    copied = shutil.copytree(changed, tmp_path / "package")
    assert main(["verify", str(copied)]) == 0
    assert "__init__.py" in capsys.readouterr().out
    with (copied / "__init__.py").open("a") as file:
        file.write("print(1)\n")
    assert main(["verify", str(copied)]) == 4
    told = capsys.readouterr().err
    assert "__init__.py was changed after signing" in told
    assert "[digest-mismatch]" in told
    assert main(["verify", str(next(copied.glob("*.aotc")))]) == 0


def test_verify_tells_of_a_package_whose_manifest_has_no_digest(
    changed, tmp_path, monkeypatch, capsys
):
    read = Manifest.read

    def without(raw):
        found = read(raw)
        found.data["hybrid"].pop("module_sha256")
        return found

    monkeypatch.setattr(Manifest, "read", without)
    assert main(["verify", str(changed)]) == 4
    assert "[module-unlisted]" in capsys.readouterr().err


def test_the_first_calls_of_threads_load_once(package, monkeypatch):
    loads = []

    def load(*args, **kwargs):
        loads.append(args)
        time.sleep(0.2)
        return aotc.load(*args, **kwargs)

    monkeypatch.setattr("aotc.runtime.regions.load", load)
    regions = Regions(str(package / "__init__.py"), "lookup-1.0.0.aotc")
    manifest = json.loads(next(package.glob("*/manifest.json")).read_text())
    rows = manifest["hybrid"]["regions"]
    name = next(each["region"] for each in rows if "step" in each["inputs"])
    values = {"mixed": numpy.ones((3, 4), "f"), "step": 2}
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(regions, name, **values) for _ in range(4)]
        assert len({str(each.result()) for each in calls}) == 1
    assert len(loads) == 1


def test_a_file_cannot_write_python_into_a_package(tmp_path):
    name = 'mo"""\nprint("INJECTED")\n"""\\x.py'
    (tmp_path / name).write_text(
        "import aotc\nimport aotc.numpy as np\n\n\n"
        "@aotc.hybrid\ndef answer(x):\n    y = np.tanh(x)\n    return y, str(1)\n"
    )
    module = run_file(tmp_path / name)
    module.answer(numpy.ones((2, 3), "f"))
    package = module.answer.export(tmp_path / "package")
    tree = ast.parse((package / "__init__.py").read_text())
    assert name in ast.get_docstring(tree, clean=False)
    calls = (x for x in ast.walk(tree) if isinstance(x, ast.Call))
    assert all(ast.unparse(each.func) != "print" for each in calls)


REFUSED = {
    "load": ("def load():\n    return 3", "load()", "line 5 gives 'load' a value"),
    "file": ("", "__file__", "reads '__file__'"),
    "start": ("import time\nSTART = time.time()", "START", "another value of 'START'"),
    "compiler": ("", "aotc.numpy.sin(1.0)", "functions of aotc"),
    "compiler elsewhere": ("import using_aotc", "using_aotc.K", "imports the compiler"),
    "jit": ("@aotc.jit\ndef f(x):\n    return x", "f(x)", "line 6 belongs to 'f'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_python_that_would_be_another_in_a_package_is_refused(
    tmp_path, monkeypatch, name
):
    before, result, told = REFUSED[name]
    (tmp_path / "model.py").write_text(
        f"import aotc\nimport aotc.numpy as np\n\n\n{before}\n\n\n"
        f"@aotc.island\ndef look(x):\n    return {result}\n\n\n"
        "@aotc.hybrid\ndef answer(x):\n    y = np.tanh(x)\n"
        "    return y, str(look(numpy.asarray(y)))\n\n\nimport numpy\n"
    )
    (tmp_path / "using_aotc.py").write_text("from aotc.nn import gelu\nK = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = run_file(tmp_path / "model.py")
    module.answer(numpy.ones((2, 3), "f"))
    with pytest.raises(InputError) as caught:
        module.answer.export(tmp_path / "package")
    assert caught.value.code == "bad-hybrid"
    assert told in caught.value.message


@pytest.mark.parametrize("name", ["class", "größe", "a-b"])
def test_the_name_of_a_package_is_one_to_import(module, tmp_path, name):
    with pytest.raises(InputError) as caught:
        module.answer.export(tmp_path / name)
    assert caught.value.code == "bad-option"


def test_a_package_is_not_written_over_another(module, package):
    with pytest.raises(InputError) as caught:
        module.answer.export(package)
    assert caught.value.code == "file-exists"


def test_a_build_refuses_a_hybrid_function(module, capsys):
    assert main(["build", module.__file__ + ":answer"]) != 0
    assert "hybrid-in-build" in capsys.readouterr().err
