"""Distinct groups: what is certain about all groups from those that were drawn, and how few groups may do."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from flcert import certify
from flcert.certify import Evidence, SampledOptions, Trusted
from flcert.certify.draw import Draw
from flcert.certify.tails import OneTail
from tests.theory.exact import sampled
from tests.theory.test_trusted import (
    LABELS,
    TOTAL,
    all_counts,
    chance,
    claims,
    counts_of,
    ensemble_level,
    true_levels,
    weights_of,
)

TAILS = ("one", "both", "best")
NEVER = 1e-30  # with this alpha a bound on distinct groups says no more than what is certain


@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("size", [(4, 2), (5, 1), (3, 2), (2, 2)])
def test_levels_without_doubt_are_those_of_the_weakest_models_that_voted_so(size, tails):
    """Sound and tight: over all models of all groups that fit the votes, silent groups anyhow, by every attack."""
    total = comb(*size)
    models = list(product(range(LABELS), repeat=total))
    for num_groups, votes in product(range(1, total + 1), (0, 1, 2, 3, 7)):
        seen = [row for cast in range(num_groups + 1) for row in all_counts(cast) if cast or votes]
        weights = weights_of(1, Fraction(votes * total, num_groups))
        trusted = Trusted(np.ones(len(seen), dtype=int), votes) if votes else None
        options = SampledOptions(num_groups, tails, distinct=True, trusted=trusted)
        result = certify.sampled(seen, num_clients=size[0], group_size=size[1], alpha=NEVER, options=options)
        levels = [
            (counts_of(model), [ensemble_level(model, *size, weights, label) for label in range(LABELS)])
            for model in models
        ]
        for row, label, level, abstained in zip(seen, result.labels, result.levels, result.abstained, strict=True):
            weakest = min(level[label] for counts, level in levels if all(map(int.__ge__, counts, row)))
            assert (-1 if abstained else level) == weakest, (num_groups, votes, row)


@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("votes", [0, 2, 5])
def test_the_failure_probability_is_kept_where_much_is_certain(tails, votes):
    """By enumeration of all draws of most of fifteen groups, for every ensemble."""
    worst, trusted = Fraction(0), Trusted(np.array([1]), votes)
    for num_groups, alpha in [(8, 0.6), (9, 0.3), (11, 0.6), (13, 0.3)]:
        claimed = list(claims(num_groups, trusted, alpha, tails, True))
        for true_counts in all_counts(TOTAL):
            truth = true_levels(true_counts, num_groups, trusted)
            wrong = sum(chance(seen, true_counts, True) for seen, label, level in claimed if truth[label] < level)
            rate = Fraction(wrong, comb(TOTAL, num_groups)) / Fraction(str(alpha))
            assert rate <= 1, (num_groups, true_counts)
            worst = max(worst, rate)
    assert worst > 0.05  # the bound is still there, beside what is certain


def test_what_is_certain_certifies_without_a_majority_of_all_groups():
    close = [[14, 12, 0], [14, 6, 6], [13, 13, 0], [9, 8, 9]]  # 26 of 28: K_y - K_z is at least 0, 6, -2 and -2
    assert sampled(close, num_clients=8, group_size=2, distinct=True).abstained.tolist() == [True, False, True, True]
    assert sampled(close, num_clients=8, group_size=2).abstained.all()


def test_a_silent_group_may_have_voted_for_the_rival():
    rows = [[14, 12, 0], [14, 11, 0], [14, 9, 2]]  # 26 of 28: at most 12 + 2, 11 + 1 + 2 and 9 + 1 + 2 for the rival
    result = sampled(rows, num_clients=8, group_size=2, distinct=True, num_groups=26)
    assert result.abstained.tolist() == [True, True, False]


@pytest.mark.parametrize("alpha", [0.9, 0.05])
def test_one_tail_has_the_better_of_the_bound_and_what_is_certain(alpha):
    """22 of 28 groups; neither is always the better one."""
    rows = np.array([row for row in all_counts(22) if row[0] > max(row[1:])])
    setting = {"num_clients": 8, "group_size": 2, "num_inputs": len(rows)}
    result = sampled(rows, **setting, distinct=True, alpha=alpha)
    certain = sampled(rows, **setting, distinct=True, alpha=NEVER)
    draw = Draw(8, 2, 22, distinct=True)
    bound = [OneTail(draw, Fraction(str(alpha)) / len(rows) / 2).level(int(row[0])) for row in rows]
    levels, sure = (np.where(one.abstained, -1, one.levels) for one in (result, certain))
    assert np.array_equal(levels, np.maximum(bound, sure))
    assert (levels > bound).any()
    assert (levels > sure).any()


def scan(kind, num_inputs, most):
    """The smallest N whose unanimous vote is certified, by trying every one."""
    for number in range(1, most + 1):
        one = kind.model_copy(update={"num_groups": number})
        evidence = Evidence(np.array([[number, 0]]), trusted=np.array([0]) if kind.trusted else None)
        if not one.certify(evidence, num_inputs).abstained[0]:
            return number
    return None


@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("selection", ["safe", "paper"])
@pytest.mark.parametrize("size", [(2, 2), (3, 1), (4, 2), (6, 2), (8, 2), (9, 3), (1000, 2)])
def test_the_least_number_of_groups_is_the_first_that_can_certify(size, selection, tails):
    for distinct, num_inputs, alpha, trusted in product((True, False), (1, 450), (0.001, 0.9), (0, 1, 3)):
        kind = certify.Sampled(
            num_clients=size[0],
            group_size=size[1],
            selection=selection,
            tails=tails,
            alpha=alpha,
            distinct=distinct,
            trusted=trusted,
        )
        assert kind.least_groups(num_inputs) == scan(kind, num_inputs, comb(*size) if distinct else 40)


def test_no_more_than_half_of_all_groups_and_one_more_are_needed():
    kind = certify.Sampled(num_clients=8, group_size=2, distinct=True)
    assert kind.least_groups(450) == 13  # by the bound; 15 of 28 are certain
    assert kind.least_groups(10**9) == 15
    assert kind.model_copy(update={"distinct": False}).least_groups(450) == 20


def test_without_clients_and_group_size_the_groups_count_as_independent():
    for tails in TAILS:
        known = certify.Sampled(num_clients=1000, group_size=2, tails=tails)
        unknown = certify.Sampled(tails=tails, distinct=True)
        assert unknown.least_groups(450) == known.least_groups(450)
