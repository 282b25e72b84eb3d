"""A slice of a module computes what the module does."""

import ast
import sys
import types

import numpy
import pytest

from aotc.errors import InputError
from aotc.hybrid_programs.packages.slicing import ProgramSlice

ARRAY = "TABLE = numpy.zeros((2, 3))\n"
LIST = "OUT = []\n"

# what the module does before, and what `look` then returns
CASES = {
    "part": (ARRAY + "TABLE[1] = 5.0", "TABLE"),
    "sorted array": ("TABLE = numpy.array([3.0, 1.0])\nTABLE.sort()", "TABLE"),
    "attribute of a class": ("class C:\n    k = 1\nC.k = 9", "C.k"),
    "global": ("K = 1\ndef f():\n    global K\n    K = 7\nf()", "K"),
    "global, two deep": (
        "K = 1\ndef f():\n    def g():\n        global K\n        K = 8\n    g()\nf()",
        "K",
    ),
    "alias of a list": ("B = [1]\nA = B\nA.append(7)", "B"),
    "alias of a row": (ARRAY + "ROW = TABLE[1]\nROW[:] = 4", "TABLE"),
    "alias that is added to": (ARRAY + "B = TABLE\nB += 2", "TABLE"),
    "alias that is needed": (ARRAY + "B = TABLE\nB += 2", "B"),
    "held by another": ("A = [1]\nB = {'a': A}\nB['a'].append(2)", "A"),
    "holds another": ("A = []\nB = [0]\nA.append(B)\nB.append(3)", "A"),
    "decorator": (
        "REG = {}\ndef reg(f):\n    REG[f.__name__] = f\n    return f\n"
        "@reg\ndef foo():\n    return 3",
        "REG['foo']()",
    ),
    "attribute of a function": ("def h():\n    return h.k\nh.k = 4.0", "h()"),
    "NumPy in place": (
        ARRAY + "numpy.copyto(TABLE, 3.0)\nnumpy.add.at(TABLE, (0, 1), 5)\n"
        "numpy.add(TABLE, 1, out=TABLE)",
        "TABLE",
    ),
    "own function in place": (
        ARRAY + "def fill(t, v):\n    u = t[0]\n    u[...] = v\nfill(TABLE, 6)",
        "TABLE",
    ),
    "loop": (ARRAY + "for row in TABLE:\n    row[0] = 1", "TABLE"),
    "comprehension": ("L = [[3, 1], [2, 0]]\n[x.sort() for x in L]", "L"),
    "built by a comprehension": ("L = {i: i * i for i in range(3)}", "L"),
    "random numbers": (
        "numpy.random.seed(3)",
        "numpy.random.rand(2)",
    ),
    "random numbers by name": ("from random import seed, random\nseed(3)", "random()"),
    "setting of a library": (
        "numpy.set_printoptions(precision=2)\nX = numpy.array([1.23456])",
        "str(X)",
    ),
    "with": (
        LIST + "import contextlib\n@contextlib.contextmanager\ndef c():\n"
        "    OUT.append(1)\n    yield OUT\nwith c():\n    pass",
        "OUT",
    ),
    "partial": (
        "import functools\nA = [1]\nP = functools.partial(list, A)\nA.append(4)",
        "P()",
    ),
    "star": ("from math import *", "sqrt(pi)"),
    "missing import": (
        "try:\n    import no_such_thing as t\nexcept ImportError:\n    t = None",
        "t",
    ),
    "default": ("K = 3\ndef h(k=K):\n    return k\nK = 5", "h()"),
    "dispatch": (LIST + "def a():\n    OUT.append(1)\nH = {'a': a}\nH['a']()", "OUT"),
    "dispatch in a function": (
        LIST + "def b():\n    H['a']()\ndef a():\n    OUT.append(1)\nH = {'a': a}\nb()",
        "OUT",
    ),
    "callback": (LIST + "list(map(lambda v: OUT.append(v), [1, 2]))", "OUT"),
    "callback of its own": (
        LIST + "def a(v):\n    OUT.append(v)\n    return v\nsorted([2, 1], key=a)",
        "OUT",
    ),
    "lambda": (LIST + "add = lambda v: OUT.append(v)\nadd(3)", "OUT"),
    "function of a function": (
        LIST + "def make():\n    def put(v):\n        OUT.append(v)\n    return put\n"
        "add = make()\nadd(3)",
        "OUT",
    ),
    "wrapper": (
        LIST + "def deco(f):\n    def w():\n        OUT.append(1)\n        f()\n"
        "    return w\n@deco\ndef foo():\n    pass\nfoo()",
        "OUT",
    ),
    "object that is called": (
        LIST + "class S:\n    def __call__(self, v):\n        OUT.append(v)\ns = S()\n"
        "s(4)",
        "OUT",
    ),
    "its own state": (
        "class S:\n    n = 0\n    def __call__(self):\n        self.n += 1\ns = S()\n"
        "s()",
        "s.n",
    ),
    "method": (
        LIST + "class S:\n    def put(self, v):\n        OUT.append(v)\nS().put(4)",
        "OUT",
    ),
    "creation": (
        "class S:\n    all = []\n    def __init__(self, v):\n        S.all.append(v)\n"
        "S(3)",
        "S.all",
    ),
    "subclass": (
        "REG = {}\nclass B:\n    def __init_subclass__(cls):\n        REG['x'] = 3\n"
        "class One(B):\n    pass",
        "REG",
    ),
    "metaclass": (
        "REG = []\nclass M(type):\n    def __new__(m, n, b, d):\n"
        "        REG.append(n)\n"
        "        return type.__new__(m, n, b, d)\nclass One(metaclass=M):\n    pass\n"
        "class Two(One):\n    pass",
        "REG",
    ),
    "descriptor": (
        "REG = []\nclass F:\n    def __set_name__(self, o, n):\n        REG.append(n)\n"
        "class A:\n    q = F()",
        "REG",
    ),
    "iterator": ("IT = iter([1, 2, 3])\nnext(IT)", "list(IT)"),
    "iterator in a loop": (
        "IT = iter([1, 2, 3])\nfor v in IT:\n    break",
        "list(IT)",
    ),
    "deletion": ("D = {'a': 1, 'b': 2}\ndel D['a']", "D"),
    "unpacking": ("(a, *b), c = [[1, 2, 3], [4]]\nb.append(9)\nc[0] = 1", "(b, c)"),
    "a method with the name of a global": (
        "t = [3]\nclass A:\n    def t(self):\n        return t",
        "A().t()",
    ),
    "shuffled": (
        "import random\nrandom.seed(1)\nD = list(range(5))\nrandom.shuffle(D)",
        "D",
    ),
    "heap": ("import heapq\nH = [3, 2]\nheapq.heappush(H, 0)", "H"),
    "operator": ("import operator\nL = [0]\noperator.setitem(L, 0, 5)", "L"),
    "globals": ("globals()['K'] = 4", "K"),
    "exec": ("exec('K = 4')", "K"),
    "setattr": ("class A: pass\nsetattr(A, 'k', 3)", "A.k"),
    "not a program": (
        ARRAY + "if __name__ != '__main__':\n    TABLE[0] = 3",
        "TABLE",
    ),
    "unicode": ("größe = [1]\ngröße.append(3)", "größe"),
    "class variable": (
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "@dataclass\nclass P:\n    n: 'ClassVar[int]' = 9\n    a: int = 3\nQ = P(4)",
        "(Q.a, Q.n)",
    ),
}


