"""Fixed overlapping groups against every attack on small cases, and against Theorem 4."""

from itertools import combinations, product

import numpy as np
import pytest

from flcert import certify, voting
from flcert.errors import InputError

LABELS = 3
VOTES = range(-1, LABELS)

FAMILIES = {
    "disjoint": ([[0, 1], [2], [3, 4], [5]], 6),
    "pairs": ([[0, 1], [1, 2], [2, 3], [3, 0]], 4),
    "one client everywhere": ([[0, 1], [0, 2], [0, 3], [0]], 4),
    "twins": ([[0, 1], [0, 1, 2], [2], [3]], 4),
    "an empty group": ([[0], [], [1, 2], [0, 2]], 3),
}


def winner(votes):
    return max(range(LABELS), key=lambda label: (votes.count(label), -label))


def outcomes(votes, groups, malicious):
    """Every vote that these clients can bring about."""
    hit = [number for number, members in enumerate(groups) if set(members) & set(malicious)]
    for forged in product(VOTES, repeat=len(hit)):
        changed = list(votes)
        for number, vote in zip(hit, forged, strict=True):
            changed[number] = vote
        yield changed


def certificate(votes, groups, num_clients):
    return certify.overlapping(np.array(votes)[:, None], groups, num_clients=num_clients)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_attack_within_the_level_changes_the_label(name):
    groups, num_clients = FAMILIES[name]
    exact = total = 0
    for votes in product(range(LABELS), repeat=len(groups)):
        votes = [vote if members else -1 for vote, members in zip(votes, groups, strict=True)]
        result = certificate(votes, groups, num_clients)
        level, label = int(result.levels[0]), winner(votes)
        assert result.labels[0] == label
        assert not result.abstained[0]

        def breakable(size, votes=votes, label=label):
            return any(
                winner(changed) != label
                for malicious in combinations(range(num_clients), size)
                for changed in outcomes(votes, groups, malicious)
            )

        assert not breakable(level), (votes, level)
        total += 1
        exact += level == num_clients or breakable(level + 1)
    assert exact / total > 0.8  # a sum over clients counts a shared group twice, so it is not always tight


def test_what_failed_groups_would_have_voted_cannot_change_a_certified_label():
    groups, num_clients = FAMILIES["pairs"]
    for votes in product(VOTES, repeat=4):
        if max(votes) < 0:
            continue
        result = certificate(votes, groups, num_clients)
        if result.abstained[0]:
            continue
        failed = [number for number, vote in enumerate(votes) if vote < 0]
        for unknown in product(VOTES, repeat=len(failed)):
            honest = list(votes)
            for number, vote in zip(failed, unknown, strict=True):
                honest[number] = vote
            for malicious in combinations(range(num_clients), int(result.levels[0])):
                assert all(winner(changed) == result.labels[0] for changed in outcomes(honest, groups, malicious))


def test_it_is_theorem_4_for_disjoint_groups():
    """The groups that cost most are those that voted for the winner, as Theorem 4 charges all of them."""
    rng = np.random.default_rng(0)
    groups = [[2 * number, 2 * number + 1] for number in range(30)]
    votes = np.where(rng.random((30, 400)) < rng.random(400), 1, rng.integers(0, 4, (30, 400)))
    better = certify.overlapping(votes, groups, num_clients=60)
    plain = certify.disjoint(voting.count(votes, 4))
    assert np.array_equal(better.labels, plain.labels)
    assert np.array_equal(better.levels, plain.levels)


def test_many_labels_need_no_column_for_each():
    votes = np.array([[49_999], [49_999], [49_999], [7]])
    groups = [[0], [1], [2], [3]]
    result = certify.overlapping(votes, groups, num_clients=4)
    assert (result.labels[0], result.levels[0]) == (49_999, certify.disjoint(voting.count(votes, 50_000)).levels[0])
    zero = certify.overlapping(np.array([[0], [0], [0], [7]]), groups, num_clients=4)
    assert zero.levels[0] == 1


def test_a_label_that_no_client_can_change_has_level_n():
    assert certify.overlapping(np.array([[0], [0], [0]]), [[0], [], []], num_clients=7).levels.tolist() == [7]
    assert certify.overlapping(np.zeros((5, 1), dtype=int), [[0], [0], [1], [], []], num_clients=3).levels[0] == 1


@pytest.mark.parametrize(
    ("votes", "groups", "message"),
    [
        ([[0], [1]], [[0]], r"votes must be \(1 groups x inputs\), got shape \(2, 1\)"),
        ([[0.5]], [[0]], "votes must be labels from 0, or -1 for no vote"),
        ([[0]], [[3]], r"clients of group 0 must be in \[0, num_clients - 1=2\]"),
    ],
)
def test_bad_input_is_named(votes, groups, message):
    with pytest.raises(InputError, match=message):
        certify.overlapping(votes, groups, num_clients=3)
