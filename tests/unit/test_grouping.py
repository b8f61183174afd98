"""Client ids to groups."""

import hashlib
from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest

from flcert import grouping
from flcert.errors import InputError
from flcert.runs.config import load_config, parse_config

IDS = [f"user-{i}" for i in range(30)]


def members(result):
    return [[IDS[client] for client in group] for group in result.members]


def test_hashed_groups_follow_keyed_blake2b_of_the_id():
    result = grouping.hashed(IDS, 7, key="secret")
    for group, users in enumerate(members(result)):
        for user in users:
            digest = hashlib.blake2b(user.encode(), key=b"secret", digest_size=16).digest()
            assert int.from_bytes(digest, "big") % 7 == group
    assert sorted(user for users in members(result) for user in users) == sorted(IDS)


def test_hashed_groups_do_not_depend_on_the_order_or_presence_of_other_clients():
    before = {user: group for group, users in enumerate(members(grouping.hashed(IDS, 7))) for user in users}
    for leaver in IDS:
        others = [user for user in reversed(IDS) if user != leaver]
        after = grouping.hashed(others, 7)
        assert all(before[others[client]] == group for group, found in enumerate(after.members) for client in found)


def test_members_come_in_order_of_id():
    for result in (grouping.hashed(IDS[::-1], 4), grouping.sampled(IDS[::-1], 9, 5), grouping.enumerated(IDS[::-1], 2)):
        for group in result.members:
            users = [IDS[::-1][client] for client in group]
            assert users == sorted(users)


def test_another_key_gives_other_groups():
    assert members(grouping.hashed(IDS, 7, key="a")) != members(grouping.hashed(IDS, 7, key="b"))


def test_hashed_groups_are_empty_as_often_as_chance_says():
    """About 67 of 500 groups for 1,000 clients."""
    ids = [f"client-{i}" for i in range(1000)]
    empty = [int((grouping.hashed(ids, 500, key=f"key-{i}").sizes == 0).sum()) for i in range(20)]
    assert abs(np.mean(empty) - 500 * (1 - 1 / 500) ** 1000) < 5


def test_sampled_groups_are_uniform_subsets_and_independent():
    result = grouping.sampled([f"u{i}" for i in range(6)], 30_000, 2, seed=1)
    drawn = Counter(tuple(group.tolist()) for group in result.members)
    expected = 30_000 / comb(6, 2)
    chi_square = sum((drawn[pair] - expected) ** 2 / expected for pair in combinations(range(6), 2))
    assert chi_square < 36.1  # 14 degrees of freedom, one in a thousand
    repeats = sum(np.array_equal(a, b) for a, b in zip(result.members, result.members[1:], strict=False))
    assert abs(repeats / 30_000 - 1 / 15) < 0.006  # a group says nothing about the next


def test_sampled_groups_repeat_with_the_seed_and_change_with_it():
    assert members(grouping.sampled(IDS, 20, 3, seed=1)) == members(grouping.sampled(IDS, 20, 3, seed=1))
    assert members(grouping.sampled(IDS, 20, 3, seed=1)) != members(grouping.sampled(IDS, 20, 3, seed=2))


def test_enumerated_groups_are_all_of_them_once():
    result = grouping.enumerated(IDS, 2)
    assert len({tuple(group.tolist()) for group in result.members}) == len(result) == comb(30, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grouping.hashed(IDS, 31), r"num_groups must be in \[1, num_clients=30\], got 31"),
        (lambda: grouping.hashed(IDS, 0), r"num_groups must be in \[1, num_clients=30\], got 0"),
        (lambda: grouping.hashed([], 1), "at least one client is needed"),
        (lambda: grouping.hashed(["a", "b", "a"], 2), "user ids must be unique, got 'a' more than once"),
        (lambda: grouping.hashed(IDS, 3, key=""), "key must have 1 to 64 bytes, got 0"),
        (lambda: grouping.hashed(IDS, 3, key="x" * 65), "key must have 1 to 64 bytes, got 65"),
        (lambda: grouping.sampled(IDS, 5, 31), r"group_size must be in \[1, num_clients=30\], got 31"),
        (lambda: grouping.sampled(IDS, 10**7, 2), r"num_groups must be in \[1, 1000000\], got 10000000"),
        (lambda: grouping.enumerated(IDS, 15), r"C\(30, 15\) = 155,117,520 groups are more than limit=10,000"),
    ],
)
def test_groupings_that_make_no_sense_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_the_limit_of_enumeration_can_be_raised():
    assert len(grouping.enumerated(IDS, 4, limit=30_000)) == comb(30, 4)


