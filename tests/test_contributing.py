"""What CONTRIBUTING.md says of an addition is all it takes, in a copy of the tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

OP = '''

class Softsquare(Unary, name="softsquare"):
    """y = x / (1 + x**2)."""

    why = "a test adds it"
    dtypes = dt.FLOATS
    ref = staticmethod(lambda x: x / (1 + x * x))

    @staticmethod
    def derivative(b: Builder, op: "Softsquare") -> Value:
        """(1 - x**2) / (1 + x**2)**2."""
        one, square = b.full_like(op.x, 1.0), b.multiply(op.x, op.x)
        below = b.add(one, square)
        return b.divide(b.subtract(one, square), b.multiply(below, below))

    @staticmethod
    def lower(low: Lowering, op: "Softsquare", x: Value) -> Value:
        """By the formula."""

        def scalar(element: Value) -> Value:
            one = scalars.constant(element.type, 1.0)
            below = arith.addf(one, arith.mulf(element, element))
            return arith.divf(element, below)

        return low.pointwise([x], Tensor.of(op.y), scalar)
'''

PASS = '''"""Leave sines out.

    %1 = graph.sin(%0)  →  %0
"""

from dataclasses import dataclass

from aotc.dialects.functions.functions import functions_of
from aotc.passes.base import Pass, Unit


@dataclass(frozen=True)
class DropOps(Pass):
    """Leave the ops of one name out."""

    op: str = "graph.sin"
    most: int = 9

    name = "drop-ops"
    level = 1
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Whether there were any."""
        found = [
            op
            for function in functions_of(unit.module).values()
            for op in function.entry_block.operations
            if op.operation.name == self.op
        ]
        for op in found[: self.most]:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.operation.erase()
        return bool(found)
'''

TARGET = """    Target(
        name="vmvx-again",
        summary="what a test adds",
        backend="vmvx",
        needs="any CPU",
        flags=(
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=vmvx",
        ),
    ),
    Target(
        name="dsp",
        summary="what a test adds",
        backend="dsp-elf",
        needs="a signal processor of type dsp2",
        flags=("--iree-hal-target-device=dsp",),
    ),
]

TARGETS ="""

BACKEND = """    Backend(
        name="dsp-elf",
        drivers=("dsp",),
        speed_class=1,
        check=dsp.check,
        has_driver=dsp.has_driver,
    ),
]

BACKENDS ="""

RULE = '''"""Code for the signal processor of a test."""

from aotc.artifacts.backends.backend import section
from aotc.artifacts.verdicts import unsupported


def check(target, host):
    """Only computers with a 64-bit Arm processor have one."""
    if host.arch == "aarch64":
        return []
    return [unsupported("dsp", f"expected an Arm computer, got {host.arch}")]


def has_driver(device):
    """A profile says so under its name."""
    return bool(section(device, "dsp"))
'''

MODEL = """
import aotc
from aotc import numpy as np
from aotc.tracing.tracing import emit

@aotc.entry(x=aotc.Spec(("n",)))
def f(x):
    return np.sin(emit("softsquare", x))

@aotc.entry(x=aotc.Spec(()))
def slope(x):
    return aotc.grad(lambda x: emit("softsquare", x))(x)
"""

TRIAL = """
import sys
import numpy as np
import onnx
from onnx import helper
import aotc
from aotc import pipeline
from aotc.machine.target import Target
import json

assert "copy" in aotc.__file__, aotc.__file__
report = pipeline.build(
    "model.py",
    targets=[Target.parse("vmvx-again")],
    passes="autodiff, inline, drop-ops{most=2}, cse",
    sign=False,
    self_check="off",
)
model = aotc.load(report.bundle, allow_unsigned=True)
x = np.linspace(-2, 2, 5, dtype="f4")
np.testing.assert_allclose(model.f(x=x), x / (1 + x * x), rtol=1e-6)
np.testing.assert_allclose(model.slope(x=np.float32(3)), -8 / 100, rtol=1e-5)
(row,) = json.loads((report.bundle / "manifest.json").read_bytes())["variants"]
assert row["id"] == "vmvx-again", row
assert "drop-ops{op=graph.sin,most=2}" in row["passes"], row

value = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("Softsquare", ["x"], ["y"])],
    "g",
    [value("x", onnx.TensorProto.FLOAT, [5])],
    [value("y", onnx.TensorProto.FLOAT, [5])],
)
onnx.save(helper.make_model(graph), "net.onnx")
from aotc import reference
from aotc.importers import load
from pathlib import Path

(y,) = reference.evaluate(load(Path("net.onnx")).module, "main", [x])
np.testing.assert_allclose(y, x / (1 + x * x), rtol=1e-6)

from aotc.artifacts import Host, Manifest, select
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.rollout.candidates import candidate_targets
from aotc.errors import SetupError
from aotc.runtime import engine

document = json.loads((report.bundle / "manifest.json").read_bytes())
dsp = row | {"id": "dsp", "backend": "dsp-elf", "target": {"name": "dsp"}}
manifest = Manifest(document | {"variants": [row, dsp]})
local, more = ["local-sync", "local-task"], ["local-sync", "local-task", "dsp"]
version = engine.iree_version()
arm, x86 = {"arch": "aarch64"}, {"arch": "x86_64"}
assert select(manifest, Host.from_device(arm, version, more)).variant.id == "dsp"
without = select(manifest, Host.from_device(arm, version, local))
assert without.fallback, without
assert "expected the driver dsp" in str(without.passed_over[0]), without
other = select(manifest, Host.from_device(x86, version, more))
assert "expected an Arm computer, got x86_64" in str(other.passed_over[0]), other
assert candidate_targets(Host.from_device(arm, version, more))[0] == "dsp"
assert "dsp" not in candidate_targets(Host.from_device(x86, version, more))
assert BACKENDS["dsp-elf"].has_driver({"dsp": {"devices": [{}]}})
assert engine.host({"dsp-elf"}).drivers == set(local)
try:
    engine.device("dsp-elf", None)
except SetupError as error:
    assert "expected the IREE driver dsp" in error.message, error
else:
    raise AssertionError("there is no driver dsp")
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the package as it is installed."""
    package = tmp_path / "copy" / "aotc"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "aotc", package, ignore=ignored)
    for name in ("dialects", "passes", "cli", "artifacts"):
        shutil.copytree(ROOT / name, package / name, ignore=ignored)
    return package


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_additions_take_what_the_guide_says(tree, tmp_path):
    pytest.importorskip("onnx")
    with (tree / "dialects/ops/unary.py").open("a", encoding="utf-8") as file:
        file.write(OP)
    (tree / "passes/drop_ops.py").write_text(PASS, encoding="utf-8")
    line = '    "drop-ops": "aotc.passes.drop_ops:DropOps",\n    "prune":'
    _replace(tree / "passes/__init__.py", '    "prune":', line)
    _replace(tree / "machine/target.py", "]\n\nTARGETS =", TARGET)
    backends = tree / "artifacts/backends"
    (backends / "dsp.py").write_text(RULE, encoding="utf-8")
    _replace(backends / "__init__.py", "]\n\nBACKENDS =", BACKEND)
    _replace(
        backends / "__init__.py",
        "import cpu, cuda, rocm",
        "import cpu, cuda, dsp, rocm",
    )
    rule = '    "Softsquare": lambda x: np.divide(x, 1 + x * x),\n    "Celu": celu,'
    _replace(tree / "importers/onnx/ops/activations.py", '    "Celu": celu,', rule)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", TRIAL],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tree.parent), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
