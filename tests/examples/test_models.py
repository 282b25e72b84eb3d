"""Every example trains with its compiled steps, by its own script, to a real target.

The larger ones do with `pytest -m slow tests/examples` alone.
"""

import runpy
from pathlib import Path

import pytest

import aotc
from aotc.pipeline import build

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """`trained("gpt", 400)`: what `train` of that example returns for a new model."""
    bundles = {}

    def run(name, *arguments, threads=None):
        if name not in bundles:
            output = tmp_path_factory.mktemp(name)
            bundles[name] = build(EXAMPLES / name / "model.py", output=output).bundle
        train = runpy.run_path(str(EXAMPLES / name / "train.py"))["train"]
        return train(aotc.load(bundles[name], threads=threads), *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(tmp_path_factory.mktemp("home")))
        yield run


def test_linear_regression_finds_the_solution_of_least_squares(trained):
    assert trained("linear") < 1e-5


def test_logistic_regression_reads_digits(trained):
    assert trained("mlp", "logistic") > 0.9


def test_a_dense_network_reads_digits_better(trained):
    assert trained("mlp", "mlp") > 0.96


def test_an_lstm_adds_numbers_that_are_far_apart(trained):
    assert trained("lstm") < 0.03  # 0.17 for always saying 1


@pytest.mark.slow
def test_a_gru_predicts_waves_that_it_has_not_seen(trained):
    assert trained("gru") < 0.01  # 0.13 for the last value again, 0.11 for a line


@pytest.mark.slow
def test_a_bidirectional_lstm_tags_by_what_is_on_both_sides(trained):
    assert trained("bilstm") > 0.97  # 0.68 for who sees one side


def test_a_convolutional_network_learns_with_dropout(trained):
    assert trained("cnn") > 0.97


@pytest.mark.slow
def test_a_residual_network_keeps_the_statistics_that_it_predicts_by(trained):
    assert trained("resnet") > 0.95


@pytest.mark.slow
def test_a_unet_tells_discs_from_rectangles(trained):
    assert trained("unet") > 0.85  # 0.52 for finding both without telling them apart


@pytest.mark.slow
def test_a_vision_transformer_reads_digits(trained):
    assert trained("vit") > 0.95


@pytest.mark.slow
def test_a_diffusion_transformer_finds_the_noise_in_digits(trained):
    assert trained("dit") < 0.18  # nothing 1, linear for each digit 0.19


@pytest.mark.slow
def test_a_gpt_learns_more_of_a_text_than_pairs_of_characters(trained):
    assert trained("gpt") < 1.75  # single characters 2.9, pairs 2.2


@pytest.mark.slow
def test_a_bert_fills_in_masked_characters(trained):
    assert trained("bert") > 0.38  # 0.17 for always saying space


@pytest.mark.slow
def test_experts_share_a_text_and_learn_it(trained):
    figures = trained("moe")
    assert figures["loss"] < 1.75  # as the GPT
    assert ((figures["fractions"] > 0.15) & (figures["fractions"] < 0.35)).all()
    assert (figures["dropped"] < 0.05).all()


@pytest.mark.slow
def test_rates_of_a_stiff_reaction_are_found_through_implicit_steps(trained):
    assert (trained("ode", threads=1) < 0.02).all()  # guessed 2 to 3 times off