def test_distinct_groups_are_every_set_of_groups_equally_often():
    ids = [f"u{i}" for i in range(4)]
    drawn = Counter()
    for seed in range(6000):
        groups = [tuple(group.tolist()) for group in grouping.sampled(ids, 2, 2, seed=seed, distinct=True).members]
        assert len(set(groups)) == 2
        drawn[frozenset(groups)] += 1
    assert len(drawn) == comb(comb(4, 2), 2)
    expected = 6000 / len(drawn)
    assert sum((times - expected) ** 2 / expected for times in drawn.values()) < 36  # 14 degrees of freedom, p = 0.001


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_every_client_of_spread_groups_serves_as_many_different_ones(copies):
    for key in map(str, range(20)):
        result = grouping.finite_aggregation(IDS, 5, copies, key=key)
        served = Counter(client for group in result.members for client in set(group.tolist()))
        assert set(served.values()) == {copies}
        assert sum(map(len, result.members)) == copies * len(IDS)


@pytest.mark.parametrize("groups", [1, 2, 7, 29, 30])
def test_balanced_groups_have_everybody_once_and_sizes_that_differ_by_one_at_most(groups):
    result = grouping.balanced(IDS, groups, key="secret")
    assert sorted(user for users in members(result) for user in users) == sorted(IDS)
    assert result.sizes.max() - result.sizes.min() <= 1
    assert result.sizes.min() >= 1
    assert [users == sorted(users) for users in members(result)] == [True] * groups
    assert members(result) != members(grouping.balanced(IDS, groups, key="other")) or groups == 1


def test_balanced_groups_are_the_registered_ids_in_the_order_of_a_keyed_hash_dealt_out():
    def number(user):
        return int.from_bytes(hashlib.blake2b(user.encode(), key=b"secret", digest_size=16).digest(), "big")

    order = sorted(IDS, key=number)
    expected = [sorted(order[first::7]) for first in range(7)]
    shuffled = IDS[::-1]
    found = grouping.balanced(shuffled, 7, key="secret").members
    assert [[shuffled[client] for client in group] for group in found] == expected


@pytest.mark.parametrize("kind", [kind for kind in grouping.KINDS.values() if kind.can_forget])
def test_a_client_that_is_forgotten_leaves_a_hole_and_moves_nobody(kind):
    settings = kind(num_groups=7)
    before = settings.build(IDS)
    for gone in (IDS[3:4], IDS[5:9]):
        left = [user for user in IDS if user not in gone]
        after = settings.groups_of(left, gone)
        assert after.num_clients == len(left)
        for group, users in enumerate(members(before)):
            assert [left[client] for client in after.members[group]] == [user for user in users if user not in gone]


def test_the_paper_s_groups_are_empty_and_balanced_ones_are_not():
    ids = [f"client-{number:04d}" for number in range(1000)]
    assert (grouping.hashed(ids, 500).sizes == 0).sum() > 50
    assert set(grouping.balanced(ids, 500).sizes.tolist()) == {2}
    assert set(grouping.balanced(ids, 1000).sizes.tolist()) == {1}


def groups_by_user(result, ids):
    return {ids[client]: group for group, found in enumerate(result.members) for client in found}


