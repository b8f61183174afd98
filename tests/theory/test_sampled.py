"""Theorem 1 with a lower bound, Algorithm 1, and the failure probability of Theorem 3."""

import random
from fractions import Fraction
from itertools import product
from math import ceil, comb

import numpy as np
import pytest

from flcert import certify, grouping
from flcert.certify.confidence import clopper_pearson, failure_probability, tail_bound
from flcert.certify.draw import Draw
from flcert.certify.sampled import least_groups
from flcert.certify.search import untouched_groups
from flcert.errors import InputError
from tests.theory.exact import binomial_tail, exact_level_holds, sampled
from tests.theory.test_enumerated import counts_of, survives_worst_attack, true_level


@pytest.mark.parametrize(("num_clients", "group_size", "num_labels"), [(4, 2, 3), (5, 2, 2), (5, 1, 3)])
def test_the_level_of_a_bound_is_that_of_the_weakest_models_within_it(num_clients, group_size, num_labels):
    """Sound and tight: over all models with p_y at or above the bound, the weakest has exactly this level."""
    total = comb(num_clients, group_size)
    levels = [
        (
            max(counts_of(votes, num_labels)),
            true_level(votes, num_clients, group_size, num_labels, survives_worst_attack),
        )
        for votes in product(range(num_labels), repeat=total)
    ]
    for numerator in range(total + 1, 2 * total + 1):
        bound = Fraction(numerator, 2 * total)
        weakest = min(level for votes, level in levels if votes >= ceil(bound * total))
        assert Draw(num_clients, group_size, 7, distinct=False).level_of_bound(bound) == weakest


def test_a_rival_has_no_more_groups_than_the_winner_leaves():
    """Of ten groups at least seven vote for y, so at most three for z, and two that turn make five each."""
    draw = Draw(5, 2, 3, distinct=False)
    for most in (3, 9):
        found = draw.to_turn(np.array([7], dtype=object), np.array([most], dtype=object), np.array([0]))
        assert found.tolist() == [2]


def test_a_bound_stands_without_trusted_votes_unless_they_are_told():
    """All ten groups vote for y. Five must turn, and one client touches four; one trusted vote beside one group weighs
    as much as ten, so that all must turn, of which three clients touch nine.
    """
    draw = Draw(5, 2, 1, distinct=False)
    assert (draw.level_of_bound(Fraction(1)), draw.level_of_bound(Fraction(1), 1)) == (1, 3)


def test_beyond_all_clients_but_a_group_no_group_is_left_to_count():
    assert untouched_groups(5, 2, more_than=1) == 3  # C(2, 2) = 1 is the last one
    assert untouched_groups(5, 2, more_than=-1) == 3


def random_cases(count, seed, *, most_groups):
    draw = random.Random(seed)
    for _ in range(count):
        trials = draw.randint(1, most_groups)
        alpha = draw.choice([Fraction(9, 10), *(Fraction(1, one_in) for one_in in (3, 20, 1000, 10**7, 10**12))])
        yield draw.randint(0, trials), trials, alpha, draw


def test_the_lower_bound_is_never_above_the_exact_clopper_pearson_bound_and_hardly_below():
    for votes, trials, alpha, _ in random_cases(1500, seed=1, most_groups=120):
        bound = clopper_pearson(votes, trials, alpha)
        if votes == 0:
            assert bound == 0
            continue
        assert binomial_tail(votes, trials, bound) <= alpha
        above = bound * (1 + Fraction(1, 2**38))
        assert above >= 1 or binomial_tail(votes, trials, above) > alpha


@pytest.mark.parametrize("votes", [1, 137, 251, 300, 420, 499, 500])
def test_the_lower_bound_of_five_hundred_groups_is_not_above_the_exact_one(votes):
    alpha = Fraction(1, 20_000_000)
    assert binomial_tail(votes, 500, clopper_pearson(votes, 500, alpha)) <= alpha


