"""The run-off among groups that share clients, against every attack on small families."""

from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

from flcert import certify
from flcert.errors import InputError
from tests.theory.elections import ORDERS, elected, profiles_of, stands

FAMILIES = {
    "one client in two of three groups": ([[0, 1], [1], [2]], 3),
    "a ring of four": ([[0, 1], [1, 2], [2, 3], [3, 0]], 4),
    "one client in three of four groups": ([[0], [0, 1], [0, 2], [3]], 4),
    "all pairs of three clients, and one alone": ([[0, 1], [1, 2], [2, 0], [3]], 4),
    "clients in the same groups": ([[0, 1], [0, 1, 2], [2], [3]], 4),
    "one empty group": ([[0, 1], [1], [], [2]], 3),
    "a ring of five": ([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], 5),
    "five groups, two clients in two": ([[0], [0, 1], [1], [2], [3]], 4),
}


def certified(tables, groups, num_clients, without=()):
    """The certificate if some groups have no model."""
    ranks = [None if group in without else table for group, table in enumerate(tables)]
    return certify.overlapping_runoff(certify.count_ranks(ranks, groups), groups, num_clients=num_clients)


def reached(groups, clients):
    return {number for number, members in enumerate(groups) if set(members) & set(clients)}


def survives(groups, num_clients, profile, label, level, failed=()):
    """Whether the label stands against every attack by so many clients, whatever the failed groups do."""
    attackers = combinations(range(num_clients), min(level, num_clients))
    return all(stands(profile, reached(groups, clients) | set(failed), label) for clients in attackers)


def without_vote(profile, groups):
    return [6 if group in groups else ballot for group, ballot in enumerate(profile)]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_attack_within_the_level_changes_the_label(family):
    groups, num_clients = FAMILIES[family]
    empty = [number for number, members in enumerate(groups) if not members]
    profiles, tables = profiles_of(len(groups))
    keep = np.random.default_rng(0).permutation(len(profiles))[:1296]  # all of up to four groups
    result = certified([table[keep] for table in tables], groups, num_clients, without=empty)
    tight = 0
    for row, number in enumerate(keep):
        profile = without_vote(profiles[number], empty)
        label, level = int(result.labels[row]), int(result.levels[row])
        assert label == elected([ORDERS[ballot] for ballot in profile if ballot < 6])
        assert not result.abstained[row]
        assert survives(groups, num_clients, profile, label, level), profile
        tight += level == num_clients or not survives(groups, num_clients, profile, label, level + 1)
    assert tight / len(keep) > 0.9


@pytest.mark.parametrize("family", ["a ring of four", "one client in three of four groups", "a ring of five"])
@pytest.mark.parametrize("failed", [(0,), (1, 3)])
def test_what_failed_groups_would_have_ranked_cannot_change_a_certified_label(family, failed):
    groups, num_clients = FAMILIES[family]
    profiles, tables = profiles_of(len(groups))
    keep = [row for row, profile in enumerate(profiles) if all(profile[group] == 0 for group in failed)][:700]
    result = certified([table[keep] for table in tables], groups, num_clients, without=failed)
    tight = 0
    for row, number in enumerate(keep):
        profile, label = profiles[number], int(result.labels[row])
        assert label == elected([ORDERS[ballot] for ballot in without_vote(profile, failed) if ballot < 6])
        level = -1 if result.abstained[row] else int(result.levels[row])
        assert level < 0 or survives(groups, num_clients, profile, label, level, failed), profile
        tight += level == num_clients or not survives(groups, num_clients, profile, label, level + 1, failed)
    assert tight / len(keep) > 0.9


def random_ranks(rng, num_groups, inputs, labels):
    """Groups that mostly agree, so that levels differ."""
    favourite = rng.random((inputs, labels)) * rng.random((inputs, 1)) * 3
    return [certify.ranked(favourite + rng.random((inputs, labels))) for _ in range(num_groups)]


@pytest.mark.parametrize("failed", [0, 1, 3])
@pytest.mark.parametrize("labels", [2, 3, 4, 10])
def test_for_disjoint_groups_it_is_the_run_off_of_disjoint_groups(labels, failed):
    rng = np.random.default_rng(labels)
    num_groups, inputs = 11, 400
    ranks = [None] * failed + random_ranks(rng, num_groups - failed, inputs, labels)
    alone = [[group] for group in range(num_groups)]
    twice = [[group, num_groups] for group in range(num_groups)]  # a client in all groups, so that ballots are kept
    counted = certify.count_ranks(ranks, twice)
    spread = certify.overlapping_runoff(counted, alone, num_clients=num_groups)
    plain = certify.runoff(counted, num_failed=failed)
    assert np.array_equal(spread.labels, plain.labels)
    assert np.array_equal(spread.levels, plain.levels)
    assert np.array_equal(spread.abstained, plain.abstained)
    assert plain.levels.max() > plain.levels.min()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_same_for_every_profile_of_a_few_disjoint_groups(size):
    _, tables = profiles_of(size)
    counted = certify.count_ranks(tables, [[group, size] for group in range(size)] if size > 1 else [[0]])
    if size == 1:
        counted = certify.count_ranks([*tables, None], [[0], [0]])
    groups = [[group] for group in range(size)] + [[]] * (size == 1)
    spread = certify.overlapping_runoff(counted, groups, num_clients=size)
    assert np.array_equal(spread.levels, certify.runoff(counted).levels)


