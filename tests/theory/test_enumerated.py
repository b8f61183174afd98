"""Theorem 1 with exact probabilities against every attack on small cases; Theorem 2, that it is tight."""

from collections import defaultdict
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from flcert import certify
from flcert.errors import InputError


def groups_of(num_clients, group_size):
    return list(combinations(range(num_clients), group_size))


def leads(counts, label):
    """Strictly ahead; a tie is broken at random, so it is no lead."""
    return all(counts[label] > other for index, other in enumerate(counts) if index != label)


def counts_of(votes, num_labels):
    return [votes.count(label) for label in range(num_labels)]


def survives_every_attack(votes, groups, malicious, num_labels, label):
    """Try every vote of every group that holds a malicious client."""
    touched = [i for i, group in enumerate(groups) if set(group) & set(malicious)]
    for forged in product(range(num_labels), repeat=len(touched)):
        changed = list(votes)
        for i, vote in zip(touched, forged, strict=True):
            changed[i] = vote
        if not leads(counts_of(changed, num_labels), label):
            return False
    return True


def survives_worst_attack(votes, groups, malicious, num_labels, label):
    """Turn every touched group to one rival; no attack is worse for the gap to that rival."""
    untouched = [vote for vote, group in zip(votes, groups, strict=True) if not set(group) & set(malicious)]
    touched = len(groups) - len(untouched)
    counts = counts_of(untouched, num_labels)
    return all(counts[label] > counts[rival] + touched for rival in range(num_labels) if rival != label)


def true_level(votes, num_clients, group_size, num_labels, survives):
    """The largest m <= n-k that no attack of m clients breaks, by trying them all; -1 if there is no leader."""
    groups, counts = groups_of(num_clients, group_size), counts_of(votes, num_labels)
    label = counts.index(max(counts))
    if not leads(counts, label):
        return -1
    level = 0
    for m in range(1, num_clients - group_size + 1):
        attackers = combinations(range(num_clients), m)
        if not all(survives(votes, groups, malicious, num_labels, label) for malicious in attackers):
            return level
        level = m
    return level


def certified_level(counts, num_clients, group_size):
    result = certify.enumerated([counts], num_clients=num_clients, group_size=group_size)
    return -1 if result.abstained[0] else int(result.levels[0])


@pytest.mark.parametrize(("num_clients", "group_size", "num_labels"), [(4, 2, 2), (3, 2, 3), (4, 3, 3), (4, 1, 3)])
def test_no_attack_of_any_kind_within_the_level_changes_the_label(num_clients, group_size, num_labels):
    for votes in product(range(num_labels), repeat=comb(num_clients, group_size)):
        certified = certified_level(counts_of(votes, num_labels), num_clients, group_size)
        assert certified <= true_level(votes, num_clients, group_size, num_labels, survives_every_attack)


@pytest.mark.parametrize(("num_clients", "group_size", "num_labels"), [(4, 2, 3), (5, 2, 2), (5, 3, 2), (6, 1, 3)])
def test_for_every_counts_some_models_are_broken_by_one_client_more(num_clients, group_size, num_labels):
    weakest = defaultdict(lambda: num_clients)
    for votes in product(range(num_labels), repeat=comb(num_clients, group_size)):
        counts = tuple(counts_of(votes, num_labels))
        level = true_level(votes, num_clients, group_size, num_labels, survives_worst_attack)
        weakest[counts] = min(weakest[counts], level)
    for counts, level in weakest.items():
        assert certified_level(counts, num_clients, group_size) == level, counts


def test_the_worst_attack_is_as_bad_as_trying_them_all():
    for votes in product(range(2), repeat=comb(4, 2)):
        assert true_level(votes, 4, 2, 2, survives_every_attack) == true_level(votes, 4, 2, 2, survives_worst_attack)


def test_failed_groups_count_as_votes_for_the_strongest_rival():
    for votes in product(range(2), repeat=5):
        counts = counts_of(votes, 2)
        result = certify.enumerated([counts], num_clients=4, group_size=2, num_failed=1)
        honest = [certified_level(counts_of((*votes, unknown), 2), 4, 2) for unknown in range(2)]
        label = counts.index(max(counts))
        same_label = [counts_of((*votes, unknown), 2) for unknown in range(2)]
        if not result.abstained[0]:
            assert all(leads(full, label) for full in same_label)
            assert result.levels[0] <= min(honest)


def test_a_worked_example():
    # n=5, k=2: 10 groups; one malicious client leaves C(4, 2) = 6 untouched, two leave 3.
    # A gap of 10 exceeds 20 - 12 = 8 but not 20 - 6 = 14.
    assert certified_level([10, 0], 5, 2) == 1
    assert certified_level([9, 1], 5, 2) == 0
    assert certified_level([5, 5], 5, 2) == -1


def test_rows_that_do_not_hold_all_groups_are_refused():
    with pytest.raises(InputError, match=r"must sum to C\(5, 2\) - num_failed = 10, got 9 for input 1"):
        certify.enumerated([[10, 0], [9, 0]], num_clients=5, group_size=2)


@pytest.mark.parametrize("group_size", [0, 6])
def test_a_group_size_out_of_range_is_refused(group_size):
    with pytest.raises(InputError, match=rf"group_size must be in \[1, num_clients=5\], got {group_size}"):
        certify.enumerated(np.array([[1, 0]]), num_clients=5, group_size=group_size)
