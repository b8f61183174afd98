"""Votes that are missing on some inputs only: each input is certified as if those groups had failed."""

from itertools import product

import numpy as np
import pytest

from flcert.certify import Evidence, guarantee_from
from flcert.voting import NO_VOTE, winners

RANDOM = np.random.default_rng(5)


def table(num_groups, num_inputs):
    votes = RANDOM.integers(0, 3, (num_groups, num_inputs))
    votes[RANDOM.random(votes.shape) < 0.2] = NO_VOTE
    votes[0] = RANDOM.integers(0, 3, num_inputs)  # somebody votes
    return votes


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ({"kind": "disjoint", "num_clients": 12, "num_groups": 6}, [[2 * g, 2 * g + 1] for g in range(6)]),
        ({"kind": "overlapping", "num_clients": 6, "num_groups": 6}, [[g, (g + 1) % 6] for g in range(6)]),
        (
            {"kind": "enumerated", "num_clients": 4, "num_groups": 6, "group_size": 2},
            [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_each_input_is_certified_as_it_would_be_alone_with_so_many_failed_groups(kind, groups):
    votes, guarantee = table(6, 40), guarantee_from(kind)
    found = guarantee.certify_each(Evidence.of_votes(votes, 3, groups))
    for row in range(votes.shape[1]):
        alone = Evidence.of_votes(votes[:, [row]], 3, groups)
        expected = guarantee.with_failed(int((votes[:, row] == NO_VOTE).sum())).certify(alone)
        assert (found.labels[row], found.levels[row], found.abstained[row]) == (
            expected.labels[0],
            expected.levels[0],
            expected.abstained[0],
        )


def test_no_vote_of_silent_groups_and_no_attack_within_the_level_changes_a_label():
    votes, groups = table(5, 60), [[g] for g in range(5)]
    guarantee = guarantee_from({"kind": "disjoint", "num_clients": 5, "num_groups": 5})
    found = guarantee.certify_each(Evidence.of_votes(votes, 3, groups))
    assert (found.levels > 0).any()
    assert found.abstained.any()
    for row in range(votes.shape[1]):
        if found.abstained[row]:
            continue
        for after in product(range(-1, 3), repeat=5):
            changed = [after[g] != votes[g, row] and votes[g, row] != NO_VOTE for g in range(5)]
            if sum(changed) <= found.levels[row] and max(after) >= 0:
                counts = [[after.count(label) for label in range(3)]]
                assert winners(np.array(counts))[0] == found.labels[row]


def test_inputs_share_alpha_whatever_votes_are_missing():
    votes = np.zeros((20, 4), dtype=np.int64)
    votes[:1, 1] = NO_VOTE
    groups = [[g % 20, (g + 1) % 20] for g in range(20)]
    guarantee = guarantee_from({"kind": "sampled", "num_clients": 20, "num_groups": 20, "group_size": 2, "alpha": 0.05})
    evidence = Evidence.of_votes(votes, 3, groups)
    levels = guarantee.certify_each(evidence).levels
    assert np.array_equal(levels, guarantee.certify(evidence).levels)
    alone = guarantee.certify(evidence.part(slice(1))).levels
    assert levels[0] < alone[0]  # four inputs have a quarter of alpha each


def test_groups_that_failed_already_are_not_charged_twice():
    votes = np.array([[0, 0], [0, 0], [0, 0], [NO_VOTE, NO_VOTE], [0, NO_VOTE]])
    guarantee = guarantee_from({"kind": "disjoint", "num_clients": 5, "num_groups": 5, "num_failed": 1})
    evidence = Evidence.of_votes(votes, 2, [[g] for g in range(5)])
    assert evidence.silent().tolist() == [1, 2]
    assert guarantee.certify_each(evidence).levels.tolist() == [
        guarantee.certify(evidence.part(slice(1))).levels[0],
        guarantee.with_failed(1).certify(evidence.part(slice(1, 2))).levels[0],
    ]


def test_a_table_of_votes_without_groups_has_nobody_to_charge():
    assert Evidence.of_votes([[0, -1], [0, 1]], 2).silent().tolist() == [0, 0]


def test_an_empty_group_is_not_silent():
    evidence = Evidence.of_votes([[0, 0], [NO_VOTE, NO_VOTE], [1, NO_VOTE]], 2, [[0], [], [1]])
    assert evidence.silent().tolist() == [0, 1]
