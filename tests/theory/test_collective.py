"""The collective certificate against every set of attacked groups on small cases."""

from itertools import combinations, product

import numpy as np
import pytest

from flcert import certify, voting
from flcert.certify.collective import SCALE, dual_bound, most_broken
from flcert.errors import InputError

LABELS = 3


def winner(votes):
    return max(range(LABELS), key=lambda label: (votes.count(label), -label))


def still_right(votes, truth, hit):
    """How many inputs keep their right label when these groups may vote as they like on each input."""
    kept = 0
    for column, true in zip(votes.T.tolist(), truth, strict=True):
        right = winner(column) == true
        for forged in product(range(LABELS), repeat=len(hit)):
            changed = list(column)
            for group, vote in zip(hit, forged, strict=True):
                changed[group] = vote
            right &= winner(changed) == true
        kept += right
    return kept


@pytest.mark.parametrize("seed", range(25))
def test_no_set_of_groups_breaks_more_inputs_than_it_says(seed):
    rng = np.random.default_rng(seed)
    groups, inputs = 5, 12
    truth = rng.integers(0, LABELS, inputs)
    votes = np.where(rng.random((groups, inputs)) < 0.75, truth, rng.integers(0, LABELS, (groups, inputs)))
    counts = voting.count(votes, LABELS)
    curve = certify.certified_accuracy(certify.disjoint(counts), truth)
    for m in range(groups + 1):
        worst = min(still_right(votes, truth, hit) for hit in combinations(range(groups), m))
        proved = certify.collective(counts, votes, truth, m)
        own = round(curve[m] * inputs) if m < len(curve) else 0
        assert own <= proved <= worst


def test_it_beats_certified_accuracy_where_inputs_lean_on_different_groups():
    """Each input is won by its own few groups, so an attacker cannot be at all of them at once."""
    groups, inputs = 30, 60
    rng = np.random.default_rng(0)
    votes = np.full((groups, inputs), -1)
    for column in range(inputs):
        votes[rng.choice(groups, 4, replace=False), column] = 0
    counts = voting.count(votes, 2)
    truth = np.zeros(inputs, dtype=int)
    assert certify.certified_accuracy(certify.disjoint(counts), truth)[2] == 1
    assert certify.collective(counts, votes, truth, 3) > 10  # each input alone withstands 2


def test_any_multipliers_give_a_sound_bound():
    rng = np.random.default_rng(1)
    reach, gaps = rng.integers(1, 3, (6, 9)), rng.integers(0, 5, 9)
    worst = max(int((reach[list(hit)].sum(axis=0) > gaps).sum()) for hit in combinations(range(6), 2))
    for _ in range(50):
        assert dual_bound(rng.integers(-SCALE, 2 * SCALE, 9), reach, gaps, 2) >= worst
    assert dual_bound(np.zeros(9, dtype=np.int64), reach, gaps, 2) == 9


@pytest.mark.parametrize("seed", range(40))
def test_the_most_that_can_be_broken_is_never_told_too_low(seed):
    rng = np.random.default_rng(seed)
    groups, inputs = int(rng.integers(2, 8)), int(rng.integers(1, 12))
    reach, gaps = rng.integers(0, 3, (groups, inputs)), rng.integers(0, 7, inputs)
    for m in range(groups + 1):
        worst = max(int((reach[list(hit)].sum(axis=0) > gaps).sum()) for hit in combinations(range(groups), m))
        assert worst <= most_broken(reach, gaps, m) <= inputs


@pytest.mark.parametrize("seed", range(15))
def test_whatever_failed_groups_would_have_voted_as_many_inputs_stay_right(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, LABELS, 6)
    votes = np.where(rng.random((5, 6)) < 0.9, truth, rng.integers(0, LABELS, (5, 6)))
    counts = voting.count(votes, LABELS)
    for m in range(3):
        proved = certify.collective(counts, votes, truth, m, num_failed=1)
        worst = 6
        for unknown in range(LABELS):  # the same on every input, as a start; then each input for itself
            full = np.vstack([votes, np.full((1, 6), unknown)])
            worst = min(worst, *(still_right(full, truth, hit) for hit in combinations(range(6), m)))
        rivals = np.vstack([votes, [(one + 1) % LABELS for one in truth]])
        worst = min(worst, *(still_right(rivals, truth, hit) for hit in combinations(range(6), m)))
        assert proved <= worst


def test_failed_groups_and_abstentions_are_charged():
    counts, votes = np.array([[3, 2], [5, 0]]), np.array([[0, 0], [0, 0], [0, 0], [1, 0], [1, 0]])
    assert certify.collective(counts, votes, [0, 0], 0, num_failed=2) == 1
    assert certify.collective(counts, votes, [0, 0], 1, num_failed=2) == 1


def test_bad_input_is_named():
    with pytest.raises(InputError, match="do not fit together"):
        certify.collective([[1, 0]], [[0, 0]], [0], 1)
    with pytest.raises(InputError, match=r"num_malicious must be in \[0"):
        certify.collective([[1, 0]], [[0]], [0], -1)