def test_a_quantile_that_is_too_high_is_lowered_until_the_proof_goes_through(monkeypatch):
    monkeypatch.setattr("flcert.certify.confidence.betaincinv", lambda *_: 0.9)
    alpha = Fraction(1, 1000)
    assert binomial_tail(30, 50, clopper_pearson(30, 50, alpha)) <= alpha


def test_the_tail_bound_is_above_the_tail_by_next_to_nothing():
    for votes, trials, _, draw in random_cases(300, seed=2, most_groups=80):
        p = Fraction(draw.randint(1, 999), 1000)
        exact, bound = binomial_tail(votes, trials, p), tail_bound(votes, trials, p)
        assert exact <= bound <= exact * (1 + Fraction(1, 10**20))


def test_levels_equal_those_of_rational_arithmetic():
    for votes, trials, alpha, draw in random_cases(2500, seed=3, most_groups=60):
        num_clients = draw.choice([2, 3, 10, 30, 100, 1000, 80_000])
        group_size = draw.randint(1, min(num_clients, 160))
        check_level(votes, trials, alpha, num_clients, group_size)


@pytest.mark.parametrize("votes", [260, 321, 499, 500])
def test_levels_equal_those_of_rational_arithmetic_for_the_largest_setting_of_the_paper(votes):
    check_level(votes, 500, Fraction(1, 20_000_000), num_clients=80_000, group_size=160)


def check_level(votes, trials, alpha, num_clients, group_size):
    counts = [[votes, trials - votes]] if 2 * votes >= trials else [[trials - votes, votes]]
    top = max(votes, trials - votes)
    result = sampled(counts, num_clients=num_clients, group_size=group_size, alpha=alpha, selection="paper")
    setting = (top, trials, alpha, num_clients, group_size)
    if result.abstained[0]:
        # the exact bound is at most 1/2, or there is no majority
        assert binomial_tail(top, trials, Fraction(1, 2)) >= alpha or 2 * top == trials
        return
    level = int(result.levels[0])
    assert exact_level_holds(level, *setting)
    assert level == num_clients - group_size or not exact_level_holds(level + 1, *setting)


def largest_level(num_groups, num_inputs, num_clients, group_size, selection="paper"):
    result = sampled(
        [[num_groups, 0]],
        num_clients=num_clients,
        group_size=group_size,
        num_inputs=num_inputs,
        alpha=0.001,
        selection=selection,
    )
    return None if result.abstained[0] else int(result.levels[0])


def test_figures_of_the_paper():
    assert largest_level(500, 2_575, 30, 2) == 8  # HAR: "up to 8 out of 30"
    assert largest_level(500, 10_000, 1000, 2) == 270
    assert largest_level(200, 10_000, 1000, 5) == 103
    assert certify.disjoint([[500, 0]]).levels[0] == 250
    assert certify.disjoint([[200, 0]]).levels[0] == 100


def test_too_few_groups_certify_nothing():
    """P abstains on every input when N <= log2(D / alpha): the paper's CIFAR-10 (N=20) and HAR (N=15)."""
    assert largest_level(23, 10_000, 1000, 2) is None
    assert largest_level(24, 10_000, 1000, 2) is not None
    assert largest_level(20, 10_000, 100, 5) is None
    assert largest_level(15, 2_575, 30, 2) is None


@pytest.mark.parametrize("num_inputs", [1, 2, 2_575, 10_000])
def test_the_fewest_groups_are_the_first_whose_unanimous_vote_is_certified(num_inputs):
    def certified(number, **more):
        setting = {"num_clients": 10**6, "group_size": 2, "num_inputs": num_inputs}
        return not sampled([[number, 0]], **setting, **more).abstained[0]

    fewest = least_groups(num_inputs)
    assert (certified(fewest - 1), certified(fewest)) == (False, True)
    fewest = least_groups(num_inputs, 0.03, "paper")
    more = {"alpha": 0.03, "selection": "paper"}
    assert (certified(fewest - 1, **more), certified(fewest, **more)) == (False, True)