def test_a_client_that_comes_late_goes_to_the_smallest_group_and_moves_nobody():
    before = groups_by_user(grouping.balanced(IDS, 7), IDS)
    late = ["zoe", "adam", "mia", "user-99", "x", "y", "z"]
    for number in range(1, len(late) + 1):
        ids = [*late[:number][::-1], *IDS]  # where a client stands in the list does not matter
        result = grouping.balanced(ids, 7, late=late[:number])
        after = groups_by_user(result, ids)
        assert result.sizes.max() - result.sizes.min() <= 1
        before |= {late[number - 1]: after[late[number - 1]]}
        assert after == before  # those who came late before it stay too
    first = grouping.balanced(IDS, 7).sizes
    assert before["zoe"] == int(np.argmin(first))


def test_a_late_client_keeps_its_place_when_others_are_forgotten():
    settings = grouping.Balanced(num_groups=7, late=("zoe", "adam"))
    ids = [*IDS, "zoe", "adam"]
    before = groups_by_user(settings.build(ids), ids)
    for gone in (IDS[3:4], ["zoe"], [IDS[0], "adam"]):
        left = [user for user in ids if user not in gone]
        after = groups_by_user(settings.groups_of(left, gone), left)
        assert after == {user: group for user, group in before.items() if user not in gone}


def test_groups_balanced_by_examples_hold_nearly_as_many_examples_each():
    ids = [f"client-{number}" for number in range(300)]
    examples = {user: 1 + 997 * number % 211 for number, user in enumerate(ids)}
    result = grouping.balanced(ids, 40, examples=examples)
    sums = [sum(examples[ids[client]] for client in group) for group in result.members]
    assert sorted(client for group in result.members for client in group) == list(range(300))
    assert max(sums) - min(sums) < 20 < max(examples.values())
    by_clients = grouping.balanced(ids, 40)
    assert np.ptp([sum(examples[ids[client]] for client in group) for group in by_clients.members]) > 100
    assert members_of(grouping.balanced(ids[::-1], 40, examples=examples), ids[::-1]) == members_of(result, ids)


def members_of(result, ids):
    return [[ids[client] for client in group] for group in result.members]


def test_no_group_is_empty_even_if_clients_without_examples_fill_it():
    ids = [f"client-{number}" for number in range(9)]
    assert grouping.balanced(ids, 9, examples=dict.fromkeys(ids, 0)).sizes.min() == 1
    few = {user: 5 * (number < 2) for number, user in enumerate(ids)}
    assert grouping.balanced(ids, 6, examples=few).sizes.min() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": ["nobody"]}, "late must name registered clients, got 'nobody', which is none"),
        ({"late": [IDS[0], IDS[0]]}, "late must name each client once, got 'user-0' more than once"),
        ({"late": IDS[:25]}, r"num_groups must be in \[1, num_clients=5\], got 7"),
        ({"examples": {IDS[0]: 3}}, "examples must have a number for every client, got none for 'user-1'"),
    ],
)
def test_balanced_groups_of_clients_that_are_not_registered_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        grouping.balanced(IDS, 7, **options)


def test_numbers_of_examples_are_read_once_from_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "sizes.json").write_text('{"a": 3, "b": 1}')
    (tmp_path / "config.toml").write_text('[grouping]\nkind = "balanced"\nnum_groups = 2\nexamples = "sizes.json"\n')
    config = load_config(tmp_path / "config.toml")
    assert config.grouping.examples == {"a": 3, "b": 1}
    (tmp_path / "sizes.json").unlink()
    assert parse_config(config.canonical()) == config
    for text, message in (('{"a": -1}', "grouping.examples.a"), ("[1]", "grouping.examples"), ("{", "sizes.json")):
        (tmp_path / "sizes.json").write_text(text)
        with pytest.raises(InputError, match=message):
            load_config(tmp_path / "config.toml")
