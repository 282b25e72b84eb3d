"""Attributes, defaults and parts of containers that a function reads are guards."""

import functools
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import numpy as anp

pytestmark = pytest.mark.usefixtures("without_compiler")
X = np.arange(1, 4, dtype="f4")


def cases():
    """Functions, and what changes their results, by what they read."""
    path = Path(__file__).with_name("captured_attributes.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: (function, change) for name, function, change in module.cases()}


@pytest.mark.parametrize("name", cases())
def test_a_change_of_what_was_read_is_seen_by_the_next_call(name):
    function, change = cases()[name]
    compiled = aotc.jit(lambda x: function(anp.asarray(x)))
    before = np.asarray(compiled(X))
    np.testing.assert_array_equal(before, np.asarray(function(X)))
    compiled(X)
    assert len(compiled.variants) == 1
    change()
    after = np.asarray(compiled(X))
    np.testing.assert_array_equal(after, np.asarray(function(X)))
    assert not np.array_equal(before, after)
    compiled(X)
    assert len(compiled.variants) == 2


def test_what_a_trace_keeps_for_itself_is_no_change():
    class Lazy:
        @functools.cached_property
        def k(self):
            return 2.0

    lazy = Lazy()
    compiled = aotc.jit(lambda x: x * lazy.k)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), X * 2)
    assert len(compiled.variants) == 1


def test_fields_that_only_generated_methods_read_are_no_guards():
    @dataclass
    class Step:
        number: int = 0
        scale: float = 2.0

    step = Step()
    compiled = aotc.jit(lambda x: x * step.scale if step.scale > 1 else x)
    for _ in range(3):
        step.number += 1
        compiled(X)
    assert len(compiled.variants) == 1


@pytest.mark.parametrize("name", cases())
def test_regions_of_hybrid_functions_see_the_change_too(name):
    function, change = cases()[name]

    @aotc.hybrid
    def program(x):
        y = anp.asarray(x) * 1.0
        return function(y) + 0.0

    for apply in (lambda: None, change):
        apply()
        for _ in range(2):
            found = np.asarray(program(X))
            np.testing.assert_array_equal(found, np.asarray(function(X)))
