"""What is kept between builds: found again whole, or made again."""

import errno
import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.cli.main import main
from aotc.core import options
from aotc.core.cache import Cache, CacheRecipe
from aotc.counting import counters
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.pipeline import build

pytestmark = pytest.mark.usefixtures("compile_anew")
KINDS = ("cold", "warm")
MODEL = """\
import aotc


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def double(x):
    return 2 * x
"""


def recipe(**parts):
    return CacheRecipe("module", "m", parts)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", 1 << 20)


@pytest.fixture
def user_cache(tmp_path):
    """The user's cache and home, in a folder of the test."""
    folder = tmp_path / "cache"
    home = options.override("AOTC_HOME", str(tmp_path / "home"))
    with home, options.override("AOTC_CACHE", str(folder)):
        yield folder


def test_what_was_kept_is_found_by_all_its_parts_only(cache):
    assert cache.find(recipe(a="1")) is None
    assert cache.keep(recipe(a="1"), b"value\nof lines") is None
    assert cache.find(recipe(a="1")) == b"value\nof lines"
    assert cache.find(recipe(a="2")) is None
    assert cache.find(recipe(a="1", b="")) is None
    assert cache.why_missing(recipe(a="2")) == "changed: a"
    assert "nothing" in cache.why_missing(CacheRecipe("module", "other", {"a": "1"}))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_read_and_gives_way_to_a_value(cache, make):
    assert cache.keep(recipe(a="1"), b"value") is None
    (path,) = (path for path in cache.folder.glob("??/*") if path.is_file())
    path.unlink()
    make(path)  # to read either would never end
    assert cache.find(recipe(a="1")) is None
    assert not list(cache.entries())
    assert cache.keep(recipe(a="1"), b"value") is None
    assert cache.find(recipe(a="1")) == b"value"


def test_a_value_that_cannot_be_read_now_is_kept(cache, monkeypatch):
    cache.keep(recipe(a="1"), b"value")

    def fail(path):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.read_bytes", fail)
        assert cache.find(recipe(a="1")) is None
        assert cache.remove_damaged() == []
    assert cache.find(recipe(a="1")) == b"value"


@given(st.data())
def test_a_changed_byte_is_never_taken_for_the_value(tmp_path_factory, data):
    cache = Cache(tmp_path_factory.mktemp("cache"), 1 << 20)
    cache.keep(recipe(a="1"), b"value")
    (path,) = (each.path for each in cache.entries())
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    assert cache.find(recipe(a="1")) is None
    assert not path.exists()


def test_what_was_not_used_for_longest_goes_first(cache):
    for number in range(4):
        cache.keep(recipe(a=str(number)), bytes(1000))
        (path,) = (
            e.path for e in cache.entries() if e.recipe.parts["a"] == str(number)
        )
        os.utime(path, (number, number))
    size = next(cache.entries()).size
    cache.find(recipe(a="0"))
    evictions = counters.value("cache_evictions", cache="module")
    removed = cache.collect(2 * size)
    assert [each.recipe.parts["a"] for each in removed] == ["1", "2"]
    assert counters.value("cache_evictions", cache="module") == evictions + 2
    cache.limit = 0
    cache.keep(recipe(a="9"), b"too much")
    assert not list(cache.entries())


def test_a_folder_that_others_can_write_to_is_refused(user_cache):
    user_cache.mkdir(mode=0o777)
    user_cache.chmod(0o777)
    with pytest.raises(InputError) as caught:
        Cache.of_user()
    assert caught.value.code == "cache-exposed"


def test_a_cache_is_ones_own_whatever_new_folders_are_like(user_cache):
    before = os.umask(0o002)
    try:
        Cache.of_user().keep(recipe(a="1"), b"value")
    finally:
        os.umask(before)
    assert Cache.of_user().find(recipe(a="1")) == b"value"


@pytest.mark.parametrize("header", [b"", b"[]", b"{}", b'{"parts": 1}', b"text"])
def test_a_sealed_file_of_something_else_is_no_value(cache, header):
    cache.keep(recipe(a="1"), b"value")
    (path,) = (each.path for each in cache.entries())
    body = header + b"\nvalue"
    path.write_bytes(body + hashlib.sha256(body).digest())
    assert not list(cache.entries())
    assert cache.why_missing(recipe(a="2"))
    assert cache.find(recipe(a="1")) is None


