"""Policies that a model or a build asks for: which code there is, what is refused."""

import functools
import json
import runpy

import numpy as np
import pytest

import aotc as compiler
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = """
import aotc
import aotc.numpy as np

n = aotc.Dim("n", max={most})

@aotc.entry(x=aotc.Spec((n, "m"), "f32"))
def f(x):
    return np.sum(x, 0)
"""


@pytest.fixture
def make(tmp_path):
    """The codes of entry `f`, built as is asked; and the report."""

    def build_codes(most=None, source=MODEL, **asked):
        file = tmp_path / "model.py"
        file.write_text(source.format(most=most))
        return build(file, stop_after="graph", **asked)

    return build_codes


def wanted(report):
    """The sizes that an entry is to be specialized for, as the IR states them."""
    line = next(x for x in report.ir.splitlines() if "func.func @f(" in x)
    return line.partition("graph.specializations = ")[2].partition("], ")[0]


def test_a_bucket_of_the_max_is_added(make):
    said = wanted(make(64, specialize=[{"n": 8}], policies={"n": "bucket"}))
    assert said == "[{n = 8 : i64}, {n = 64 : i64}"


def test_without_a_max_the_largest_bucket_is_the_limit(make):
    said = wanted(make(None, specialize=[{"n": 8}], policies={"n": "bucket"}))
    assert said == "[{n = 8 : i64}"


def test_all_that_a_policy_allows_has_code(make):
    asked = [{"n": 8, "m": 2}, {"n": 16}]
    said = wanted(make(64, specialize=asked, policies={"n": "bucket", "m": "error"}))
    assert said == (
        "[{m = 2 : i64, n = 8 : i64}, {m = 2 : i64, n = 16 : i64}, "
        "{m = 2 : i64, n = 64 : i64}"
    )


def test_traffic_chooses_buckets(make, tmp_path):
    traffic = tmp_path / "traffic.csv"
    traffic.write_text("n,count\n3,100\n4,1\n20,50\n21,2\n")
    report = make(64, buckets_from=traffic, max_variants=3)
    assert wanted(report) == "[{n = 3 : i64}, {n = 21 : i64}, {n = 64 : i64}"
    assert report.buckets.to_json() == {
        "calls": 153,
        "buckets": [{"n": 3}, {"n": 21}, {"n": 64}],
        "coverage": 1.0,
        "overhead": pytest.approx((300 + 53 * 21) / (304 + 1042) - 1),
    }


def test_the_sizes_of_most_calls_are_stated_and_go_on_from_a_file(make, tmp_path):
    report = make(64, optimum={"n": 48})
    (tmp_path / "stated.mlir").write_text(report.ir)
    assert "optimum = 48" in report.ir
    again = build(tmp_path / "stated.mlir", stop_after="graph", optimum={"n": 16})
    assert "optimum = 16" in again.ir
    assert "optimum = 48" not in again.ir


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"optimum": {"n": 65}}, "bad-contract"),
        ({"optimum": {"k": 5}}, "unknown-size"),
        ({"policies": {"n": "sometimes"}}, "bad-option"),
        ({"policies": {"k": "error"}}, "unknown-size"),
        ({"policies": {"m": "error"}}, "no-buckets"),
        ({"policies": {"m": "pad"}}, "no-buckets"),
        ({"policies": {"m": "bucket"}}, "no-buckets"),
        ({"max_variants": 3}, "bad-option"),
        ({"specialize": [{"n": 65}], "policies": {"n": "bucket"}}, "bad-size"),
    ],
)
def test_what_cannot_be_is_refused(make, asked, code):
    with pytest.raises(InputError) as caught:
        make(64, **asked)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "dim",
    ['"n", policy="pad"', '"n", max=4, specialize=(2,), policy="pad"', '"n", policy=3'],
)
def test_a_dim_whose_policy_contradicts_it_is_refused(make, dim):
    with pytest.raises(InputError, match="Dim 'n'") as caught:
        make(source=MODEL.replace('"n", max={most}', dim))
    assert caught.value.code == "bad-contract"


