"""Statistics of more elements than half precision can count: 65504 in f16, 256 in bf16.

They are compared with the same functions in f64.
"""

import numpy as np
import pytest

import aotc
from aotc import linalg, nn, reference
from aotc import numpy as anp
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

COUNT = 70001
TOLERANCE = {"f16": 4e-3, "bf16": 3e-2}
X = np.random.default_rng(0).uniform(0.5, 2.0, COUNT)
LABELS = np.random.default_rng(1).integers(0, 3, COUNT).astype("i4")


def image(x):
    """The numbers as an image of one channel."""
    return anp.reshape(x, (1, -1, 1))


def classes(x):
    """Logits of three classes for each example."""
    return anp.stack([x, x * 0.5, x * x], 1)


STATISTICS = {
    "mean": anp.mean,
    "mean of some": lambda x: anp.mean(x, where=x > 1.0),
    "nanmean": anp.nanmean,
    "average": lambda x: anp.average(x, weights=x),
    "var": lambda x: anp.var(x, ddof=1),
    "var of some": lambda x: anp.var(x, where=x > 1.0),
    "std": anp.std,
    "cov": anp.cov,
    "corrcoef": lambda x: anp.corrcoef(anp.stack([x, x * x]))[0, 1],
    "norm": linalg.norm,
    "norm of order 3": lambda x: linalg.vector_norm(x, ord=3),
    "pairwise distance": lambda x: nn.pairwise_distance(x * 2, x),
    "cosine": lambda x: nn.cosine_similarity(x, x * x),
    "pool": lambda x: nn.avg_pool(image(x), (COUNT,)),
    "padded pool": lambda x: nn.avg_pool(image(x), (COUNT,), padding="SAME"),
    "adaptive pool": lambda x: nn.adaptive_avg_pool(image(x), (2,)),
    "power pool": lambda x: nn.lp_pool(image(x), 2, (COUNT,)),
    "global pool": lambda x: nn.global_avg_pool(image(x)),
    "global power pool": lambda x: nn.global_lp_pool(image(x), 2),
    "l1 loss": lambda x: nn.l1_loss(x * 0.3, x, reduction="mean"),
    "cross entropy": lambda x: nn.cross_entropy(
        classes(x), LABELS, weights=anp.full(3, 0.5, x.dtype), reduction="mean"
    ),
    "layer norm": lambda x: nn.layer_norm(x)[:5],
    "group norm": lambda x: nn.group_norm(image(x), 1)[0, :5],
}
ORDERED = {
    "median": anp.median,
    "quantile": lambda x: anp.quantile(x, 0.3),
    "percentile": lambda x: anp.percentile(x, 37.0),
    "nanquantile": lambda x: anp.nanquantile(x, 0.3),
}


@pytest.mark.parametrize("name", [*STATISTICS, *ORDERED])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_statistics_of_many_narrow_numbers_are_rounded_only_once(name, dtype):
    function = {**STATISTICS, **ORDERED}[name]
    narrow = anp.asarray(X).astype(dtype)
    found, wanted = function(narrow), np.asarray(function(anp.asarray(X)))
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found).astype("f8"), wanted, TOLERANCE[dtype])


GRADED = [name for name in STATISTICS if name not in ("corrcoef", "cosine")]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_gradients_of_statistics_of_many_narrow_numbers_are_right(dtype):
    def gradients(x):
        def loss(name):
            # 1000 times, so that the gradients are no subnormal numbers of f16
            return lambda x: anp.sum(STATISTICS[name](x).astype("f32")) * 1000.0

        return [aotc.grad(loss(name))(x) for name in GRADED]

    found = {}
    for kind in (dtype, "f32"):
        program = trace([aotc.entry(x=aotc.Spec(COUNT, kind))(gradients)], {})
        run_passes(program.module, ["autodiff", "inline"])
        x = X.astype(aotc.core.dtypes.to_numpy(dtype)).astype(
            aotc.core.dtypes.to_numpy(kind)
        )
        found[kind] = reference.evaluate(program.module, "gradients", [x])
    for name, got, want in zip(GRADED, found[dtype], found["f32"], strict=True):
        slack = 3 * TOLERANCE[dtype] * np.abs(want).max()
        np.testing.assert_allclose(
            got.astype("f8"), want, 0, slack, err_msg=name, equal_nan=False
        )


def test_the_gradient_of_a_maximum_is_shared_by_any_number_of_ties():
    def gradient(x):
        return aotc.grad(lambda x: anp.max(x).astype("f32") * 1000.0)(x)

    program = trace([aotc.entry(x=aotc.Spec(COUNT, "f16"))(gradient)], {})
    run_passes(program.module, ["autodiff", "inline"])
    (found,) = reference.evaluate(program.module, "gradient", [np.ones(COUNT, "f2")])
    np.testing.assert_allclose(found.astype("f8"), 1000 / COUNT, 1e-2)