def test_the_code_is_found_by_what_crosses_to_the_compiler(
    user_cache, tmp_path, monkeypatch
):
    """Not by the module before: what aotc does in between may change."""
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    choices = {"targets": [Target.parse("cpu")], "self_check": "off", "force": True}
    build(file, output=tmp_path, **choices)

    def renamed(module):
        for op in module.body.operations:
            op.attributes["aotc.marked"] = ir.UnitAttr.get()

    monkeypatch.setattr(
        sys.modules["aotc.backend.crossing"], "require_upstream_only", renamed
    )
    file.write_text(f"{MODEL}# a build that is equal to the letter runs no pass\n")
    (variant,) = build(file, output=tmp_path, **choices).variants
    assert variant.reuse == "miss (changed: model)"


def test_what_cannot_be_kept_is_said_and_fails_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file", 1 << 20)
    assert cache.keep(recipe(a="1"), b"value")
    assert cache.find(recipe(a="1")) is None


@pytest.mark.parametrize("function", ["fsync", "mkdir"])
def test_a_disk_that_refuses_keeps_nothing_and_fails_no_build(
    cache, monkeypatch, function
):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, refuse)
    assert "No space left" in cache.keep(recipe(a="1"), b"value")
    assert cache.find(recipe(a="1")) is None
    assert not [path for path in cache.folder.rglob("*") if path.is_file()]


def test_an_equal_build_compiles_nothing_and_gives_the_same_bytes(user_cache, tmp_path):
    def built(folder, text=MODEL, **choices):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "model.py"
        file.write_text(text)
        report = build(
            file, output=tmp_path / folder, targets=[Target.parse("cpu")], **choices
        )
        (variant,) = report.variants
        files = {
            path.relative_to(report.bundle): path.read_bytes()
            for path in report.bundle.rglob("*")
            if path.is_file()
        }
        return variant.reuse, files

    def counted():
        names = [("compiles", {"layer": "backend", "kind": kind}) for kind in KINDS]
        names += [
            (name, {"cache": "module"}) for name in ("cache_hits", "cache_misses")
        ]
        return [counters.value(name, **labels) for name, labels in names]

    before = counted()
    reuse, alone = built("alone", cache=False)
    assert reuse == "off"
    reuse, first = built("first")
    assert reuse == "miss (nothing like it was made before)"
    reuse, second = built("second")
    assert reuse == "hit"
    assert alone == first == second
    reuse, _ = built("commented", f"# a comment moves all lines\n\n{MODEL}")
    assert reuse == "hit"
    reuse, _ = built("other", MODEL.replace("2 * x", "3 * x"))
    assert reuse == "miss (changed: model)"
    cold, warm, hits, misses = map(int.__sub__, counted(), before)
    assert (cold, warm, hits, misses) == (3, 2, 2, 2)


def test_places_in_the_source_leave_no_trace_in_native_code(tmp_path):
    """The cache relies on it; where they leave one, they are part of the recipe."""
    with_traces = {"vmvx"}
    names = ["x86_64-v3", "aarch64", "cuda", "vulkan", "rocm:gfx942", "metal", "vmvx"]
    codes = []
    for text in (MODEL, f"# a comment moves all lines\n\n{MODEL}"):
        file = tmp_path / "model.py"
        file.write_text(text)
        with_check = {"self_check": "off", "cache": False, "force": True}
        report = build(
            file, output=tmp_path, targets=list(map(Target.parse, names)), **with_check
        )
        codes.append({str(v.target): v.vmfb for v in report.variants})
    one, other = codes
    assert {name for name in one if one[name] != other[name]} == with_traces


def test_the_verb_shows_checks_and_shrinks(user_cache, capsys):
    cache = Cache.of_user()
    for number in range(3):
        cache.keep(recipe(a=str(number)), bytes(1000))
    assert main(["cache", "ls"]) == 0
    assert "3 values" in capsys.readouterr().out
    path = next(cache.entries()).path
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "verify"]) == 1
    assert str(path) in capsys.readouterr().out
    assert main(["cache", "verify"]) == 0
    assert main(["cache", "gc", "--size", "0"]) == 0
    assert not list(cache.entries())
    with options.override("AOTC_CACHE", "off"):
        assert main(["cache", "ls"]) == 2


def test_builds_of_the_same_at_once_compile_and_check_once(tmp_path, user_cache):
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    command = [sys.executable, "-m", "aotc.cli.main", "build", str(model), "-v", "-o"]
    builds = [
        subprocess.Popen(
            [*command, str(tmp_path / f"out{number}")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(3)
    ]
    told = [each.communicate(timeout=300)[0] for each in builds]
    assert [each.returncode for each in builds] == [0, 0, 0], told
    for part in ("vmfb › ", "compared"):
        lines = [x for text in told for x in text.splitlines() if part in x]
        hits = sum("hit" in line for line in lines)
        misses = sum("miss" in line for line in lines)
        assert (hits, misses) == (2, 1), lines
