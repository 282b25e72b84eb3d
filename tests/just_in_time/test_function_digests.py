"""Whether other processes may take a function's code without tracing it."""

import functools
import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from aotc.just_in_time.function_digests import function_digest

PREAMBLE = """
import collections, dataclasses, functools, itertools, math, os, random, time, typing
import numpy
import aotc
import aotc.numpy as np
from aotc import nn
from aotc.numpy import tanh
"""

# one program and another one, whose traces may differ
CHANGES = {
    "a constant": ("def f(x): return x * 2", "def f(x): return x * 3"),
    "an operator": ("def f(x): return x * 2", "def f(x): return x + 2"),
    "a sign of zero": ("def f(x): return x * 0.0", "def f(x): return x * -0.0"),
    "a type": ("K = 1\ndef f(x): return x * K", "K = True\ndef f(x): return x * K"),
    "a function of aotc": ("def f(x): return np.sin(x)", "def f(x): return np.cos(x)"),
    "a name of it": (
        "g = np.sin\ndef f(x): return g(x)",
        "g = np.cos\ndef f(x): return g(x)",
    ),
    "a helper": (
        "def g(x): return x + 1\ndef f(x): return g(x)",
        "def g(x): return x + 2\ndef f(x): return g(x)",
    ),
    "a helper's helper": (
        "K = 1\ndef h(): return K\ndef g(x): return x + h()\ndef f(x): return g(x)",
        "K = 2\ndef h(): return K\ndef g(x): return x + h()\ndef f(x): return g(x)",
    ),
    "a default": ("def f(x, n=2): return x * n", "def f(x, n=3): return x * n"),
    "a keyword's default": (
        "def f(x, *, n=2): return x * n",
        "def f(x, *, n=3): return x * n",
    ),
    "a closure": (
        "def make(n):\n    def f(x): return x * n\n    return f\nf = make(2)",
        "def make(n):\n    def f(x): return x * n\n    return f\nf = make(3)",
    ),
    "a part of a dict": (
        "C = {'n': 2}\ndef f(x): return x * C['n']",
        "C = {'n': 3}\ndef f(x): return x * C['n']",
    ),
    "an element": (
        "A = numpy.zeros(3)\ndef f(x): return x + A",
        "A = numpy.array([0.0, 0, 1])\ndef f(x): return x + A",
    ),
    "the dtype of an array": (
        "A = numpy.zeros(2, 'i8')\ndef f(x): return x + A",
        "A = numpy.zeros(2, 'f8')\ndef f(x): return x + A",
    ),
    "a method": (
        "class C:\n    def g(self, x): return x + 1\nc = C()\ndef f(x): return c.g(x)",
        "class C:\n    def g(self, x): return x + 2\nc = C()\ndef f(x): return c.g(x)",
    ),
    "an attribute": (
        "class C:\n    def __init__(self): self.n = 1\nc = C()\n"
        "def f(x): return x * c.n",
        "class C:\n    def __init__(self): self.n = 2\nc = C()\n"
        "def f(x): return x * c.n",
    ),
    "a slot": (
        "class C:\n    __slots__ = ('n',)\nc = C()\nc.n = 1\ndef f(x): return x * c.n",
        "class C:\n    __slots__ = ('n',)\nc = C()\nc.n = 2\ndef f(x): return x * c.n",
    ),
    "what a base class has": (
        "class B:\n    n = 1\nclass C(B): pass\ndef f(x): return x * C.n",
        "class B:\n    n = 2\nclass C(B): pass\ndef f(x): return x * C.n",
    ),
    "a property": (
        "class C:\n    @property\n    def n(self): return 1\nc = C()\n"
        "def f(x): return x * c.n",
        "class C:\n    @property\n    def n(self): return 2\nc = C()\n"
        "def f(x): return x * c.n",
    ),
    "a field": (
        "@dataclasses.dataclass(frozen=True)\nclass C:\n    n: int = 1\nc = C(2)\n"
        "def f(x): return x * c.n",
        "@dataclasses.dataclass(frozen=True)\nclass C:\n    n: int = 1\nc = C(3)\n"
        "def f(x): return x * c.n",
    ),
    "a field's default": (
        "@dataclasses.dataclass\nclass C:\n    n: int = 1\ndef f(x): return x * C().n",
        "@dataclasses.dataclass\nclass C:\n    n: int = 2\ndef f(x): return x * C().n",
    ),
    "a part of a named tuple": (
        "P = collections.namedtuple('P', 'a b')\np = P(1, 2)\ndef f(x): return x * p.a",
        "P = collections.namedtuple('P', 'a b')\np = P(2, 2)\ndef f(x): return x * p.a",
    ),
    "the order of names": (
        "P = collections.namedtuple('P', 'a b')\ndef f(x): return x * P(1, 2).a",
        "P = collections.namedtuple('P', 'b a')\ndef f(x): return x * P(1, 2).a",
    ),
    "a method of a named tuple": (
        "class P(typing.NamedTuple):\n    a: int\n    def g(self): return 1\n"
        "p = P(2)\ndef f(x): return x * p.g()",
        "class P(typing.NamedTuple):\n    a: int\n    def g(self): return 2\n"
        "p = P(2)\ndef f(x): return x * p.g()",
    ),
    "an argument of a partial": (
        "g = functools.partial(pow, 2)\ndef f(x): return x * g(3)",
        "g = functools.partial(pow, 3)\ndef f(x): return x * g(3)",
    ),
    "what a wrapper stands for": (
        "def d(g):\n    @functools.wraps(g)\n    def c(x): return g(x)\n    return c\n"
        "@d\ndef f(x): return x + 1",
        "def d(g):\n    @functools.wraps(g)\n    def c(x): return g(x)\n    return c\n"
        "@d\ndef f(x): return x + 2",
    ),
    "what is differentiated": (
        "def g(x): return (x * x).sum()\nf = aotc.grad(g)",
        "def g(x): return (x * x * x).sum()\nf = aotc.grad(g)",
    ),
    "the rule of a function": (
        "@aotc.custom_jvp\ndef f(x): return x\n"
        "@f.defjvp\ndef rule(p, t): return f(p[0]), t[0]",
        "@aotc.custom_jvp\ndef f(x): return x\n"
        "@f.defjvp\ndef rule(p, t): return f(p[0]), 2 * t[0]",
    ),
    "a builtin that has another meaning": (
        "def f(x): return x * max(1, 2)",
        "def max(*a): return 1\ndef f(x): return x * max(1, 2)",
    ),
    "an inner function": (
        "def f(x):\n    g = lambda y: y + 1\n    return g(x)",
        "def f(x):\n    g = lambda y: y + 2\n    return g(x)",
    ),
    "what an inner function reads": (
        "K = 1\ndef f(x): return [x * K for _ in range(2)][0]",
        "K = 2\ndef f(x): return [x * K for _ in range(2)][0]",
    ),
    "a default of a named tuple": (
        "P = collections.namedtuple('P', 'a', defaults=(1,))\n"
        "def f(x): return x * P().a",
        "P = collections.namedtuple('P', 'a', defaults=(2,))\n"
        "def f(x): return x * P().a",
    ),
    "what a class that is written makes of a field": (
        "@dataclasses.dataclass(init=False)\nclass C:\n    n: int\n"
        "    def __init__(self, n): self.n = n + 1\ndef f(x): return x * C(1).n",
        "@dataclasses.dataclass(init=False)\nclass C:\n    n: int\n"
        "    def __init__(self, n): self.n = n + 2\ndef f(x): return x * C(1).n",
    ),
    "what is noted of a field": (
        "@dataclasses.dataclass\nclass C:\n"
        "    n: int = dataclasses.field(default=1, metadata={'k': 1})\nc = C()\n"
        "def f(x): return x * c.n",
        "@dataclasses.dataclass\nclass C:\n"
        "    n: int = dataclasses.field(default=1, metadata={'k': 2})\nc = C()\n"
        "def f(x): return x * c.n",
    ),
    "the derivative of a function of aotc": (
        "from aotc.numpy.trigonometric import sin as g\nf = aotc.grad(g)",
        "from aotc.numpy.trigonometric import sin as f",
    ),
    "a dtype": (
        "D = numpy.dtype('f4')\ndef f(x): return np.astype(x, D)",
        "D = numpy.dtype('f8')\ndef f(x): return np.astype(x, D)",
    ),
}