@pytest.mark.parametrize("selection", ["safe", "paper"])
def test_without_clients_the_fewest_groups_follow_the_selection(selection):
    assert certify.Sampled(selection=selection).least_groups(10_000) == least_groups(10_000, 0.001, selection)


@pytest.mark.parametrize("distinct", [False, True])
def test_the_fewest_groups_do_not_depend_on_how_many_there_are(distinct):
    setting = {"num_clients": 1000, "group_size": 2, "distinct": distinct}
    fewest = certify.Sampled(**setting).least_groups(100)
    for number, failed in ((5, 0), (40, 3), (None, 3)):
        assert certify.Sampled(**setting, num_groups=number, num_failed=failed).least_groups(100) == fewest


def test_no_inputs_share_no_alpha():
    with pytest.raises(InputError, match=r"num_inputs must be in \[1, .* got 0"):
        least_groups(0)
    with pytest.raises(InputError, match=r"num_inputs must be in \[1, 4611686018427387904\], got 4611686018427387905"):
        least_groups(2**62 + 1)


ALPHA = 0.1
DRAWS = 6000


@pytest.fixture(scope="module")
def votes_of_an_even_split():
    """Vote counts of 50 groups each, drawn again and again from an ensemble in which two labels tie exactly."""
    ids = [f"user-{i}" for i in range(20)]
    label_of = {frozenset(group): i % 2 for i, group in enumerate(map(tuple, grouping.enumerated(ids, 2).members))}
    assert sum(label_of.values()) == len(label_of) / 2
    counts = []
    for seed in range(DRAWS):
        votes = [label_of[frozenset(group.tolist())] for group in grouping.sampled(ids, 50, 2, seed=seed).members]
        counts.append(counts_of(votes, 2))
    return np.array(counts)


@pytest.mark.parametrize(("selection", "stays_below_alpha"), [("safe", True), ("paper", False)])
def test_the_measured_failure_rate_at_an_even_split(votes_of_an_even_split, selection, stays_below_alpha):
    """The ensemble of all groups has no leader, so every draw that certifies an input is a failure."""
    rows, draws = np.unique(votes_of_an_even_split, axis=0, return_counts=True)
    certified = [
        not sampled([row], num_clients=20, group_size=2, alpha=ALPHA, selection=selection).abstained[0] for row in rows
    ]
    assert bool(draws[certified].sum() / DRAWS < ALPHA) is stays_below_alpha


def test_all_inputs_share_alpha():
    row = [[300, 200]]
    alone = sampled(row, num_clients=1000, group_size=2, alpha=0.000999)
    shared = sampled(row * 1000, num_clients=1000, group_size=2, alpha=0.999)
    told = sampled(row, num_clients=1000, group_size=2, alpha=0.999, num_inputs=1000)
    unshared = sampled(row, num_clients=1000, group_size=2, alpha=0.999)
    assert alone.levels[0] == shared.levels[0] == told.levels[0] < unshared.levels[0]


def test_safe_selection_is_the_paper_with_half_the_alpha():
    counts = np.column_stack([np.arange(501), 500 - np.arange(501)])
    setting = {"num_clients": 1000, "group_size": 2, "num_inputs": 501}
    safe = sampled(counts, **setting, alpha=0.002, selection="safe")
    paper = sampled(counts, **setting, alpha=0.001, selection="paper")
    assert np.array_equal(safe.levels, paper.levels)
    assert np.array_equal(safe.abstained, paper.abstained)


def test_failed_groups_were_drawn_too():
    counts = certify.Evidence(np.array([[490, 5]]))
    setting = {"num_clients": 1000, "group_size": 2}
    told = certify.Sampled(**setting, num_groups=500).certify(counts).levels[0]
    assert certify.Sampled(**setting, num_failed=5).certify(counts).levels[0] == told
    assert certify.Sampled(**setting).certify(counts).levels[0] > told


