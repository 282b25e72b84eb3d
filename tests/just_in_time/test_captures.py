"""What a function of `aotc.jit` reads besides its arguments is guarded like these."""

import functools
import types
import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc.errors import InputError
from aotc.tracing.captures import captures_of
from aotc.tracing.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("without_compiler")
X = np.arange(3, dtype="f4")

NUMBER = 2.0
LIST = [2.0, [3.0]]
DICT = {"a": 1.0, "b": {"c": 2.0}}
SMALL = np.ones(3, "f4")
LARGE = np.ones(5000, "f4")
ACTIVATION = anp.sin
LOG: list[int] = []
COUNT = 0


@dataclass
class Config:
    scale: float = 2.0
    inner: dict = field(default_factory=lambda: {"k": 1.0})
    unread: int = 0

    @property
    def twice(self):
        return 2 * self.scale

    def times(self, x):
        return x * self.scale


CONFIG = Config()


def helper(x):
    return x * NUMBER


def change(name, value):
    globals()[name] = value


@pytest.fixture(autouse=True)
def restored():
    before = {name: globals()[name] for name in ("NUMBER", "ACTIVATION", "helper")}
    yield
    globals().update(before)
    LIST[:] = [2.0, [3.0]]
    DICT.clear()
    DICT.update({"a": 1.0, "b": {"c": 2.0}})
    SMALL[:] = 1
    CONFIG.__init__()


def read_number(x):
    return x * NUMBER


def call_helper(x):
    return helper(x) + 1


def in_a_function_inside(x):
    def inner(y):
        return y * NUMBER

    return inner(x)


