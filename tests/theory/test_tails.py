"""Tighter bounds for sampled groups: drawn without repetition, and both tails. Sound by enumeration, never below."""

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from flcert import certify
from flcert.certify.confidence import clopper_pearson, hypergeometric, hypergeometric_tail
from flcert.certify.draw import Draw
from flcert.errors import InputError
from tests.theory.exact import sampled


def exact_tail(successes, trials, marked, population):
    ways = sum(comb(marked, i) * comb(population - marked, trials - i) for i in range(successes, trials + 1))
    return Fraction(ways, comb(population, trials))


@pytest.mark.parametrize("population", [1, 2, 7, 12, 19])
def test_the_tail_is_hardly_above_the_exact_one(population):
    for trials in range(1, population + 1):
        for successes in range(trials + 1):
            for marked in range(population + 1):
                exact = exact_tail(successes, trials, marked, population)
                bound = hypergeometric_tail(successes, trials, marked, population)
                assert exact <= bound <= exact * (1 + Fraction(1, 10**20)) + Fraction(1, 10**40)


@pytest.mark.parametrize("population", range(1, 20))
@pytest.mark.parametrize("alpha", [Fraction(1, 1000), Fraction(1, 17), Fraction(1, 5), Fraction(1, 2)])
def test_the_bound_is_exact_and_for_a_majority_never_below_clopper_pearson(population, alpha):
    for trials in range(1, population + 1):
        for successes in range(trials + 1):
            bound = hypergeometric(successes, trials, population, alpha)
            tails = [exact_tail(successes, trials, marked, population) for marked in range(population + 1)]
            exact = next(marked for marked, tail in enumerate(tails) if tail > alpha)
            assert exact - (alpha in tails) <= bound <= exact  # a tail that is alpha itself is rounded up
            if 2 * successes > trials:  # a majority, which is what a certificate is about
                assert bound >= clopper_pearson(successes, trials, alpha) * population
    assert hypergeometric(population, population, population, alpha) == population


@pytest.mark.parametrize("population", [499_500, comb(1000, 5), comb(80_000, 160)])
def test_large_populations_are_close_to_clopper_pearson_from_above(population):
    alpha = Fraction(1, 10**7)
    for votes in (260, 400, 500):
        bound = hypergeometric(votes, 500, population, alpha)
        share = Fraction(bound, population)
        assert hypergeometric_tail(votes, 500, bound - 1, population) <= alpha
        assert clopper_pearson(votes, 500, alpha) <= share + Fraction(1, 2**40)
        assert abs(float(share) - float(clopper_pearson(votes, 500, alpha))) < 1e-3


def failure_rate(worlds, num_groups, true_counts, **options):
    """The share of all draws (without repetition) on which a certificate claims what is not so."""
    total = sum(true_counts)
    labels = np.repeat(np.arange(len(true_counts)), true_counts)
    clients, size = worlds
    failures = draws = 0
    seen = {}
    for draw in combinations(range(total), num_groups):
        counts = tuple(np.bincount(labels[list(draw)], minlength=len(true_counts)).tolist())
        seen[counts] = seen.get(counts, 0) + 1
    for counts, times in seen.items():
        result = sampled([list(counts)], num_clients=clients, group_size=size, distinct=True, **options)
        draws += times
        if result.abstained[0]:
            continue
        label, level = int(result.labels[0]), int(result.levels[0])
        rival = max(count for other, count in enumerate(true_counts) if other != label)
        gap = true_counts[label] - rival
        failures += times * (gap <= 2 * total - 2 * comb(clients - level, size))
    return Fraction(failures, draws)


@pytest.mark.parametrize("tails", ["one", "both", "best"])
@pytest.mark.parametrize("true_counts", [(8, 7, 0), (7, 8, 0), (5, 5, 5), (10, 4, 1), (13, 1, 1), (15, 0, 0)])
def test_the_failure_probability_is_kept_by_enumeration_of_all_draws(tails, true_counts):
    for alpha in (0.05, 0.3):
        rate = failure_rate((6, 2), 6, true_counts, alpha=alpha, tails=tails)
        assert rate <= Fraction(str(alpha)), (tails, true_counts, float(rate))


def test_drawing_all_groups_gives_the_exact_certificate():
    tables = {
        (5, 2): [[9, 1, 0], [8, 2, 0], [6, 4, 0], [5, 5, 0], [10, 0, 0], [4, 3, 3], [3, 3, 4], [7, 2, 1]],
        (30, 2): [[300, 60, 75], [200, 100, 135], [435, 0, 0]],
    }
    for (clients, size), counts in tables.items():
        for tails in ("one", "both", "best"):
            drawn = sampled(counts, num_clients=clients, group_size=size, distinct=True, tails=tails)
            exact = certify.enumerated(counts, num_clients=clients, group_size=size)
            assert np.array_equal(drawn.levels, exact.levels)
            assert np.array_equal(drawn.abstained, exact.abstained)


