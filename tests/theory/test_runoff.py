"""The run-off election against every attack on small cases: on round one, on round two, and on both."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from flcert import certify
from flcert.certify.runoff import _round_one
from flcert.errors import InputError
from tests.theory.elections import LABELS, ORDERS, elected, places, profiles_of, stands


def breakable(orders, size, label):
    for hit in combinations(range(len(orders)), size):
        for forged in product(ORDERS, repeat=size):
            changed = list(orders)
            for group, order in zip(hit, forged, strict=True):
                changed[group] = order
            if elected(changed) != label:
                return True
    return False


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_no_attack_within_the_level_changes_the_label(size):
    tight = cases = 0
    for orders in product(ORDERS, repeat=size):
        result = certify.runoff(certify.count_ranks(places(orders)))
        level, label = int(result.levels[0]), elected(orders)
        assert result.labels[0] == label, orders
        assert not result.abstained[0]
        assert not breakable(orders, level, label), orders
        cases += 1
        tight += level + 1 > size or breakable(orders, level + 1, label)
    assert tight / cases > 0.9


def test_larger_cases_including_attacks_on_either_round():
    rng = np.random.default_rng(0)
    ways = set()
    for _ in range(60):
        size = int(rng.integers(5, 8))
        favourite = [ORDERS[i] for i in rng.integers(0, len(ORDERS), 2)]
        orders = [
            favourite[int(rng.random() < 0.3)] if rng.random() < 0.8 else ORDERS[rng.integers(6)] for _ in range(size)
        ]
        result = certify.runoff(certify.count_ranks(places(orders)))
        level, label = int(result.levels[0]), elected(orders)
        assert result.labels[0] == label
        assert not breakable(orders, min(level, 2), label)
        votes = np.array([[sum(order[0] == one for order in orders) for one in range(LABELS)]])
        plain = certify.disjoint(votes)
        ways.add((int(np.sign(level - plain.levels[0])), bool(plain.labels[0] == label)))
    assert (1, True) in ways  # higher than the plain vote's
    assert any(not same for _, same in ways)  # and sometimes another label


def test_a_winner_that_can_be_kept_out_of_the_final_by_turning_two_groups():
    """Where round one alone is in the way: its bound must round down, and no wider a share of the votes will do."""
    orders = [tuple(map(int, order)) for order in ["012", "021", "102", "012", "102", "021", "201", "201"]]
    result = certify.runoff(certify.count_ranks(places(orders)))
    assert breakable(orders, 2, elected(orders))
    assert (result.labels[0], result.levels[0]) == (elected(orders), 1)


def test_a_new_vote_of_an_empty_group_is_covered():
    """A malicious client in an empty group adds an order instead of changing one."""
    for orders in product(ORDERS, repeat=3):
        result = certify.runoff(certify.count_ranks(places(orders)))
        if result.levels[0] >= 1:
            assert all(elected([*orders, extra]) == elected(orders) for extra in ORDERS)


@pytest.mark.parametrize(("size", "failed"), [(1, 1), (2, 1), (3, 1), (4, 1), (3, 2), (4, 2), (3, 3)])
def test_what_failed_groups_would_have_ranked_cannot_change_a_certified_label(size, failed):
    """Every ballot of the failed groups together with every attack on the others."""
    profiles, tables = profiles_of(size)
    result = certify.runoff(certify.count_ranks(tables), num_failed=failed)
    unknown = tuple(range(size, size + failed))
    tight = 0
    for row, profile in enumerate(profiles):
        whole, label = (*profile, *[0] * failed), elected([ORDERS[ballot] for ballot in profile])
        assert result.labels[row] == label
        level = -1 if result.abstained[row] else int(result.levels[row])
        for hit in combinations(range(size), max(level, 0)):
            assert level < 0 or stands(whole, {*hit, *unknown}, label), profile
        broken = (not stands(whole, {*hit, *unknown}, label) for hit in combinations(range(size), level + 1))
        tight += level + 1 > size or any(broken)
    assert tight / len(profiles) > 0.9


def test_a_failed_group_costs_one_ballot_and_not_a_level():
    """Nine of nine groups prefer 0; five failed ones cannot make up for that, and two clients cannot help them."""
    orders = [ORDERS[0]] * 9
    plain, failed = (certify.runoff(certify.count_ranks(places(orders)), num_failed=number) for number in (0, 5))
    assert (plain.levels[0], failed.levels[0]) == (4, 2)
    assert certify.runoff(certify.count_ranks(places(orders)), num_failed=10).abstained[0]


def defeated(orders, turned, failed):
    """Whether 0 can lose if so many groups turn and so many failed ones vote; which of equal groups does not matter."""
    for hit in set(combinations(sorted(orders), turned)):
        rest = list(orders)
        for order in hit:
            rest.remove(order)
        for forged in combinations_with_replacement(ORDERS, turned):
            for unknown in combinations_with_replacement(ORDERS, failed):
                if elected([*rest, *forged, *unknown]) != 0:
                    return True
    return False


@pytest.mark.parametrize(
    ("first", "failed", "level"),
    [  # how many groups put 0, 1 and 2 first; all others put 0 second, so it is easier to keep 0 out of the final
        ((5, 3, 3), 0, 1),
        ((5, 3, 3), 1, 1),
        ((7, 4, 4), 1, 2),
        ((7, 4, 4), 2, 1),
        ((6, 4, 3), 1, 1),
        ((4, 4, 3), 1, 0),
        ((4, 4, 4), 2, -1),
    ],
)
def test_the_level_is_exact_where_round_one_decides(first, failed, level):
    orders = [(0, 1, 2)] * first[0] + [(1, 0, 2)] * first[1] + [(2, 0, 1)] * first[2]
    result = certify.runoff(certify.count_ranks(places(orders)), num_failed=failed)
    assert result.labels[0] == elected(orders) == 0
    assert (result.levels[0], result.abstained[0]) == (max(level, 0), level < 0)
    assert level < 0 or not defeated(orders, level, failed)
    assert defeated(orders, level + 1, failed)


def splits(total, parts):
    """All ways to write a number as a sum of so many numbers."""
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in splits(total - first, parts - 1)]


def in_the_final(votes, label):
    return label in sorted(range(len(votes)), key=lambda one: (-votes[one], one))[:2]


def kept_out(votes, label, turned, failed):
    """Whether a label can be kept out of the final: some votes are taken, and as many and the failed ones cast."""
    for taken in splits(turned, len(votes)):
        left = np.array(votes) - taken
        if left.min() >= 0 and any(
            not in_the_final(left + cast, label) for cast in splits(turned + failed, len(votes))
        ):
            return True
    return False


@pytest.mark.parametrize(("labels", "most"), [(3, 6), (4, 4)])
def test_the_bound_of_round_one_is_exact(labels, most):
    cases = [votes for size in range(1, most + 1) for votes in splits(size, labels)]
    for votes, failed in product(cases, range(4)):
        for finalist in (label for label in range(labels) if votes[label] and in_the_final(votes, label)):
            needed = int(_round_one(np.array([votes]), np.array([finalist]), failed)[0])
            assert needed == 0 or not kept_out(votes, finalist, min(needed - 1, sum(votes)), failed)
            assert needed > sum(votes) or kept_out(votes, finalist, needed, failed)


def test_two_labels_are_a_plain_vote():
    rng = np.random.default_rng(1)
    scores = rng.random((9, 50, 2))
    ranks = [certify.ranked(table) for table in scores]
    votes = sum((table == 0).astype(int) for table in ranks)
    runoff, plain = certify.runoff(certify.count_ranks(ranks)), certify.disjoint(votes)
    assert np.array_equal(runoff.labels, plain.labels)
    assert np.array_equal(runoff.levels, plain.levels)


def test_places_follow_scores_with_ties_to_the_smaller_index():
    scores = np.array([[0.5, 0.7, 0.5, np.nan], [np.inf, -np.inf, 0.0, np.inf]])
    assert certify.ranked(scores).tolist() == [[1, 0, 2, 3], [0, 3, 2, 1]]


def test_hundreds_of_labels_and_a_thousand_inputs():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 300, 1000)
    ranks = []
    for _ in range(15):
        scores = rng.random((1000, 300)).astype(np.float32)
        scores[np.arange(1000), truth] += rng.random(1000) * 1.2
        ranks.append(certify.ranked(scores))
    result = certify.runoff(certify.count_ranks(ranks))
    assert (result.labels == truth).mean() > 0.3
    assert result.levels.max() >= 2


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        ([np.zeros((2, 3), int), np.zeros((2, 4), int)], {}, "one .* table for each group"),
        ([], {}, "one .* table for each group"),
        ([np.array([[0, 1]])], {"num_failed": -1}, "num_failed must be at least 0, got -1"),
    ],
)
def test_bad_input_is_named(ranks, options, message):
    with pytest.raises(InputError, match=message):
        certify.runoff(certify.count_ranks(ranks), **options)
