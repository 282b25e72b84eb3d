"""First values of parameters have the variance that their layer asks for."""

import math

import numpy as np
import pytest

from aotc import random
from aotc.errors import InputError
from aotc.nn import initializers

KEY = random.key(0)
SHAPE = (3, 3, 20, 50)
VARIANCES = {
    "glorot_uniform": 2 / (9 * 70),
    "glorot_normal": 2 / (9 * 70),
    "he_uniform": 2 / 180,
    "he_normal": 2 / 180,
    "lecun_uniform": 1 / 180,
    "lecun_normal": 1 / 180,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_values_have_the_variance_of_their_name(name):
    values = np.asarray(getattr(initializers, name)()(KEY, SHAPE)).astype("f8")
    assert values.shape == SHAPE
    assert abs(values.mean()) < 5 * math.sqrt(VARIANCES[name] / values.size)
    assert values.var() == pytest.approx(VARIANCES[name], rel=0.1)


def test_plain_values_are_what_they_say():
    assert np.asarray(initializers.zeros(KEY, (2, 3))).tolist() == [[0] * 3] * 2
    assert np.asarray(initializers.ones(KEY, 2)).tolist() == [1, 1]
    assert np.asarray(initializers.constant(4)(KEY, 2, "i32")).tolist() == [4, 4]
    assert np.asarray(initializers.normal(2.0)(KEY, 10_000)).std() == pytest.approx(
        2, rel=0.05
    )
    assert 0.49 < np.asarray(initializers.uniform(0.5)(KEY, 10_000)).max() < 0.5
    cut = np.asarray(initializers.truncated_normal(3.0)(KEY, 10_000))
    assert 5.9 < abs(cut).max() <= 6


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 2, 4)])
def test_orthogonal_values_have_orthonormal_rows_or_columns(shape):
    values = np.asarray(initializers.orthogonal(2.0)(KEY, shape))
    matrix = values.reshape(-1, shape[-1]) / 2
    thin = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(thin.T @ thin, np.eye(thin.shape[1]), atol=1e-5)


def test_bad_arguments_are_refused():
    for call in (
        lambda: initializers.variance_scaling(1.0, "fan", "normal"),
        lambda: initializers.variance_scaling(1.0, "fan_in", "gamma"),
        lambda: initializers.he_normal()(KEY, (3,)),
        lambda: initializers.orthogonal()(KEY, (3,)),
    ):
        with pytest.raises(InputError):
            call()