def defeated(orders, groups, num_attackers, failed=frozenset()):
    """Whether some clients can make 0 lose, with what the failed groups would have ranked."""
    num_clients = max(max(group) for group in groups) + 1
    for clients in combinations(range(num_clients), num_attackers):
        hit = reached(groups, clients) | failed
        rest = [order for group, order in enumerate(orders) if group not in hit]
        if any(elected([*rest, *forged]) != 0 for forged in combinations_with_replacement(ORDERS, len(hit))):
            return True
    return False


@pytest.mark.parametrize(
    ("first", "groups", "level"),
    [  # how many groups put 0, 1 and 2 first; all others put 0 second, so that round one decides
        ((7, 4, 4), [[group // 2] for group in range(15)], 1),  # one client closes each gap of 4, but 6 of both
        ((6, 4, 4), [[group // 2] for group in range(14)], 0),  # and 6 are enough here
        ((6, 4, 4), [[group, (group + 4) % 14] for group in range(14)], 0),
        ((6, 3, 3), [[group, (group + 1) % 12] for group in range(12)], 1),
        ((6, 3, 3), [[group, (group + 6) % 12] for group in range(12)], 1),  # nobody is in two groups that put 0 first
        ((4, 3, 3), [[group, (group + 5) % 10] for group in range(10)], 1),  # what it takes from 1 counts against it
    ],
)
def test_round_one_counts_both_gaps_at_once(first, groups, level):
    orders = [(0, 1, 2)] * first[0] + [(1, 0, 2)] * first[1] + [(2, 0, 1)] * first[2]
    result = certified([np.argsort([order]) for order in orders], groups, len(orders))
    assert (result.labels[0], result.levels[0]) == (0, level)
    assert not defeated(orders, groups, level)
    assert defeated(orders, groups, level + 1)


def test_a_client_gains_nothing_from_a_failed_group():
    """What the group would have ranked counts against the winner already, whoever is in it."""
    orders = [(0, 1, 2)] * 7 + [(1, 0, 2)] * 4 + [(2, 0, 1)] * 4 + [None]
    groups = [*([group // 2] for group in range(15)), [0]]
    tables = [None if order is None else np.argsort([order]) for order in orders]
    result = certified(tables, groups, num_clients=8)
    assert (result.labels[0], result.levels[0]) == (0, 1)
    assert not defeated(orders, groups, 1, failed={15})
    assert defeated(orders, groups, 2, failed={15})


def test_ballots_are_kept_where_clients_are_shared_and_only_there():
    ranks = random_ranks(np.random.default_rng(0), 3, 5, 10)
    assert certify.count_ranks(ranks).ballots is None
    assert certify.count_ranks(ranks, [[0], [1], [2]]).ballots is None
    kept = certify.count_ranks([*ranks, None], [[0], [0, 1], [2], [1]])
    assert kept.ballots.above.shape == (4, 5, 2)
    assert (kept.ballots.tops[3] == -1).all()
    winner = kept.final().winner
    for row in range(5):
        for group, table in enumerate(ranks):
            bits = np.unpackbits(kept.ballots.above[group, row], count=10)
            assert bits.tolist() == [int(table[row, winner[row]] < place) for place in table[row]]
    part = kept.part(slice(1, 3))
    assert np.array_equal(part.ballots.above, kept.ballots.above[:, 1:3])
    assert np.array_equal(part.ballots.tops, kept.ballots.tops[:, 1:3])


def test_bad_input_is_named():
    groups, ranks = [[0], [0, 1], [2]], random_ranks(np.random.default_rng(0), 3, 5, 10)
    counted = certify.count_ranks(ranks, groups)
    with pytest.raises(InputError, match="must be those of all 3 groups, got 2"):
        certify.count_ranks(ranks[:2], groups)
    with pytest.raises(InputError, match="needs the ballots of all 3 groups"):
        certify.overlapping_runoff(certify.count_ranks(ranks), groups, num_clients=3)
    other = replace(counted.ballots, tops=(counted.ballots.tops + 1) % 10)
    with pytest.raises(InputError, match="must agree with the counted votes"):
        certify.overlapping_runoff(replace(counted, ballots=other), groups, num_clients=3)
    cut = replace(counted.ballots, above=counted.ballots.above[:, :, :1])
    with pytest.raises(InputError, match="a bit for each of 10 labels"):
        certify.overlapping_runoff(replace(counted, ballots=cut), groups, num_clients=3)
    with pytest.raises(InputError, match="needs the clients of each group"):
        certify.Runoff(num_clients=3).certify(certify.Evidence.of_votes([[0]], 2, ranks=counted.part(slice(0, 1))))
