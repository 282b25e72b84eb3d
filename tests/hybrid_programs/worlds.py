"""Objects that hybrid functions look at and change, and comparisons of calls."""

import collections
import copy

import numpy

import aotc.numpy as np

X = numpy.array([1.0, 2.0, 3.0], "f")


# the globals of modules whose name `CALLED` stands for another function at each call
REBOUND = []


class World:
    """Objects that functions look at and change: new ones for Python and for hybrid."""

    def __init__(self):
        self.log = []
        self.calls = 0
        self.n = 1.0
        self.box = Box(2)
        self.seen = {1, 2}
        self.table = {2: 5.0, "b": 1.0, "a": 2.0}
        self.queue = collections.deque([1.0, 2.0])
        self.nested = {"d": {"w": X.copy()}, "l": [X.copy()]}
        self.stream = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
        self.array = X.copy()
        self.items = [Item(1), Item(3)]
        self.counter = Counter(self.log)
        self.many = set(range(2000))
        self.large = {(1,): numpy.ones(2000, "f")}
        rebind(abs)

    def say(self, tag, value=None):
        self.log.append(tag)
        return value

    def bump(self):
        self.n += 10
        self.log.append("bump")
        return 1.0

    @property
    def computed(self):
        self.log.append("computed")
        return self.n

    def change(self):
        """Change the objects between calls."""
        self.calls += 1
        self.n += 1
        self.box.n += 3
        self.seen.add(self.calls + 5)
        self.table[2] += 1
        self.queue[0] += 4
        self.array[0] += 1
        Config.scale += 1
        self.items[0].n += 1
        self.many.add(4999 + self.calls)
        self.large[(1,)] *= 2
        Box.act = lambda box, x: x * 5 * box.n
        rebind(np.sin)


def rebind(function):
    """Let `CALLED` be this function, in all modules that have it."""
    for scope in REBOUND:
        scope["CALLED"] = function


class Box:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return int(self.n)

    def __getitem__(self, index):
        return self.n + index

    def __add__(self, other):
        return self.n + other

    def __bool__(self):
        return self.n > 4

    def __iter__(self):
        return iter([self.n, 1.0])

    def __contains__(self, item):
        return item == self.n

    def __call__(self, x):
        return np.tanh(x) * self.n

    def act(self, x):
        return x + self.n


FIRST_ACT = Box.act


class Config:
    scale = 2.0


def hit(i):
    return i >= 1


def check(i):
    if i >= 2:
        raise ValueError(i)


def scaled(x, w):
    return np.sin(x) * w.n


def configured(x):
    return np.sin(x) * Config.scale


def effect(x, w):
    w.log.append("effect")
    return np.cos(x)


class Item:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other

    def __hash__(self):
        return 0

    def __repr__(self):
        return "x" * int(self.n)


class Counter:
    def __init__(self, log):
        self.log = log

    def __call__(self, v):
        self.log.append("counted")
        return v * len(self.log)


def scaled_by_global(v):
    return v * Config.scale


def calls(function, extra):
    """Three calls: what they return, their effects, and what has become of objects."""
    world, extra = World(), copy.deepcopy(extra)
    Config.scale, Box.act = 2.0, FIRST_ACT
    results = []
    for _ in range(3):
        results.append(function(X.copy(), world, *extra))
        world.change()
    changed = ("log", "calls", "n", "seen", "table", "queue", "nested", "array")
    state = {name: vars(world)[name] for name in changed}
    state |= {"box": world.box.n, "stream": list(world.stream)}
    return [results, [list(world.log), state, extra]]


def flat(tree):
    if isinstance(tree, dict):
        return [part for row in tree.items() for each in row for part in flat(each)]
    if isinstance(tree, (list, tuple, collections.deque)):
        return [part for each in tree for part in flat(each)]
    return [tree]


def same_trees(one, other):
    for a, b in zip(flat(one), flat(other), strict=True):
        if isinstance(a, (str, set, type(None))):
            assert a == b
        else:
            numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