def test_an_input_that_may_be_larger_than_its_bucket_cannot_be_padded(tmp_path):
    file = tmp_path / "model.py"
    source = MODEL.replace('(n, "m")), y', "")
    file.write_text(source.replace('(n, "m")', "(n, 70 - n)").format(most=64))
    with pytest.raises(InputError, match="input 'x'") as caught:
        build(file, stop_after="optimized", policies={"n": "pad"})
    assert caught.value.code == "padding-forbidden"


def test_a_build_goes_on_from_any_stage_to_the_same_bundle(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL.format(most=16))
    asked = {
        "targets": Target.named("native"),
        "sign": False,
        "force": True,
        "self_check": "off",
    }
    report = build(
        file, output=tmp_path, dump=tmp_path / "ir", policies={"n": "pad"}, **asked
    )
    manifest = (report.bundle / "manifest.json").read_bytes()
    (target,) = report.variants
    for stage in (
        "graph",
        "optimized",
        f"{target.target}/regions",
        f"{target.target}/variant",
    ):
        again = build(tmp_path / "ir" / f"{stage}.mlir", output=tmp_path, **asked)
        assert (again.bundle / "manifest.json").read_bytes() == manifest, stage
    model = compiler.load(report.bundle, allow_unsigned=True, threads=1)
    x = np.arange(15, dtype="f4").reshape(5, 3)
    np.testing.assert_array_equal(model.f(x=x), x.sum(0))
    data = json.loads(manifest)
    assert data["symbols"]["n"]["policy"] == "pad"
    assert data["entry_points"][0]["specializations"] == [
        {
            "export": "f__n_16_padded",
            "sizes": {"n": 16},
            "padded": ["n"],
            "told": ["n", "m"],
        }
    ]


ROUTED = """
import aotc
import aotc.numpy as np

n = aotc.Dim("n", specialize=(2, 4), policy="route:any_size")
m = aotc.Dim("m", specialize=(3,), policy="callback:by_hand")
k = aotc.Dim("k", specialize=(2,), policy="error")

@aotc.entry(x=aotc.Spec((n,), "f32"))
def fixed(x):
    return {"y": x + 1}

@aotc.entry(x=aotc.Spec(("any",), "f32"))
def any_size(x):
    return {"y": x + 1 + 0 * x}

@aotc.entry(x=aotc.Spec((m, k), "f32"))
def outside(x):
    return {"y": x * 2, "z": np.sum(x)}
"""