# functions of which nobody knows what they do in another process, or after this call
UNKNOWN = {
    "the environment": "def f(x): return x * float(os.environ['K'])",
    "the time": "def f(x): return x * time.time()",
    "random numbers": "def f(x): return x * random.random()",
    "NumPy's random numbers": "def f(x): return x * numpy.random.rand()",
    "a generator of them": "g = numpy.random.default_rng(0)\n"
    "def f(x): return x * g.normal()",
    "a file": "def f(x): return x * float(open('k').read())",
    "an array in a file": "def f(x): return x + numpy.load('k.npy')",
    "a model": "def f(x): return aotc.load('k.aotc').call(x)",
    "a function of two kinds": "@functools.singledispatch\ndef g(x): return x\n"
    "def f(x): return g(x)",
    "an array that it computes into": "A = numpy.zeros(2)\n"
    "def f(x):\n    numpy.add(A, 1, out=A)\n    return x + A",
    "an array that it adds to": "A = numpy.zeros(2)\n"
    "def f(x):\n    numpy.add.at(A, 0, 1)\n    return x + A",
    "an item that it sets": "L = [1]\nimport operator\n"
    "def f(x):\n    operator.setitem(L, 0, 2)\n    return x",
    "today": "def f(x): return x * int(str(numpy.datetime64('now'))[-1])",
    "an object that others have": "class C:\n"
    "    def __new__(cls): return ONLY\n    def __init__(self): self.n = 1\n"
    "ONLY = object.__new__(C)\ndef f(x): return x * C().n",
    "a package that it imports": "def f(x):\n    import aotc.numpy\n"
    "    return aotc.load('k').call(x)",
    "something printed": "def f(x):\n    print(x.shape)\n    return x",
    "an identity": "def f(x): return x * (id(f) % 7)",
    "an iterator": "i = itertools.count()\ndef f(x): return x * next(i)",
    "a generator": "i = (n for n in range(9))\ndef f(x): return x * next(i)",
    "an attribute of something else": "class C:\n    def __init__(self, o): o.n = 1\n"
    "def f(x): return C(f)",
    "__init__ of something else": "class C:\n    def __init__(self): self.n = 1\n"
    "c = C()\ndef f(x): return c.__init__()",
    "a global": "def f(x):\n    global K\n    K = 2\n    return x",
    "an outer variable": "def make():\n    n = 0\n    def f(x):\n"
    "        nonlocal n\n        n += 1\n        return x\n    return f\nf = make()",
    "a list that it changes": "L = []\ndef f(x):\n    L.append(1)\n    return x",
    "a list that it extends": "L = []\ndef f(x):\n    m = L\n    m += L\n    return x",
    "a dict that it changes": "D = {}\ndef f(x):\n    D['n'] = 1\n    return x",
    "an array that it changes": "A = numpy.zeros(2)\n"
    "def f(x):\n    A[0] += 1\n    return x * float(A[0])",
    "a default that it changes": "def f(x, seen=[]):\n    seen.append(1)\n"
    "    return x * len(seen)",
    "an attribute that it sets": "def f(x):\n    f.n = 1\n    return x",
    "setattr": "def f(x):\n    setattr(f, 'n', 1)\n    return x",
    "the names of a function": "def f(x): return x * f.__globals__['K']",
    "names by text": "def f(x): return x * getattr(f, '__globals__')['K']",
    "code by text": "def f(x): return eval('x * K')",
    "a module that it imports": "def f(x):\n    import random\n    return x",
    "a class that it makes": "def f(x):\n    class C: n = 1\n    return x * C.n",
    "a file's object": "g = open(__file__)\ndef f(x): return x * len(g.readline())",
    "the order of a set": "S = {(1, 2), (3, 4)}\ndef f(x): return x * [*S][0][0]",
    "a dict of a class of its own": "class D(dict): pass\nd = D(n=1)\n"
    "def f(x): return x * d['n']",
    "a cached function": "@functools.cache\ndef g(): return 1\n"
    "def f(x): return x * g()",
    "a name that is not there": "def f(x): return x * missing",
    "uninitialised memory": "def f(x): return x + numpy.empty(2)",
    "another function of jit": "@aotc.jit\ndef g(x): return x\ndef f(x): return g(x)",
}

