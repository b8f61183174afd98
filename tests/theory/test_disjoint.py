"""Theorem 4 against every attack on small cases."""

import itertools
from itertools import combinations, product

import numpy as np
import pytest
from scipy.sparse import csr_array

from flcert import certify, voting
from flcert.errors import InputError

LABELS = 3
VOTES = range(-1, LABELS)  # -1: no vote


def winner(votes):
    """The naive majority vote: most votes, the smallest index on a tie."""
    return max(range(LABELS), key=lambda label: (votes.count(label), -label))


def certificate(votes, **options):
    return certify.disjoint(voting.count(np.array(votes)[:, None], LABELS), **options)


def attacked(votes, groups):
    """Every vote that an attacker who controls these groups can bring about."""
    for forged in product(VOTES, repeat=len(groups)):
        changed = list(votes)
        for group, vote in zip(groups, forged, strict=True):
            changed[group] = vote
        yield changed


def can_change_label(votes, num_malicious):
    label = winner(votes)
    return any(
        winner(changed) != label
        for groups in combinations(range(len(votes)), num_malicious)
        for changed in attacked(votes, groups)
    )


CASES = [votes for size in range(1, 6) for votes in product(VOTES, repeat=size) if max(votes) >= 0]


@pytest.mark.parametrize("size", range(1, 6))
def test_no_attack_within_the_level_changes_the_label_and_one_more_client_can(size):
    for votes in (case for case in CASES if len(case) == size):
        result = certificate(votes)
        level = int(result.levels[0])
        assert result.labels[0] == winner(votes)
        assert not result.abstained[0]
        assert not can_change_label(votes, level), (votes, level)
        assert level + 1 > size or can_change_label(votes, level + 1), (votes, level)


def test_malicious_clients_that_share_a_group_gain_nothing():
    group_of_client = [0, 0, 1, 1, 2, 3]
    for votes in product(range(LABELS), repeat=4):
        level = int(certificate(votes).levels[0])
        for clients in combinations(range(6), level):
            groups = sorted({group_of_client[client] for client in clients})
            assert all(winner(changed) == winner(votes) for changed in attacked(votes, groups))


@pytest.mark.parametrize("num_failed", [1, 2])
def test_what_failed_groups_would_have_voted_cannot_change_a_certified_label(num_failed):
    for votes in product(range(LABELS), repeat=4):
        result = certificate(votes, num_failed=num_failed)
        level, label = int(result.levels[0]), winner(votes)
        honest = [list(votes) + list(unknown) for unknown in product(VOTES, repeat=num_failed)]
        within = all(
            winner(changed) == label
            for full in honest
            for groups in combinations(range(4), level)
            for changed in attacked(full, groups)
        )
        assert within is not bool(result.abstained[0])
        if not result.abstained[0]:
            one_more = (
                winner(changed) != label
                for full in honest
                for groups in combinations(range(4), level + 1)
                for changed in attacked(full, groups)
            )
            assert level + 1 > 4 or any(one_more)


def needed(votes, leader, rival):
    gap = votes[leader] - votes[rival] + (rival > leader)
    others = sum(votes) - votes[leader] - votes[rival]
    return int(certify.groups_to_turn(gap, votes[leader], others, sum(votes)))


def test_the_clients_that_each_rival_needs_are_found_by_trying():
    """m clients take up to m votes from the leader and give them to the rival."""
    for votes in itertools.product(range(5), repeat=3):
        if not any(votes):
            continue
        leader = int(np.argmax(votes))
        for rival in {0, 1, 2} - {leader}:
            least = needed(votes, leader, rival)
            for m in range(least + 1):
                after = (votes[rival] + m, -rival) > (votes[leader] - m, -leader)  # the smaller index wins a tie
                assert after == (m == least)
        level = certify.disjoint([votes]).levels[0]
        assert level == min(needed(votes, leader, rival) for rival in {0, 1, 2} - {leader}) - 1


def test_a_worked_example():
    result = certify.disjoint([[7, 2, 1], [3, 3, 0], [2, 7, 1], [0, 5, 5]])
    assert result.labels.tolist() == [0, 0, 1, 1]
    assert result.levels.tolist() == [2, 0, 2, 0]  # (7-2)/2, a tie, (7-2-1)/2, a tie


def test_labels_that_nobody_votes_for_may_be_left_out():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 6, size=(20, 3))
        counts[:, 0] += 1
        wide = np.hstack([counts, np.zeros((20, 4), dtype=int)])
        assert np.array_equal(certify.disjoint(counts).levels, certify.disjoint(wide).levels)


def test_an_input_without_votes_abstains():
    result = certify.disjoint([[0, 0], [1, 0]])
    assert result.abstained.tolist() == [True, False]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, 2.0]], "counts must be integers, got dtype float64"),
        ([[-1, 2]], r"counts must be in \[0, 2\*\*31 - 1\], got -1"),
        ([[3]], r"at least 1 input and 2 labels, got shape \(1, 1\)"),
        (np.zeros((0, 3), dtype=int), r"got shape \(0, 3\)"),
        ([1, 2], r"got shape \(2,\)"),
    ],
)
def test_counts_that_make_no_sense_are_refused(counts, message):
    with pytest.raises(InputError, match=message):
        certify.disjoint(counts)


def test_a_negative_number_of_failed_groups_is_refused():
    with pytest.raises(InputError, match="num_failed must be at least 0, got -1"):
        certify.disjoint([[1, 2]], num_failed=-1)


def brute_takeover(row, failed):
    """For each rival the least m for which the theorem's condition fails, one after the other."""
    leader = int(np.argmax(row))
    needed = {}
    for rival in range(len(row)):
        m = 0
        while rival != leader and 2 * m <= row[leader] - row[rival] - (rival < leader) - failed:
            m += 1
        needed[rival] = m
    del needed[leader]
    return leader, needed


@pytest.mark.parametrize("labels", [2, 10, 50, 51, 60, 200])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_takeover_takes_as_many_clients_as_the_theorem_does_not_rule_out(labels, sparse):
    """Also where labels are many, where every one of them has a vote, and where more than those listed do."""
    draws = np.random.default_rng(labels)
    tables = [draws.integers(0, most, size=(12, labels)) for most in (2, 3, 9)] + [np.ones((2, labels), dtype=int)]
    for table, failed in zip(tables, (0, 1, 2, 0), strict=True):
        counts = csr_array(table) if sparse else table
        guarantee = certify.Disjoint(num_failed=failed)
        for position, row in enumerate(table):
            found = guarantee.takeover(certify.Evidence(counts), position)
            if not row.any():
                assert found is None
                continue
            leader, needed = brute_takeover(row, failed)
            listed = {label for label, _ in voting.most_votes(counts, position)} - {leader} if labels > 50 else needed
            rivals = {name: m for name, m in found.items() if name != "other"}
            assert rivals == {str(one): needed[one] for one in listed}
            others = [m for label, m in needed.items() if label not in listed]
            assert found.get("other") == (min(others) if labels > 50 else None)
            level = certify.disjoint(table[[position]], num_failed=failed)
            assert min(found.values()) == (0 if level.abstained[0] else level.levels[0] + 1)