def test_calls_without_code_go_to_another_entry_or_to_the_caller(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(ROUTED)
    asked = {"targets": Target.named("native"), "sign": False}
    bundle = build(file, output=tmp_path, **asked).bundle
    seen = []

    def by_hand(x):
        seen.append(x.shape)
        return {"y": x * 2, "z": x.sum()}

    model = compiler.load(bundle, allow_unsigned=True, callbacks={"by_hand": by_hand})
    for size in (2, 3, 4, 9):
        x = np.arange(size, dtype="f4")
        np.testing.assert_array_equal(model.fixed(x=x)["y"], x + 1)
    for size in (3, 5):
        x = np.ones((size, 2), "f4")
        found = model.outside(x=x)
        np.testing.assert_array_equal(found["y"], x * 2)
        assert found["z"] == 2 * size
    assert seen == [(5, 2)]
    version = {"version": model.manifest.version, "entry": "outside"}
    calls = functools.partial(compiler.counters.value, "calls", **version)
    assert calls(variant="callback:by_hand", path="callback") == 1
    assert calls(path="compiled") == 1
    with pytest.raises(InputError) as caught:  # a size that nothing is said of decides
        model.outside(x=np.ones((5, 3), "f4"))
    assert caught.value.code == "no-code-for-sizes"
    x = np.ones((5, 2), "f4")
    for wrong in (
        lambda x: {"y": x[:1], "z": x.sum()},
        lambda x: {"y": x.astype("f8"), "z": x.sum()},
        lambda x: {"y": x},
        lambda x: None,
    ):
        loaded = compiler.load(
            bundle, allow_unsigned=True, callbacks={"by_hand": wrong}
        )
        with pytest.raises(InputError, match="outside: by_hand") as caught:
            loaded.outside(x=x)
        assert caught.value.code == "callback-result"
    for asked in ({"by_hnd": print}, {"by_hand": 3}):
        with pytest.raises(InputError) as caught:
            compiler.load(bundle, allow_unsigned=True, callbacks=asked)
        assert caught.value.code == "bad-option"
    alone = compiler.load(bundle, allow_unsigned=True)
    with pytest.raises(InputError, match="'by_hand'") as caught:
        alone.outside(x=np.ones((5, 2), "f4"))
    assert caught.value.code == "no-callback"


@pytest.mark.parametrize("name", ["nobody", "fixed", "outside"])
def test_a_route_to_what_does_not_take_the_calls_is_refused(tmp_path, name):
    file = tmp_path / "model.py"
    file.write_text(ROUTED.replace("route:any_size", f"route:{name}"))
    with pytest.raises(InputError, match=f"'{name}'") as caught:
        build(file, stop_after="graph")
    assert caught.value.code == "bad-route"


EVERY_POLICY = """
import aotc
import aotc.numpy as np
import numpy
from aotc import nn

rng = numpy.random.default_rng(0)
weights = aotc.Weights({"w": rng.standard_normal((4, 3)).astype("f4")})

def body(weights, x):
    h = np.tanh(x @ weights["w"])
    spread = nn.softmax(h, 0)
    return {
        "mean": np.mean(h, 0),
        "spread": spread,
        "sums": np.cumsum(h, 0),
        "greatest": np.max(h, 0),
        "pairs": np.mean((spread @ spread.T) * 2.0),
    }

def declare(name, **asked):
    def entry(weights, x):
        return body(weights, x)
    entry.__name__ = entry.__qualname__ = name
    size = aotc.Dim(f"n_{name}", max=16, **asked)
    return aotc.entry(entry, weights=weights, x=aotc.Spec((size, 4)))

any_size = declare("any_size")
errors = declare("errors", specialize=(1, 2, 3, 5, 8), policy="error")
padded = declare("padded", policy="pad")
buckets = declare("buckets", specialize=(2, 5, 8), policy="bucket")
routed = declare("routed", specialize=(1, 4), policy="route:any_size")
called = declare("called", specialize=(3,), policy="callback:by_hand")
both = declare("both", specialize=(1, 7))
"""


@pytest.mark.parametrize("count", [400, pytest.param(1000, marks=pytest.mark.slow)])
def test_hundreds_of_sequences_of_random_shapes_are_right_under_every_policy(
    tmp_path, count
):
    file = tmp_path / "model.py"
    file.write_text(EVERY_POLICY)
    source = runpy.run_path(str(file))
    asked = {"targets": Target.named("native"), "sign": False, "self_check": "off"}
    bundle = build(file, output=tmp_path, **asked).bundle

    def by_hand(x):
        found = source["any_size"](x=x)
        return {name: np.asarray(array) for name, array in found.items()}

    model = compiler.load(
        bundle, allow_unsigned=True, threads=1, callbacks={"by_hand": by_hand}
    )
    compiled = compiler.jit(source["body"])
    ways = {
        name: getattr(model, name)
        for name in ("any_size", "padded", "buckets", "routed", "called", "both")
    }
    ways["jit"] = compiled
    rng = np.random.default_rng(1)
    refused = calls = 0
    for _ in range(count):
        name = rng.choice([*ways, "errors"])
        for size in rng.integers(1, 17, rng.integers(1, 6)):
            calls += 1
            x = rng.standard_normal((size, 4)).astype("f4")
            if name == "errors" and size not in (1, 2, 3, 5, 8):
                with pytest.raises(InputError) as caught:
                    model.errors(x=x)
                assert caught.value.code == "no-code-for-sizes"
                refused += 1
                continue
            got = model.errors(x=x) if name == "errors" else ways[name](x=x)
            for key, wanted in source["any_size"](x=x).items():
                wanted = np.asarray(wanted)
                assert got[key].shape == wanted.shape
                np.testing.assert_allclose(
                    got[key], wanted, 1e-5, 1e-5, err_msg=f"{name} {size} {key}"
                )
    assert refused > 50 < calls - refused
    assert len(compiled.variants) <= 3
