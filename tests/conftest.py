"""Settings of tests: which run, on how many cores; how Hypothesis draws.

`pytest` runs what `full.txt` does not name, on all cores, and says what it leaves out.
`pytest --full` runs that too, as does a run that names files, folders or markers. Both
leave out what is marked slow. `--cpu-times FOLDER` writes how much processor time each
test takes, with its fixtures and the processes that it starts: `full.txt` is chosen by
that (`benchmarks/quick_tests.py`). Modules that were compiled are kept for the next run
(`.pytest_cache`; `--cache-clear` removes them), but in CI and with `--cpu-times`.

Hypothesis draws anew on every run, but the same examples in CI. Time limits per example
are off, because compilers and shared machines take their time.
"""

import gc
import json
import os
import resource
import signal
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from aotc.core import collecting
from aotc.machine.target import Target

# what these compare is shown like what a test compares
pytest.register_assert_rewrite("tests.comparing", "tests.refusals")

FULL = Path(__file__).with_name("full.txt")
# What tests compare with, that need not be installed.
_USUAL = "not slow"  # of `-m`, by pyproject.toml
PEERS = (
    "torch",
    "torchao",
    "onnx",
    "onnxruntime",
    "gguf",
    "jax",
    "matplotlib",
    "sphinx",
)

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# One CPU target for a build that names none: compiles dominate the time of the tests.
os.environ["AOTC_TARGETS"] = str(Target.parse("cpu"))
# What a test builds goes through all stages: the cache has tests of its own.
os.environ["AOTC_CACHE"] = "off"
# As many processes as cores run at a time: threads that wait for more would only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Builds verify what a stage leaves; here no pass may leave IR that the next one mends.
os.environ["AOTC_VERIFY_EACH"] = "1"


@pytest.fixture(scope="session", autouse=True)
def compile_once(tmp_path_factory, pytestconfig):
    """Equal modules are compiled once, by whichever process of this or another run."""
    from aotc import backend
    from tests.compiled_modules import CompiledModules

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "compiled").mkdir(exist_ok=True)
    modules = CompiledModules(folder / "compiled", _kept_modules(pytestconfig))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "_run", modules)
        yield


def _kept_modules(config):
    """The folder of modules that runs share; None in CI, and where one measures."""
    if os.environ.get("CI") or config.option.cpu_times or not hasattr(config, "cache"):
        return None
    return config.cache.mkdir("compiled")


@pytest.fixture
def compile_anew(compile_once, monkeypatch):
    """Take nothing from what other tests compiled: for tests of compiling itself."""
    from aotc import backend

    monkeypatch.setattr(backend, "_run", backend._run.compile)


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def deadly_lowering():
    """A `lower` rule of unary ops on floats: its code ends the process (SIGFPE)."""
    from aotc.dialects.types import Tensor
    from aotc.mlir import arith, ir

    def divide_by_zero(element):
        number, whole = element.type, ir.IntegerType.get_signless(64)
        most, none = (
            arith.fptosi(
                whole, arith.mulf(element, arith.ConstantOp(number, scale).result)
            )
            for scale in (1e4, 1e-9)
        )
        return arith.sitofp(number, arith.divsi(most, none))

    def lower(low, op, x):
        return low.pointwise([x], Tensor.of(op.y), divide_by_zero)

    return lower


@pytest.fixture
def without_compiler():
    """Code is what the reference evaluator computes; all around it is as ever."""
    from benchmarks.fuzz import evaluated

    with evaluated.without_compiler():
        yield


# ---- which tests are run, and where -------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run what full.txt names, too")
    parser.addoption("--cpu-times", metavar="FOLDER", help="write what each test takes")


def _is_whole(config):
    """Return whether a run is of all tests: it names no files or folders."""
    return config.args_source is not pytest.Config.ArgsSource.ARGS


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Use all cores where many files are run and nobody wants to look on."""
    option = config.option
    looks_on = option.usepdb or option.trace or option.capture == "no"
    if not _is_whole(config) or looks_on or option.collectonly:
        return
    if getattr(option, "numprocesses", 0) is None and not hasattr(
        config, "workerinput"
    ):
        # A file of tests stays on one worker: fixtures of a module are made once.
        option.numprocesses, option.dist = "auto", "loadfile"


def _full_only():
    """The beginnings of the names of tests that are not for every run."""
    lines = FULL.read_text(encoding="utf-8").splitlines()
    names = (line.partition("#")[0].strip() for line in lines)
    return tuple(name for name in names if name)


def _is_named(nodeid, names):
    """Return whether a name is that of the test, or of its file, class or function."""
    return any(
        nodeid == name or nodeid.startswith((f"{name}::", f"{name}[")) for name in names
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Keep the garbage collector from going through the tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(collecting.THRESHOLD, *gc.get_threshold()[1:])


def pytest_unconfigure():
    """Unfreeze what is left, which is garbage like any other; extensions warn of it."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what `full.txt` names, where all tests are asked for."""
    option = config.option
    left_out = Counter(slow=sum(bool(x.get_closest_marker("slow")) for x in items))
    chooses = option.full or option.keyword or option.markexpr not in ("", _USUAL)
    if _is_whole(config) and not chooses:
        names = _full_only()
        full = [item for item in items if _is_named(item.nodeid, names)]
        left_out["full"] = len(full)
        config.hook.pytest_deselected(items=full)
        chosen = set(items).difference(full)
        items[:] = [item for item in items if item in chosen]
    if option.markexpr != _USUAL:
        left_out["slow"] = 0
    config.stash[_LEFT_OUT] = left_out


_LEFT_OUT = pytest.StashKey[Counter]()


def pytest_sessionfinish(session):
    """A worker tells what it has left out; the main process removes old modules."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(config.stash.get(_LEFT_OUT, {}))
    elif (kept := _kept_modules(config)) is not None:
        from tests.compiled_modules import remove_unused

        remove_unused(kept)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Take what a worker tells."""
    told = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash[_LEFT_OUT] = Counter(told)


def pytest_terminal_summary(terminalreporter, config):
    """Say what was not run."""
    left_out, say = config.stash.get(_LEFT_OUT, {}), terminalreporter.write_line
    if left_out.get("full"):
        say(f"left out: {left_out['full']} tests that `pytest --full` runs, as CI does")
    if left_out.get("slow"):
        say(f"left out: {left_out['slow']} long sweeps (`pytest -m slow`)")
    missing = [name for name in PEERS if find_spec(name) is None]
    if missing and terminalreporter.stats.get("skipped"):
        say(f"not installed, so tests that need them are skipped: {', '.join(missing)}")


# ---- what each test takes -----------------------------------------------------------


def _cpu_seconds():
    """Return the seconds of this process, and of ended ones that it has started."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Write what a test takes with the fixtures that are made for it."""
    before = _cpu_seconds()
    try:
        return (yield)
    finally:
        if folder := item.config.option.cpu_times:
            row = {"test": item.nodeid, "seconds": round(_cpu_seconds() - before, 3)}
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            Path(folder).mkdir(parents=True, exist_ok=True)
            with open(Path(folder, f"{worker}.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