CASES = {
    "a global": (read_number, lambda: change("NUMBER", 5.0)),
    "its type": (lambda x: x if isinstance(NUMBER, int) else x + 1,
                 lambda: change("NUMBER", 2)),
    "by a helper": (call_helper, lambda: change("NUMBER", 5.0)),
    "by a function inside": (in_a_function_inside, lambda: change("NUMBER", 5.0)),
    "the helper": (call_helper, lambda: change("helper", lambda x: x * 7)),
    "a function of a library": (lambda x: ACTIVATION(x),
                                lambda: change("ACTIVATION", anp.cos)),
    "in a list": (lambda x: x * LIST[0], lambda: LIST.__setitem__(0, 9.0)),
    "deep in a list": (lambda x: x * LIST[1][0],
                       lambda: LIST[1].__setitem__(0, 9.0)),
    "the length of a list": (lambda x: x * len(LIST), lambda: LIST.append(0)),
    "in a dict": (lambda x: x * DICT["a"], lambda: DICT.update(a=4.0)),
    "deep in a dict": (lambda x: x * DICT["b"]["c"],
                       lambda: DICT["b"].update(c=4.0)),
    "keys of a dict": (lambda x: x * (2 if "z" in DICT else 3),
                       lambda: DICT.update(z=1.0)),
    "in a small array": (lambda x: x * SMALL, lambda: SMALL.__setitem__(1, 9)),
    "an attribute": (lambda x: x * CONFIG.scale,
                     lambda: setattr(CONFIG, "scale", 9.0)),
    "by a property": (lambda x: x * CONFIG.twice,
                      lambda: setattr(CONFIG, "scale", 9.0)),
    "by a method": (lambda x: CONFIG.times(x), lambda: setattr(CONFIG, "scale", 9.0)),
    "in an attribute": (lambda x: x * CONFIG.inner["k"],
                        lambda: CONFIG.inner.update(k=9.0)),
    "of a method of an object": (CONFIG.times, lambda: setattr(CONFIG, "scale", 9.0)),
    "through a partial": (functools.partial(lambda c, x: x * c.scale, CONFIG),
                          lambda: setattr(CONFIG, "scale", 9.0)),
    "through jit": (aotc.jit(read_number), lambda: change("NUMBER", 5.0)),
    "through grad": (aotc.grad(lambda x: anp.sum(x * x * NUMBER)),
                     lambda: change("NUMBER", 5.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_what_was_read_retraces_and_the_way_back_does_not(name):
    plain, apply = CASES[name]
    compiled = aotc.jit(lambda x: plain(x))
    before = np.asarray(compiled(X))
    again = np.asarray(compiled(X))
    np.testing.assert_array_equal(before, again)
    assert len(compiled.variants) == 1
    apply()
    after = np.asarray(compiled(X))
    fresh = np.asarray(aotc.jit(lambda x: plain(x))(X))
    np.testing.assert_array_equal(after, fresh)
    assert len(compiled.variants) == 2
    assert not np.array_equal(before, after)
    assert any("captured" in each for each in compiled.report()["guard_failures"])


def test_a_variable_of_the_function_around_it_is_guarded():
    def made():
        factor = 2.0

        def change(to):
            nonlocal factor
            factor = to

        return aotc.jit(lambda x: x * factor), change

    f, change = made()
    np.testing.assert_array_equal(f(X), X * 2)
    change(3.0)
    np.testing.assert_array_equal(f(X), X * 3)
    change(2.0)
    np.testing.assert_array_equal(f(X), X * 2)
    assert len(f.variants) == 2


def test_values_that_were_there_before_have_their_code():
    f = aotc.jit(read_number)
    for number in (2.0, 3.0, 2.0, 3.0, float("2")):
        change("NUMBER", number)
        np.testing.assert_array_equal(f(X), X * number)
    assert len(f.variants) == 2


def test_what_is_not_read_is_no_guard():
    f = aotc.jit(lambda x: x * CONFIG.scale)
    f(X)
    CONFIG.unread += 1
    change("COUNT", COUNT + 1)
    f(X)
    assert len(f.variants) == 1


def test_an_attribute_of_a_module_is_guarded(monkeypatch, tmp_path):
    (tmp_path / "settings_of_test.py").write_text("RATE = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import settings_of_test

    f = aotc.jit(lambda x: x * settings_of_test.RATE)
    np.testing.assert_array_equal(f(X), X * 2)
    monkeypatch.setattr(settings_of_test, "RATE", 3.0)
    np.testing.assert_array_equal(f(X), X * 3)


def test_sizes_that_vary_and_guards_of_values_go_with_captures():
    f = aotc.jit(read_number)
    for rows in (3, 4, 5):
        f(np.ones(rows, "f4"))
    change("NUMBER", 5.0)
    np.testing.assert_array_equal(f(np.ones(6, "f4")), [5] * 6)
    np.testing.assert_array_equal(f(np.ones(3, "f4")), [5] * 3)

    g = aotc.jit(lambda x: x * NUMBER if aotc.specialize(x)[0] > 0 else x)
    np.testing.assert_array_equal(g(X + 1), (X + 1) * 5)
    change("NUMBER", 2.0)
    np.testing.assert_array_equal(g(X + 1), (X + 1) * 2)


def test_regions_of_hybrid_programs_see_changes_of_what_their_helpers_read():
    @aotc.hybrid
    def f(x):
        y = call_helper(x)
        return y * CONFIG.scale

    np.testing.assert_array_equal(f(X), (X * 2 + 1) * 2)
    change("NUMBER", 5.0)
    np.testing.assert_array_equal(f(X), (X * 5 + 1) * 2)
    CONFIG.scale = 3.0
    np.testing.assert_array_equal(f(X), (X * 5 + 1) * 3)


def test_what_is_too_large_to_be_compared_is_named():
    f = aotc.jit(lambda x: x * LARGE[0] + SMALL)
    f(X)
    (note,) = f.notes
    line = f.__wrapped__.__code__.co_firstlineno
    assert f"test_captures.py:{line}: 'LARGE' (float32[5000])" in note
    assert "give it as an argument" in note


def test_values_that_never_settle_are_a_recompile_storm_that_names_them():
    f = aotc.jit(read_number, max_compiles=3)
    for number in range(3):
        change("NUMBER", float(number))
        f(X)
    change("NUMBER", 3.0)
    with pytest.raises(InputError) as error:
        f(X)
    assert error.value.code == "recompile-storm"
    assert "captured NUMBER" in error.value.message


def test_a_snapshot_is_renewed_by_equal_values():
    found = captures_of(read_number).reads
    assert [each.text for each in found] == [
        "read_number.__code__",
        "NUMBER",
    ]
    snapshot = Snapshot(found)
    change("NUMBER", float("2.0"))
    assert snapshot.holds()
    change("NUMBER", 2)
    assert not snapshot.holds()  # another type
    change("NUMBER", 2.0)
    assert snapshot.holds()
    del globals()["NUMBER"]
    assert not snapshot.holds()


def test_functions_of_libraries_and_modules_capture_nothing():
    def f(x):
        return anp.sum(functools.reduce(anp.add, [x, x])) + np.pi + len(x.shape)

    assert [each.text for each in captures_of(f).reads] == [
        "f.__code__",
        "len",  # which a global of this name would hide
    ]


class TestEffects:
    """What a trace changes outside happens once, which is said."""

    @staticmethod
    def told(function):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            aotc.jit(function)(X)
        return [str(each.message) for each in found]

    def test_a_list_that_grows(self):
        def f(x):
            LOG.append(1)
            return x

        (text,) = self.told(f)
        line = f.__code__.co_firstlineno + 1
        assert text.startswith(f"test_captures.py:{line}: changes 'LOG' when 'f'")

    def test_assignments_of_globals_and_of_variables_around(self):
        seen = 0

        def f(x):
            global COUNT
            nonlocal seen
            COUNT += 1
            seen += 1
            return x

        first, second = sorted(self.told(f))
        assert "assigns 'seen' of the function around it" in first + second
        assert "assigns the global 'COUNT'" in first + second

    def test_an_attribute_and_an_item(self):
        state = types.SimpleNamespace(last=0, items={})

        def f(x):
            state.last += 1
            state.items["a"] = 1
            return x

        texts = " ".join(self.told(f))
        assert "changes 'state.last'" in texts
        assert "changes 'state.items'" in texts

    def test_a_traced_array_that_is_printed(self, capsys):
        def f(x):
            print(x)
            return x

        (text,) = self.told(f)
        line = f.__code__.co_firstlineno + 1
        assert text.startswith(f"test_captures.py:{line}: prints")
        assert "aotc.debug.print" in text

    def test_what_stays_inside_is_not_told(self):
        def f(x):
            parts = []
            parts.append(x)
            total = 0

            def add(y):
                nonlocal total
                total = total + y

            add(x)
            print("tracing", x.shape)
            return parts[0] + total

        assert not self.told(f)

    def test_entries_are_told_of_too(self, tmp_path):
        from aotc.importers import python

        path = tmp_path / "model.py"
        path.write_text(
            "import aotc\nlog = []\n"
            "@aotc.entry(x=aotc.Spec((3,), 'f32'))\n"
            "def predict(x):\n    log.append(1)\n    return x + 1\n"
        )
        with pytest.warns(UserWarning, match=r"model.py:5: changes 'log' when 'pred"):
            python.load(path)


class Proxy:
    """Answers nobody, as a proxy outside of its context."""

    def __getattribute__(self, name):
        raise RuntimeError("working outside of a context")


PROXY = Proxy()
MANY = types.SimpleNamespace(**{f"n{i}": i for i in range(1100)})


def test_objects_are_not_asked():
    f = aotc.jit(lambda x: x * (2 if PROXY is not None else 3))
    np.testing.assert_array_equal(f(X), X * 2)
    np.testing.assert_array_equal(f(X), X * 2)


def test_more_than_can_be_compared_is_said():
    text = "lambda x: x * (" + " + ".join(f"MANY.n{i}" for i in range(1100)) + ")"
    f = aotc.jit(eval(text, globals()))
    f(X)
    assert any("more than is compared" in note for note in f.notes)
