"""Models that are asked together answer as each would alone."""

import numpy as np
import pytest
import torch

from flcert import datasets, models
from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.grouping import hashed, sampled
from flcert.models.mlp import MLP
from flcert.models.stacking import SEATS
from flcert.training import Recipe, train
from flcert.training.ensemble import Electorate
from flcert.training.panel import Alone, Stack, Voter, loaded, panel, seats

IMAGES = np.random.default_rng(0).random((40, 17, 19), dtype=np.float32)
KINDS = [
    (Choice(name="cnn"), (17, 19), 7),
    (Choice(name="cnn"), (3, 17, 19), 3),
    (Choice(name="mlp", options={"hidden": [20, 30]}), (17, 19), 7),
    (Choice(name="mlp", options={"hidden": []}), (17, 19), 7),
    (Choice(name="linear"), (100,), 10),
]


def voter(model, shape, labels, seed):
    recipe = Recipe(model=model, seed=seed)
    state = models.build(model, shape, labels, seed).state_dict()
    return Voter(recipe, {name: array.numpy() for name, array in state.items()})


def scores_of(together, inputs):
    return np.concatenate(list(together.blocks(inputs)), axis=1)


def inputs_of(shape):
    return np.random.default_rng(1).random((30, *shape), dtype=np.float32)


@pytest.mark.parametrize(("model", "shape", "labels"), KINDS, ids=str)
def test_a_stack_of_models_scores_and_votes_as_the_plain_modules_do(model, shape, labels):
    voters = [voter(model, shape, labels, seed) for seed in range(5)]
    inputs, together = inputs_of(shape), panel(voters, shape, labels)
    assert isinstance(together, Stack)
    plain = [loaded(one.recipe, one.arrays, shape, labels)(torch.from_numpy(inputs)).detach().numpy() for one in voters]
    assert np.allclose(scores_of(together, inputs), plain, atol=1e-5)
    assert np.array_equal(together.votes(inputs), np.argmax(plain, axis=2))
    assert np.array_equal(together.ranks(inputs)[:, :, :].argmin(axis=2), together.votes(inputs))


@pytest.mark.parametrize(("model", "shape", "labels"), KINDS, ids=str)
@pytest.mark.parametrize("poison", [np.nan, np.inf, 3e38], ids=str)
def test_a_model_s_scores_keep_their_bytes_whoever_sits_beside_it(model, shape, labels, poison):
    inputs, one = inputs_of(shape)[:4], voter(model, shape, labels, 0)
    alone = scores_of(panel([one], shape, labels), inputs)[0]
    assert np.isfinite(alone).all()
    wrong = Voter(one.recipe, {name: np.full_like(array, poison) for name, array in one.arrays.items()})
    other = voter(model, shape, labels, 1)
    number = seats(one.recipe, shape, labels)
    assert number >= SEATS
    for seat in sorted({*range(SEATS), 17, 31, 100, 127, 128, 200, 254, 255} & set(range(number))):
        company = [wrong] * number
        company[seat - 1] = other
        company[seat] = one
        assert scores_of(panel(company, shape, labels), inputs)[seat].tobytes() == alone.tobytes()


@pytest.mark.parametrize(("model", "shape", "labels"), KINDS, ids=str)
def test_an_input_s_scores_keep_their_bytes_whatever_else_is_asked(model, shape, labels):
    inputs = inputs_of(shape)
    together = panel([voter(model, shape, labels, seed) for seed in range(3)], shape, labels)
    all_at_once = scores_of(together, inputs)
    for row in range(len(inputs)):
        assert scores_of(together, inputs[row : row + 1])[:, 0].tobytes() == all_at_once[:, row].tobytes()


class Doubled(MLP):
    """Inherits a stacked form that no longer fits."""

    def forward(self, inputs):
        return -2 * super().forward(inputs)


def test_a_subclass_is_asked_through_its_own_forward_and_not_through_an_inherited_stack():
    recipe = Recipe(model=Choice(name="tests.unit.test_panel:Doubled"))
    one = voter(recipe.model, (17, 19), 7, 0)
    assert seats(recipe, (17, 19), 7) == 1
    together = panel([one], (17, 19), 7)
    assert isinstance(together, Alone)
    plain = MLP((17, 19), 7)
    plain.load_state_dict({name: torch.from_numpy(array) for name, array in one.arrays.items()})
    assert np.array_equal(together.votes(IMAGES)[0], plain(torch.from_numpy(IMAGES)).argmin(1).numpy())


class Crossed(MLP):
    """A stacked form that computes something else."""

    def stacked(self, weights):
        scores = super().stacked(weights)
        return lambda example: scores(example).flip(1)


class Raising(MLP):
    """A stacked form that does not work."""

    def stacked(self, weights):
        raise KeyError(len(weights))


class Mixing(MLP):
    """A stacked form in which every model hears of the others."""

    def stacked(self, weights):
        scores = super().stacked(weights)
        return lambda example: scores(example) + 0 * scores(example).mean(0)


class Rolled(MLP):
    """A stacked form that gives each model the scores of its neighbour."""

    def stacked(self, weights):
        scores = super().stacked(weights)
        return lambda example: scores(example).roll(1, 0)


REFUSED = {"Crossed": "must give the scores", "Mixing": "must give the scores", "Rolled": "must give the scores"}


@pytest.mark.parametrize(("name", "message"), [*REFUSED.items(), ("Raising", "raised KeyError")])
def test_a_stacked_form_that_differs_from_the_model_is_refused(name, message, store):
    federation = datasets.load("digits", num_clients=6, num_test=20)
    with pytest.raises(InputError, match=message):
        train(
            federation,
            hashed(federation.ids, 2),
            Recipe(model=Choice(name=f"tests.unit.test_panel:{name}")),
            store=store,
        )


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_no_vote_and_the_caller_keeps_his(threads, store):
    federation = datasets.load("digits", num_clients=30, num_test=50)
    ensemble = train(federation, sampled(federation.ids, 40, 1), Recipe(rounds=1), store=store)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    votes = Electorate(ensemble, list(ensemble.panels()), threads).votes(federation.test_inputs)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)
    assert np.array_equal(votes, ensemble.votes(federation.test_inputs))
    assert len(ensemble.owners()) < len(ensemble.model_keys())  # groups that were drawn twice
    for group in range(40):
        plain = ensemble.module(group)(torch.from_numpy(federation.test_inputs)).argmax(1)
        assert np.array_equal(votes[group], plain.numpy())
