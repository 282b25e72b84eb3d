"""Imports go one way: the order of the pipeline, read from the sources."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A module may import from its own layer and from those listed for it.
LEAVES = {"errors", "counting", "core", "machine"}
EDGE = LEAVES | {"artifacts", "parallel"}
MODEL = EDGE | {"mlir", "dialects"}
PROGRAM = MODEL | {"programs"}
TRACING = PROGRAM | {"tracing"}
ALLOWED = {
    "errors": set(),
    "counting": {"errors"},
    "core": {"errors", "counting"},
    "machine": {"errors", "core"},
    "traffic": LEAVES,
    "artifacts": LEAVES,
    "parallel": LEAVES | {"artifacts"},
    "runtime": EDGE,
    "training": EDGE | {"runtime"},
    "streaming": EDGE | {"runtime"},
    "worker": set(),
    "processes": LEAVES | {"worker"},
    "timing": EDGE | {"runtime", "processes"},
    "mlir": LEAVES,
    "dialects": MODEL,
    "programs": MODEL | {"kernels"},  # a program that is read has kernels to verify
    # what a model.py is written with
    "tracing": PROGRAM | {"runtime"},  # calls of entries are checked as the loader does
    "numpy": TRACING,
    "random": TRACING | {"numpy"},
    "special": TRACING | {"numpy"},
    "complexes": TRACING | {"numpy"},
    "fft": TRACING | {"numpy", "complexes"},
    "optim": TRACING | {"numpy", "random"},
    "debug": TRACING,
    "collectives": TRACING | {"numpy"},
    "transforms": TRACING | {"numpy"},
    "control": TRACING | {"numpy"},
    "linalg": TRACING | {"numpy", "control"},
    "nn": TRACING | {"numpy", "random", "special", "control"},
    "solvers": TRACING | {"numpy", "linalg", "control", "transforms"},
    "weight_formats": TRACING | {"numpy", "nn"},
    # what brings models in
    "importers": TRACING
    | {"numpy", "nn", "random", "optim", "transforms", "control"}
    | {"linalg", "special", "complexes", "fft", "debug", "processes"},
    # what becomes of them
    "kernels": MODEL | {"worker"},
    "passes": PROGRAM | {"kernels"},
    "reference": MODEL | {"passes"},
    "backend": PROGRAM | {"kernels", "passes", "worker", "processes"},
    "checks": TRACING
    | {"importers", "passes", "reference", "backend", "runtime", "processes"}
    | {"packager", "kernels"},
    "quantization": TRACING
    | {"importers", "passes", "reference", "numpy", "nn", "kernels"},
    "tuning": PROGRAM | {"kernels", "passes", "backend", "checks", "runtime"},
    "packager": PROGRAM | {"backend"},
    "pipeline": PROGRAM
    | {"importers", "passes", "backend", "packager", "checks", "tuning"}
    | {"quantization", "tracing", "traffic", "kernels"},
    "just_in_time": TRACING
    | {"passes", "backend", "packager", "pipeline", "runtime", "reference"}
    | {"checks", "numpy"},  # operators of arrays
    "foreign": TRACING | {"importers", "hybrid_programs"},
    "hybrid_programs": TRACING
    | {"importers", "just_in_time", "packager", "pipeline", "passes"}
    | {"runtime", "complexes", "processes"},
    "explain": TRACING | {"importers", "passes", "backend", "pipeline", "kernels"},
    "cli": EDGE
    | {"runtime", "training", "streaming", "timing", "pipeline", "explain"}
    | {"checks", "dialects", "evidence", "traffic", "quantization"},
    "evidence": TRACING
    | {"importers", "pipeline", "runtime", "timing", "traffic", "just_in_time"}
    | {"processes"},
}
# These look a name up in the packages above when a model has got it wrong: what they
# find goes into the message alone.
ADVICE = {"aotc.tracing.spellings", "aotc.tracing.libraries", "aotc.core.deferring"}
_MODULE = re.compile(r"(aotc(?:\.[a-z_0-9]+)+)(?::\w+)?")


def _layer(module: str) -> str:
    return module.split(".")[1] if module.count(".") else "aotc"


def _modules():
    for folder, prefix in (
        ("aotc", "aotc"),
        *((d, f"aotc.{d}") for d in ("dialects", "passes", "cli", "artifacts")),
    ):
        for file in sorted((ROOT / folder).glob("**/*.py")):
            relative = file.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((prefix, *relative)).removesuffix(".__init__"), file


def _imported(tree):
    """The modules that a file imports, at its top or on use, by statement or by name.

    What only static tools read is left out, and names that something is compared with.
    """
    passed_over = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                is_module = node.module == "aotc" or inner in MODULES
                yield inner if is_module else node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = _MODULE.fullmatch(node.value)
            if named and named[1] in MODULES:
                yield named[1]


MODULES = {module for module, _ in _modules()}


@cache
def _imports():
    """What each module imports: modules, of ours as far in as can be."""
    return {
        module: tuple(_imported(ast.parse(file.read_text(encoding="utf-8"))))
        for module, file in _modules()
    }


def _edges():
    """What imports what, between layers: pairs of modules."""
    for module, names in _imports().items():
        if _layer(module) == "aotc" or module in ADVICE:
            continue
        for name in names:
            is_own = name.startswith("aotc.") and name != "aotc.__version__"
            if is_own and _layer(name) != _layer(module):
                yield module, name


def _rest_without_ends(needed):
    """What is left of a graph when all that needs nothing of it is gone, over again."""
    needed = {at: set(used) for at, used in needed.items()}
    while free := [at for at, used in needed.items() if not used & needed.keys()]:
        for at in free:
            del needed[at]
    return sorted(needed)


def test_no_import_points_back():
    wrong = [
        f"{module} imports {name}"
        for module, name in _edges()
        if _layer(name) not in ALLOWED[_layer(module)]
    ]
    assert wrong == []


def test_no_layers_import_each_other():
    """Neither at the top nor on use; the leaves are one layer."""

    def node(module):
        return "leaves" if _layer(module) in LEAVES else _layer(module)

    needed = {node(module): set() for module in MODULES}
    for module, name in _edges():
        if node(name) != node(module):
            needed[node(module)].add(node(name))
    assert _rest_without_ends(needed) == []


def test_no_modules_import_each_other():
    """Neither at the top nor on use, within a layer too."""
    needed = {
        module: () if module in ADVICE else set(names) - {module}
        for module, names in _imports().items()
    }
    assert _rest_without_ends(needed) == []


@pytest.mark.parametrize("package", ["aotc.dialects", "aotc.hybrid_programs"])
def test_no_floors_of_a_package_import_each_other(package):
    """A floor is a folder of the package, or a module of its own."""
    prefix = package + "."

    def floor(module):
        return module.removeprefix(prefix).split(".")[0]

    needed = {floor(module): set() for module in MODULES if module.startswith(prefix)}
    for module, names in _imports().items():
        if module.startswith(prefix):
            used = {floor(name) for name in names if name.startswith(prefix)}
            needed[floor(module)] |= used - {floor(module)}
    assert _rest_without_ends(needed) == []


def test_no_layer_is_there_for_tests_alone():
    """What they share with the benchmarks lies below tests/, and is not installed."""
    used = {
        _layer(name)
        for module, names in _imports().items()
        for name in names
        if _layer(name) != _layer(module)
    }
    for_users = {"aotc", "cli", "collectives", "solvers"}
    assert {_layer(module) for module in MODULES} - used <= for_users


def test_emitters_of_kernels_are_called_by_the_lowering_alone():
    """What may fuse, and how it is cut up, is known without any of their code.

    Kernels of one structure are compiled once: that pass reads what they have written.

    Kernels of GPUs are planned by the terms of regions, and whether there is code for
    these, their emitter says: the table of what there is asks its `families`.
    """
    emitters = "aotc.kernels.cpu", "aotc.kernels.gpu.dispatch"

    def is_emitter(module):
        return any(f"{module}.".startswith(f"{each}.") for each in emitters)

    calls = {
        (module, name)
        for module, names in _imports().items()
        for name in names
        if is_emitter(name) and not is_emitter(module)
    }
    lowering = "aotc.passes.lower_to_linalg"
    assert calls == {
        (lowering, "aotc.kernels.cpu.dispatch"),
        (lowering, "aotc.kernels.gpu.dispatch"),
        ("aotc.passes.share_kernels", "aotc.kernels.cpu.shared_code"),
    }


def test_the_table_of_families_is_asked_through_capabilities():
    """Another target may have others, or the same with other operands."""
    asked = {
        module
        for module, names in _imports().items()
        if "aotc.kernels.families" in names
    }
    assert asked == {"aotc.kernels.capabilities", "aotc.kernels.cpu.dispatch"}


def test_no_import_is_relative():
    """The tests here read which modules are imported from the statements alone."""
    relative = [
        f"{module}, line {node.lineno}"
        for module, file in _modules()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_the_bindings_are_imported_in_one_place():
    users = [
        module
        for module, names in _imports().items()
        for name in names
        if name.split(".")[0] in ("torch_mlir", "mlir")
    ]
    assert users == []  # aotc.mlir imports them by name, and nothing else does
