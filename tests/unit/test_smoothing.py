"""CRFL: clipping, noise, and the vote of noisy copies."""

import numpy as np
import torch

from flcert.datasets import load
from flcert.grouping import hashed
from flcert.training import Recipe, train
from flcert.training.group import GroupTask, train_group
from flcert.training.smoothing import Smoothing

FEDERATION = load("digits", num_clients=6, num_test=80)


def norm(arrays):
    return np.sqrt(sum(float((value.astype(np.float64) ** 2).sum()) for value in arrays.values()))


def test_the_model_is_clipped_after_every_round():
    recipe = Recipe(rounds=4, evaluate_at=(1, 2, 3), smoothing=Smoothing(clip=2.0))
    for arrays in train_group(FEDERATION, GroupTask((0, 1), recipe)).values():
        assert norm(arrays) <= 2.0 + 1e-4
    free = train_group(FEDERATION, GroupTask((0, 1), Recipe(rounds=4)))[4]
    assert norm(free) > 2.5


def test_buffers_are_neither_clipped_nor_perturbed():
    state = torch.arange(6.0)
    smoothing = Smoothing(clip=1.0, sigma=1.0)
    assert torch.equal(smoothing.clipped(state, 4)[4:], state[4:])
    assert torch.equal(smoothing.perturbed(state, 4, 0, "x")[4:], state[4:])
    torch.testing.assert_close(smoothing.clipped(state, 4)[:4].norm(), torch.tensor(1.0))


def test_noise_has_its_standard_deviation_and_a_stream_for_each_round_and_copy():
    smoothing = Smoothing(sigma=0.5)
    zero = torch.zeros(20_000)
    first, second = (smoothing.perturbed(zero, 20_000, 0, "round", number) for number in (1, 2))
    assert abs(float(first.std()) - 0.5) < 0.02
    assert abs(float((first * second).mean())) < 0.01
    assert torch.equal(first, smoothing.perturbed(zero, 20_000, 0, "round", 1))


def test_the_vote_is_the_majority_of_noisy_copies(store):
    grouping = hashed(FEDERATION.ids, 1)
    settings = {"rounds": 5, "learning_rate": 0.3}
    votes = {}
    for sigma, copies in ((1e-9, 1), (0.5, 1), (0.5, 201)):
        recipe = Recipe(**settings, smoothing=Smoothing(sigma=sigma, copies=copies))
        votes[sigma, copies] = train(FEDERATION, grouping, recipe, store=store).votes(FEDERATION.test_inputs)[0]
    plain = train(FEDERATION, grouping, Recipe(**settings), store=store).votes(FEDERATION.test_inputs)[0]
    right = {key: float((labels == FEDERATION.test_labels).mean()) for key, labels in votes.items()}
    assert np.array_equal(votes[1e-9, 1], plain)  # next to no noise, and no clipping at this norm
    assert right[0.5, 201] > right[0.5, 1]


def test_noise_is_added_between_rounds_and_not_before_the_first():
    def trained(rounds, sigma):
        recipe = Recipe(rounds=rounds, smoothing=Smoothing(clip=1000.0, sigma=sigma))
        return train_group(FEDERATION, GroupTask((0, 1), recipe))[rounds]

    def apart(rounds):
        return max(np.abs(trained(rounds, 1e-9)[name] - trained(rounds, 0.1)[name]).max() for name in trained(1, 0.1))

    assert apart(1) == 0
    assert apart(2) > 0.05