def test_a_group_that_was_drawn_and_did_not_vote_is_not_taken_for_known():
    options = {"num_clients": 5, "group_size": 2, "distinct": True}
    silent = sampled([[9, 0, 0]], **options, num_groups=10)
    assert silent.levels[0] <= certify.enumerated([[9, 1, 0]], num_clients=5, group_size=2).levels[0]


@pytest.mark.parametrize("distinct", [False, True])
def test_the_best_of_both_pays_for_having_been_chosen(distinct):
    counts = [[200, 40, 40, 60], [330, 10, 0, 0], [180, 150, 5, 5], [339, 1, 0, 0]]
    options = {"num_clients": 1000, "group_size": 2, "num_inputs": 10_000, "distinct": distinct}
    best = sampled(counts, **options, alpha=Fraction(1, 1000), tails="best")
    halves = [sampled(counts, **options, alpha=Fraction(1, 2000), tails=tails) for tails in ("one", "both")]
    assert best.levels.tolist() == np.max([half.levels for half in halves], axis=0).tolist()
    whole = [sampled(counts, **options, alpha=Fraction(1, 1000), tails=tails) for tails in ("one", "both")]
    assert (best.levels < np.max([one.levels for one in whole], axis=0)).any()


def test_distinct_groups_are_never_below_repeated_ones():
    top = np.arange(200, 436)
    counts = np.stack([top, 435 - top], axis=1)
    options = {"num_clients": 30, "group_size": 2, "num_inputs": 2603, "num_groups": 435}
    repeated, distinct = (sampled(counts, **options, distinct=flag) for flag in (False, True))
    assert (distinct.levels >= repeated.levels).all()
    assert (distinct.abstained <= repeated.abstained).all()
    assert (distinct.levels > repeated.levels).any()


def test_both_tails_certify_without_a_majority():
    counts = np.array([[200, 40, 40, 40, 40, 40, 40, 60], [480, 20, 0, 0, 0, 0, 0, 0]])
    options = {"num_clients": 1000, "group_size": 2, "num_inputs": 10_000}
    one, both, best = (sampled(counts, **options, tails=tails) for tails in ("one", "both", "best"))
    assert one.abstained.tolist() == [True, False]
    assert both.levels[0] > 10
    assert both.levels[1] < one.levels[1]  # it pays for sixteen bounds
    assert best.levels[0] > 10
    assert both.levels[1] <= best.levels[1] <= one.levels[1]


def test_both_tails_are_right_about_the_weakest_ensemble_within_the_bounds():
    """The level is what Theorem 1 grants for the bounds, found by trying every m."""
    n, k, trials = 12, 3, 40
    total = comb(n, k)
    rng = np.random.default_rng(0)
    for _ in range(40):
        counts = rng.multinomial(trials, rng.dirichlet([4, 1, 1]))
        result = sampled([counts], num_clients=n, group_size=k, alpha=0.1, tails="both")
        share = Fraction(1, 10) / 6
        top = sorted(counts.tolist(), reverse=True)
        low = clopper_pearson(top[0], trials, share)
        high = 1 - clopper_pearson(trials - top[1], trials, share)
        least, most = -(-low.numerator * total // low.denominator), high.numerator * total // high.denominator
        most = min(most, total - least)
        granted = [m for m in range(n - k + 1) if least - most > 2 * total - 2 * comb(n - m, k)]
        assert (result.levels[0], result.abstained[0]) == ((max(granted), False) if granted else (0, True))


def test_groups_without_a_vote_may_have_voted_for_the_rival():
    options = {"num_clients": 1000, "group_size": 2, "num_groups": 500, "tails": "both"}
    full, missing = (sampled([counts], **options) for counts in ([400, 100], [400, 60]))
    assert missing.levels[0] == full.levels[0]


def test_one_group_alone_certifies_nothing():
    result = sampled([[1, 0]], num_clients=5, group_size=2, alpha=0.99, distinct=True)
    assert result.abstained[0]


def test_bad_options_are_named():
    with pytest.raises(InputError, match="unknown tails 'two'"):
        sampled([[3, 1]], num_clients=5, group_size=2, tails="two")
    with pytest.raises(InputError, match=r"num_groups must be in \[1, C\(n, k\)=10\], got 11"):
        sampled([[11, 0]], num_clients=5, group_size=2, distinct=True)


def test_numbers_of_groups_just_within_a_machine_integer_stay_exact():
    """There are C(66, 33) groups, and twice as many do not fit into 64 bits."""
    draw, total, share = Draw(66, 33, 500, distinct=False), comb(66, 33), Fraction(1, 4000)  # of alpha
    least, most = draw.at_least(499, share), draw.at_most(1, share)
    level = max(m for m in range(34) if least - most > 2 * total - 2 * comb(66 - m, 33))
    found = sampled([[499, 1]], num_clients=66, group_size=33, alpha=0.001, tails="both")
    assert (found.levels[0], bool(found.abstained[0])) == (level, False)
