"""The model that stands beside a test, compiled for the levels of x86-64 and traced."""

import pytest

import aotc
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import build
from tests.kernels.evaluation import Regions
from tests.machines import require_runs_here

LEVELS = ["x86_64-v3", "x86_64-v4"]


@pytest.fixture(scope="module")
def bundles(request, tmp_path_factory):
    """The bundle of the module's MODEL for a target; built once."""
    known = {}

    def build_for(target):
        if str(target) not in known:
            folder = tmp_path_factory.mktemp(request.module.MODEL.stem)
            asked = {"targets": [target], "self_check": "off", "sign": False}
            report = build(request.module.MODEL, output=folder, **asked)
            known[str(target)] = report.bundle
        return known[str(target)]

    return build_for


@pytest.fixture(scope="module", params=[(x, n) for x in LEVELS for n in (1, 2)])
def compiled(request, bundles):
    """The module's MODEL for each level that runs here, with one thread and two."""
    level, threads = request.param
    target = Target.parse(level)
    require_runs_here(target)
    return aotc.load(bundles(target), allow_unsigned=True, threads=threads)


@pytest.fixture(scope="module")
def terms(request):
    """The module's MODEL with its regions, which are computed by their terms."""
    return Regions.of(request.module.MODEL)


@pytest.fixture(scope="module")
def program(request):
    """The module's MODEL as the reference evaluates it."""
    loaded = load(request.module.MODEL)
    run_passes(loaded.module, ("autodiff",), silently=True)
    return loaded