def test_failed_groups_are_added_to_the_votes_of_one_input():
    counts, setting = certify.Evidence(np.array([[49, 1], [48, 2]])), {"num_clients": 1000, "group_size": 2}
    told = certify.Sampled(**setting, num_groups=55).certify(counts).levels
    assert np.array_equal(certify.Sampled(**setting, num_failed=5).certify(counts).levels, told)
    assert told.min() > 0


def test_a_kind_without_failed_groups_does_not_guess_how_many_were_drawn():
    with pytest.raises(InputError, match="same positive sum, got 4 to 5; give num_groups"):
        certify.Sampled(num_clients=10, group_size=2).certify(certify.Evidence(np.array([[5, 0], [3, 1]])))


def test_groups_that_cast_no_vote_lower_the_level():
    setting = {"num_clients": 1000, "group_size": 2}
    full = sampled([[490, 10]], **setting)
    short = sampled([[490, 0]], **setting, num_groups=500)
    assert short.levels[0] == full.levels[0]
    assert short.levels[0] < sampled([[490, 0]], **setting).levels[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, r"alpha must be in \(0, 1\), got 0"),
        ({"alpha": 1.0}, r"alpha must be in \(0, 1\), got 1.0"),
        ({"alpha": float("nan")}, r"alpha must be in \(0, 1\), got nan"),
        ({"group_size": 0}, r"group_size must be in \[1, num_clients=10\], got 0"),
        ({"group_size": 11}, r"group_size must be in \[1, num_clients=10\], got 11"),
        ({"num_inputs": 1}, "num_inputs must be at least the 2 inputs in counts, got 1"),
        ({"selection": "save"}, "unknown selection 'save'; did you mean 'safe'"),
        ({"num_groups": 4}, "num_groups must be at least 5, the votes cast for one input, got 4"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        sampled([[5, 0], [3, 2]], **{"num_clients": 10, "group_size": 2, **options})


def test_rows_with_different_sums_need_the_number_of_groups():
    with pytest.raises(InputError, match="same positive sum, got 4 to 5; give num_groups"):
        sampled([[5, 0], [3, 1]], num_clients=10, group_size=2)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, "0.2.1"])
def test_a_failure_probability_is_strictly_between_zero_and_one(alpha):
    with pytest.raises(InputError, match=rf"alpha must be in \(0, 1\), got {alpha}"):
        failure_probability(alpha)


@pytest.mark.parametrize("selection", ["safe", "paper"])
@pytest.mark.parametrize("alpha", [0.001, 0.999])
def test_half_of_the_votes_are_never_enough(alpha, selection):
    assert sampled([[5, 5]], num_clients=100, group_size=2, alpha=alpha, selection=selection).abstained[0]


def test_the_selection_correction_is_needed_by_nearly_a_factor_of_two():
    """docs/theory.md: at an even split the failure probability is 1.96 a for N = 500, a = 0.05."""
    half, alpha = Fraction(1, 2), Fraction(1, 20)
    certified = next(v for v in range(251, 501) if clopper_pearson(v, 500, alpha) > half)
    assert round(float(2 * binomial_tail(certified, 500, half) / alpha), 2) == 1.96


def test_many_groups_are_certified_by_few_bounds(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "flcert.certify.tails.clopper_pearson", lambda *given: calls.append(given) or clopper_pearson(*given)
    )
    counts = np.column_stack([np.arange(1001, 2001), np.arange(999, -1, -1)])
    table = sampled(counts, num_clients=30, group_size=2)
    assert len(calls) < 100
    for v in (1001, 1100, 1500, 1999, 2000):
        alone = sampled([[v, 2000 - v]], num_clients=30, group_size=2, num_inputs=1000)
        assert table.levels[v - 1001] == alone.levels[0]
