"""Fixed overlapping groups against every attack on small cases, and against Theorem 4."""

import sys
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from scipy.sparse import csr_array

from flcert import certify, voting
from flcert.certify.coverage import SCALE, Coverage, dual_bound, exceeds
from flcert.certify.seats import seats_of
from flcert.errors import InputError

LABELS = 3
VOTES = range(-1, LABELS)
HOME = sys.modules[Coverage.__module__]

FAMILIES = {
    "disjoint": ([[0, 1], [2], [3, 4], [5]], 6),
    "pairs": ([[0, 1], [1, 2], [2, 3], [3, 0]], 4),
    "one client everywhere": ([[0, 1], [0, 2], [0, 3], [0]], 4),
    "twins": ([[0, 1], [0, 1, 2], [2], [3]], 4),
    "an empty group": ([[0], [], [1, 2], [0, 2]], 3),
    "triples": ([[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]], 6),
    "a path of five": ([[0, 1], [1, 2], [2, 3], [3, 4], [4]], 5),
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
    return certify.overlapping(np.array(votes)[:, None], groups, num_clients=num_clients, num_labels=LABELS)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_attack_within_the_level_changes_the_label_and_one_client_more_does(name):
    groups, num_clients = FAMILIES[name]
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
        assert level == num_clients or breakable(level + 1), (votes, level)


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


def test_seats_are_whole_numbers_and_clients_in_the_same_groups_are_of_one_kind():
    seats = seats_of([[0, 1], [1, 0, 2], []], num_clients=4)
    assert np.issubdtype(seats.dtype, np.integer)
    assert sorted(seats.toarray().tolist()) == [[0, 1, 0], [1, 1, 0]]


def test_a_shared_group_is_charged_once():
    """Two clients of the first two groups reach three groups together, and the sum over clients charges four."""
    groups, votes = [[0, 1], [0], [1], [2], [3], [4], [5]], np.zeros((7, 1), dtype=int)
    assert certify.overlapping(votes, groups, num_clients=6).levels[0] == 2
    assert summed(votes, groups, 6) == 1


def summed(votes, groups, num_clients):
    """The level of one unanimous input that the sum over clients alone proves."""
    weights = sorted((2 * sum(client in group for group in groups) for client in range(num_clients)), reverse=True)
    return next(m for m in range(num_clients) if sum(weights[: m + 1]) > len(votes))


def test_with_two_labels_there_is_no_third_to_fear(monkeypatch):
    """A third label would be charged twice for the group that votes for the second; a search knows better anyway."""
    votes, groups = np.array([[0], [0], [0], [0], [0], [1]]), [[0], [1], [2], [3], [4], [0, 1]]
    kind, evidence = certify.Overlapping(num_clients=5), certify.Evidence.of_votes(votes, 2, groups)
    searched = [certify.overlapping(votes, groups, num_clients=5, num_labels=labels).levels[0] for labels in (None, 2)]
    assert searched == [2, 2]
    for name in ("SEARCHED", "PRICED"):
        monkeypatch.setattr(HOME, name, 0)
    summed = [certify.overlapping(votes, groups, num_clients=5, num_labels=labels).levels[0] for labels in (None, 3, 2)]
    assert summed == [1, 1, 2]
    assert kind.certify(evidence).levels[0] == 2


def test_the_only_label_cannot_be_changed():
    assert certify.overlapping(np.zeros((2, 1), dtype=int), [[0], [1]], num_clients=2, num_labels=1).levels[0] == 2


def families(rng):
    """Random groups, their seats and weights."""
    kinds, groups = int(rng.integers(1, 8)), int(rng.integers(1, 9))
    seats = (rng.random((kinds, groups)) < rng.uniform(0.2, 0.7)).astype(np.int64)
    return seats, rng.integers(0, 3, groups)


def most_covered(seats, weights, number):
    chosen = combinations(range(len(seats)), min(number, len(seats)))
    return max(int(weights[seats[list(some)].any(axis=0)].sum()) for some in chosen)


@pytest.mark.parametrize("seed", range(60))
def test_the_search_tells_exactly_what_clients_reach_together(seed):
    seats, weights = families(np.random.default_rng(seed))
    for number in range(1, len(seats) + 2):
        most = most_covered(seats, weights, number)
        assert exceeds(seats, weights, most, number) is False
        assert most == 0 or exceeds(seats, weights, most - 1, number) is True
        for effort in (0, 2**13, 2**14):
            assert exceeds(seats, weights, most, number, effort) in (False, None)
            assert most == 0 or exceeds(seats, weights, most - 1, number, effort) in (True, None)


@pytest.mark.parametrize("seed", range(30))
def test_any_prices_give_a_sound_bound(seed):
    rng = np.random.default_rng(seed)
    seats, weights = families(rng)
    weights = weights * seats.any(axis=0)
    for number in range(1, len(seats) + 1):
        most = most_covered(seats, weights, number)
        for _ in range(10):
            prices = rng.integers(-SCALE // 4, SCALE * 5 // 4, len(weights))
            assert dual_bound(prices, csr_array(seats), weights, number) >= most
        once = np.zeros(len(weights), dtype=np.int64)
        assert dual_bound(once, csr_array(seats), weights, number) == weights.sum()


@pytest.mark.parametrize("switched_off", [(), ("SEARCHED",), ("EFFORT",), ("SEARCHED", "PRICED")])
def test_levels_hold_without_a_search_and_are_never_below_the_sum(switched_off, monkeypatch):
    """Random families with a group that fails and one that is empty, too large to try every vote, so by coverage."""
    for name in switched_off:
        monkeypatch.setattr(HOME, name, 0)
    monkeypatch.setattr(HOME, "exceeds", partial(exceeds, effort=HOME.EFFORT))
    rng, gained, best = np.random.default_rng(5), 0, 0
    for _ in range(25):
        groups = [rng.choice(9, int(rng.integers(1, 4)), replace=False) for _ in range(14)] + [[]]
        votes = np.where(rng.random((15, 8)) < 0.9, 0, rng.integers(-1, 3, (15, 8)))
        votes[14] = -1
        found = certify.overlapping(votes, groups, num_clients=9, num_labels=3)
        for column, level, label in zip(votes.T, found.levels, found.labels, strict=True):
            plain, largest = by_clients(column, groups, int(label))
            assert plain <= level <= largest
            gained, best = gained + level - plain, best + largest - plain
    assert best > 0
    assert switched_off or gained == best
    assert bool(gained) is ("PRICED" not in switched_off)


def by_clients(votes, groups, label):
    """The level by the sum over clients, and the largest that holds by trying all sets of clients."""
    failed = [vote < 0 and len(group) > 0 for vote, group in zip(votes, groups, strict=True)]
    seats = np.array([[client in list(group) for group in groups] for client in range(9)])
    levels = []
    for sure in (False, True):
        for rival in {0, 1, 2} - {label}:
            gap = (votes == label).sum() - (votes == rival).sum() - (rival < label) - sum(failed)
            worth = np.where(failed, 0, 1 + (votes == label)) - (votes == rival)
            alone = np.sort(np.unique(seats, axis=0) @ worth)[::-1]
            total = worth[seats.any(axis=0)].sum()
            reached = [most_covered(seats, worth, m) if sure else min(alone[:m].sum(), total) for m in range(10)]
            levels.append((sure, next((m - 1 for m in range(10) if reached[m] > gap), 9)))
    return tuple(max(0, min(level for kind, level in levels if kind is sure)) for sure in (False, True))


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


def test_a_label_that_does_not_exist_is_named():
    with pytest.raises(InputError, match=r"labels must be in \[0, num_labels - 1=1\], got 2"):
        certify.overlapping([[2]], [[0]], num_clients=1, num_labels=2)
