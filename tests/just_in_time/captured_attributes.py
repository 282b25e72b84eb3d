"""Functions of what tests change: each test executes this file anew."""

import collections
import functools
import types
from array import array
from dataclasses import asdict, dataclass


class Base:
    """A base that classes of cases inherit, which keep their number in `k`."""

    def __init__(self):
        self.k = 2.0

    def times(self, x):
        return x * self.k


class Scale(Base):
    """Is a scale in every way that expressions have for it."""

    hidden = 2.0

    def times(self, x):
        return super().times(x) + 1

    def twice(self, x):
        return x * 2

    def __matmul__(self, x):
        return x * self.k

    def __getitem__(self, index):
        return self.k + index

    def __iter__(self):
        yield self.k

    def __float__(self):
        return self.k

    def __enter__(self):
        return self.k

    def __exit__(self, *error):
        pass

    def __eq__(self, other):
        return self.k == other

    __hash__ = None  # type: ignore[assignment]


class Slotted:
    __slots__ = ("k",)

    def __init__(self):
        self.k = 2.0


@dataclass(slots=True)
class Fields:
    k: float = 2.0


class Space:
    """A class that is a space of names, with one in it."""

    k = 2.0

    class Inner:
        k = 2.0

    @property
    def computed(self):
        return 2.0

    @staticmethod
    def function(x):
        return x * 2

    @classmethod
    def of_class(cls, x):
        return x * cls.k


class Meta(type):
    k = 2.0


class OfMeta(metaclass=Meta):
    """Has what its class has."""


class Heir(Space):
    """Has the names of another class."""


def with_default(x, by=(2.0, [3.0]), *, too=2.0):
    return x * by[0] * by[1][0] * too


def with_attribute(x):
    return x * with_attribute.k


with_attribute.k = 2.0


def other_code(x, by=None, *, too=None):
    return x * 7


def in_a_block(x, scale):
    with scale as k:
        return x * k


def matched(x, scale):
    match scale:
        case Fields(k=k):
            return x * k
    return x


def aliased(x, module):
    other = module
    return x * other.k


def attribute_of(names, name):
    if name not in names:
        raise AttributeError(name)
    return names[name]


def named_late(x):
    try:
        return x * LATE
    except NameError:
        return x


def of_builtins(x):
    return x * abs(-2.0)


def put(thing, index=0, value=3.0):
    """A change of an element of what a case reads."""
    return lambda: thing.__setitem__(index, value)


def give(thing, name="k", value=3.0):
    """A change of an attribute of what a case reads."""
    return lambda: setattr(thing, name, value)


def cases():
    """Functions, and what changes their results, by what they read."""
    scale, slotted, fields, module = Scale(), Slotted(), Fields(), types.ModuleType("m")
    module.k = 2.0
    yield "hidden", lambda x: x * scale.hidden, give(scale, "hidden")
    yield "of a class of the object", lambda x: x * scale.hidden, give(Scale, "hidden")
    yield "a slot", lambda x: x * slotted.k, give(slotted)
    yield "a slot of a dataclass", lambda x: x * fields.k, give(fields)
    yield "of a class", lambda x: x * Space.k, give(Space)
    yield "of a class in a class", lambda x: x * Space.Inner.k, give(Space.Inner)
    yield "inherited", lambda x: x * Heir.k, give(Space)
    yield "of a heir", lambda x: x * Heir.k, give(Heir)
    yield "of a function", lambda x: with_attribute(x), give(with_attribute)
    yield "an alias of a module", lambda x: aliased(x, module), give(module)
    yield "of a metaclass", lambda x: x * OfMeta.k, give(Meta)
    lazy, inside = types.ModuleType("lazy"), {"k": 2.0}
    lazy.__getattr__ = functools.partial(attribute_of, inside)
    yield "computed by a module", lambda x: x * lazy.k, put(inside, "k")
    factors = [2.0]
    dispatched = functools.singledispatch(lambda kind, x: x)
    dispatched.register(int)(lambda kind, x: x * factors[0])
    yield "by singledispatch", lambda x: dispatched(1, x), put(factors)
    modules = {"a": module}
    yield "a module in a dict", lambda x: x * modules["a"].k, give(module)
    yield "operator", lambda x: scale @ x, give(scale)
    yield "index", lambda x: scale[1] * x, give(scale)
    yield "iterator", lambda x: sum(scale) * x, give(scale)
    yield "float", lambda x: float(scale) * x, give(scale)
    yield "with", lambda x: in_a_block(x, scale), give(scale)
    yield "==", lambda x: x * (2 if scale == 2.0 else 3), give(scale)
    yield "super", lambda x: scale.times(x), give(scale)
    patch = give(Scale, "twice", lambda self, x: x * 7)
    yield "a method of the class", lambda x: scale.twice(x), patch
    patch = give(scale, "twice", lambda x: x * 7)
    yield "a method of the object", lambda x: scale.twice(x), patch
    space = Space()
    patch = give(Space, "computed", property(lambda self: 7.0))
    yield "property", lambda x: x * space.computed, patch
    patch = give(Space, "function", staticmethod(lambda x: x * 7))
    yield "static method", lambda x: Space.function(x), patch
    yield "class method", lambda x: Space.of_class(x), give(Space)
    in_default = with_default.__defaults__[0][1]
    yield "in a default", lambda x: with_default(x), put(in_default, value=5.0)
    patch = give(with_default, "__defaults__", ((5.0, [1.0]),))
    yield "defaults", lambda x: with_default(x), patch
    patch = give(with_default, "__kwdefaults__", {"too": 5.0})
    yield "defaults by name", lambda x: with_default(x), patch
    patch = give(with_default, "__code__", other_code.__code__)
    yield "code", lambda x: with_default(x), patch
    yield "getattr", lambda x: x * getattr(fields, "k"), give(fields)  # noqa: B009
    thing = types.SimpleNamespace()
    yield "hasattr", lambda x: x * (3 if hasattr(thing, "k") else 2), give(thing)
    yield "vars", lambda x: x * vars(scale)["k"], give(scale)
    yield "asdict", lambda x: x * asdict(fields)["k"], give(fields)
    yield "match", lambda x: matched(x, fields), give(fields)
    yield "named late", named_late, lambda: globals().update(LATE=3.0)
    yield "of builtins", of_builtins, lambda: globals().update(abs=lambda x: 7.0)
    for found in containers():
        key = "a" if hasattr(found, "keys") else 0
        name = type(found).__name__
        function = functools.partial(lambda found, key, x: x * found[key], found, key)
        yield name, function, put(found, key)
    inside = {"a": 2.0}
    shown = types.MappingProxyType(inside)
    yield "mappingproxy", lambda x: x * shown["a"], put(inside, "a")
    numbers = bytearray(b"2")
    yield "bytearray", lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 3)


def containers():
    """Containers that change in place, of Python's library and of a user."""
    yield collections.OrderedDict(a=2.0)
    yield collections.defaultdict(float, a=2.0)
    yield collections.ChainMap({"a": 2.0})
    yield collections.UserDict({"a": 2.0})
    yield collections.UserList([2.0])
    yield collections.deque([2.0])
    yield array("d", [2.0])
    yield type("OwnList", (list,), {})([2.0])
    yield type("OwnDict", (collections.UserDict,), {})({"a": 2.0})