KNOWN = {
    "operators": "def f(x): return (x @ x + 1).sum(axis=0)",
    "functions": "def f(x): return nn.gelu(tanh(np.matmul(x, x)))",
    "loops": "def f(x):\n    for n in range(3):\n        x = x * n\n    return x",
    "a list of its own": "def f(x):\n    l = []\n    l.append(x)\n    return l",
    "numbers of NumPy": "def f(x): return x * numpy.float32(2) * math.pi * numpy.pi",
    "shapes": "def f(x): return x.reshape(math.prod(x.shape)) / math.sqrt(len(x))",
    "gradients": "def g(w, x): return (x @ w).sum()\n"
    "def f(w, x): return aotc.value_and_grad(g)(w, x)",
    "recursion": "def f(x, n=3): return x if n == 0 else f(x, n - 1) * 2",
    "an optimizer": "from aotc import optim\no = optim.adam(1e-3)\n"
    "def f(g, s): return o.update(g, s)",
}


@pytest.fixture
def load(tmp_path):
    """The function f of a program."""
    count = 0

    def load_program(text):
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "program.py").write_text(PREAMBLE + text + "\n")
        spec = spec_from_file_location(f"program_{count}", folder / "program.py")
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module.f

    yield load_program
    for number in range(count):
        del sys.modules[f"program_{number + 1}"]


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_trace_would_read_is_in_the_digest(case, load):
    one, other = CHANGES[case]
    digest = function_digest(load(one))
    assert digest == function_digest(load(one))
    assert digest is not None
    changed = function_digest(load(other))
    assert changed not in (None, digest)


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_another_process_may_find_different_has_no_digest(case, load):
    assert function_digest(load(UNKNOWN[case])) is None