def _module(before, result):
    return f"import numpy\n{before}\n\ndef look():\n    return {result}\n"


def _executed(body):
    module = sys.modules["sliced"] = types.ModuleType("sliced")
    try:
        exec(compile(ast.Module(body, []), "sliced.py", "exec"), vars(module))
    finally:
        del sys.modules["sliced"]
    return vars(module)


def _sliced(source, stays=lambda node: False):
    tree = ast.parse(source)
    scope = _executed(tree.body)
    return ProgramSlice(tree.body, scope, tree.body[-1:], stays)


@pytest.mark.parametrize("name", CASES)
def test_a_slice_holds_what_the_module_holds(name):
    source = _module(*CASES[name])
    ours = _executed(_sliced(source).statements)["look"]()
    numpy.testing.assert_equal(ours, _executed(ast.parse(source).body)["look"]())


@pytest.mark.parametrize(
    "other",
    [
        "OTHER = TABLE.sum()",
        "OTHER = numpy.exp(TABLE)\nOTHER[0] = 3",
        "OTHER = TABLE / 2\nOTHER += 1",
        "def scaled(t):\n    u = t / (1 + t.max())\n    u[0] = 1\n    return u\n"
        "OTHER = scaled(TABLE)",
        "OTHER = []\nOTHER.append(3)",
        "print(TABLE.shape)",
        "import sys\nsys.setrecursionlimit(sys.getrecursionlimit())",
        "class Other:\n    k = 3",
    ],
)
def test_statements_that_change_nothing_needed_stay_out(other):
    found = _sliced(_module(ARRAY + other, "TABLE")).statements
    assert [each.lineno for each in found][:2] == [1, 2]
    assert len(found) == 3


def test_a_statement_that_may_change_a_value_and_stays_is_told():
    source = _module(ARRAY + "W = TABLE.sort()", "TABLE")
    with pytest.raises(InputError) as caught:
        _sliced(source, lambda node: "W" in ast.unparse(node))
    assert caught.value.code == "bad-hybrid"
    assert "line 3 may change 'TABLE'" in caught.value.message


def test_a_name_without_a_statement_is_told():
    tree = ast.parse(_module("", "K"))
    scope = {**_executed(tree.body), "K": 3}
    with pytest.raises(InputError) as caught:
        ProgramSlice(tree.body, scope, tree.body[-1:], lambda node: False)
    assert "line 4: no statement of the module gives 'K'" in caught.value.message


def test_what_functions_of_the_slice_change_is_not_compared():
    source = _module(ARRAY + LIST + "K = 3", "OUT.append(TABLE.sum() + K)")
    source = source.replace("import numpy", "from numpy import zeros")
    source = source.replace("numpy.", "")
    assert _sliced(source).compared("look") == ["K", "TABLE", "zeros"]
