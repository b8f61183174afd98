"""The run-off election against every attack on small cases: on round one, on round two, and on both."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from flcert import certify
from flcert.errors import InputError

LABELS = 3
ORDERS = list(permutations(range(LABELS)))  # the label at each place


def elected(orders):
    """The naive run-off: most votes, two finalists, then the one that more groups rank higher; ties to the smaller."""
    votes = [sum(order[0] == label for order in orders) for label in range(LABELS)]
    first, second = sorted(range(LABELS), key=lambda label: (-votes[label], label))[:2]
    supporters = sum(order.index(first) < order.index(second) for order in orders)
    if 2 * supporters == len(orders):
        return min(first, second)
    return first if 2 * supporters > len(orders) else second


def places(orders):
    tables = np.array([[order.index(label) for label in range(LABELS)] for order in orders])
    return [table[None] for table in tables]


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


def test_what_failed_groups_would_have_ranked_cannot_change_a_certified_label():
    for orders in product(ORDERS, repeat=3):
        result = certify.runoff(certify.count_ranks(places(orders)), num_failed=1)
        label = elected(orders)
        if result.abstained[0]:
            continue
        for unknown in ORDERS:
            full = [*orders, unknown]
            assert elected(full) == label
            assert not breakable(full, int(result.levels[0]), label)


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