def test_what_is_put_in_the_place_of_a_function_of_aotc_is_no_function_of_it(
    load, monkeypatch
):
    import aotc.numpy

    f = load("def f(x): return np.cosh(x)")
    assert function_digest(f) is not None
    before = function_digest(f)
    for other in (lambda x: x, functools.partial(pow, 2), 2.0):
        monkeypatch.setattr(aotc.numpy, "cosh", other)
        assert function_digest(f) != before


@pytest.mark.parametrize("case", KNOWN)
def test_common_functions_have_the_same_digest_in_each_process(case, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        PREAMBLE + KNOWN[case] + "\n"
        "from aotc.just_in_time.function_digests import function_digest\n"
        "if __import__('sys').argv[1:]: aotc.numpy.sin\n"
        "print(function_digest(f))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, script, *more],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed, more in (("1", []), ("2", ["imported before"]))
    }
    assert len(found) == 1
    assert found != {"None\n"}


PROGRAM = """
import json, sys, numpy, aotc, aotc.numpy as np

SCALE = {scale}
weights = aotc.Weights({{"w": numpy.full((3,), {weight}, "f4")}})
state = aotc.State(numpy.zeros((), "f4"))

@aotc.jit
def f(x):
    return np.tanh(x) * SCALE

@aotc.jit
def g(weights, x, more):
    return weights["w"] * x["a"] + more

@aotc.jit
def count(state, x):
    return state + x.sum(), state * 1

x = numpy.full((3,), 0.5, "f4")
found = [f(x).tolist(), g({{"a": x}}, 2.0).tolist(), [float(count(x)) for _ in "ab"]]
print(json.dumps([found, [each.report()["compiles"] for each in (f, g, count)],
    any(name.startswith(("torch_mlir", "aotc.dialects.ops")) for name in sys.modules)]))
"""


def test_a_second_process_takes_the_code_of_the_same_functions_without_tracing_them(
    tmp_path,
):
    def run(scale, weight):
        (tmp_path / "calls.py").write_text(PROGRAM.format(scale=scale, weight=weight))
        ended = subprocess.run(
            [sys.executable, tmp_path / "calls.py"],
            env={**os.environ, "AOTC_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            check=True,
            text=True,
        )
        return json.loads(ended.stdout)

    first, compiles, _ = run(1, 2.0)
    assert compiles == [1, 1, 1]
    assert first[1:] == [[3.0] * 3, [0.0, 1.5]]
    again, compiles, has_traced = run(1, 2.0)
    assert (again, compiles, has_traced) == (first, [0, 0, 0], False)
    other, compiles, has_traced = run(3, 4.0)
    assert compiles == [1, 0, 0]  # code reads its weights, whichever they are
    assert has_traced
    assert other[0] == pytest.approx([3 * each for each in first[0]], rel=1e-6)
    assert other[1:] == [[4.0] * 3, [0.0, 1.5]]
