"""How many groups must agree: checked against every vote of the others, and every choice of groups that agree."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from flcert import certify, grouping
from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.pipeline.agreement import Agreement

LABELS = 3
LIKELY = certify.CertificateSettings(alpha=0.4)
KINDS = {
    "hashed": (grouping.Hashed(num_groups=5), 7),
    "balanced": (grouping.Balanced(num_groups=6), 7),
    "enumerated": (grouping.Enumerated(group_size=3), 4),
    "sampled": (grouping.Sampled(num_groups=6, group_size=1), 9),
    "different groups": (grouping.Sampled(num_groups=5, group_size=1, distinct=True), 6),
    "finite aggregation": (grouping.FiniteAggregation(num_groups=7, groups_per_client=2), 9),
}


def agreement_of(kind, clients, *, settings=LIKELY, trusted=0, opposed=False, certificate=None):
    outlook = kind.outlook(clients, settings, trusted, certificate)
    return Agreement(outlook, clients, num_labels=LABELS, opposed=opposed)


def levels_of_all_votes(kind, clients, agreeing, label, trusted, opposed):
    """The level of a label on real groups, for every choice of groups that agree and every vote of the others."""
    groups = kind.build([f"client-{number}" for number in range(clients)])
    voting = [number for number, members in enumerate(groups.members) if len(members)]
    rivals = [other for other in range(LABELS) if other != label]
    guarantee = LIKELY.of(kind.certificate, groups, trusted=trusted)
    of_trusted = rivals if opposed else [label]
    for chosen in combinations(voting, agreeing):
        others = [number for number in voting if number not in chosen]
        for cast in product(rivals, repeat=len(others)):
            votes = np.full((len(groups), 1), -1)
            votes[list(chosen)] = label
            votes[others, 0] = cast
            for vote in of_trusted:
                evidence = certify.Evidence.of_votes(votes, LABELS, groups.members, trusted=[vote])
                found = guarantee.certify(evidence)
                certified = found.labels[0] == label and not found.abstained[0]
                yield int(found.levels[0]) if certified else -1


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("trusted", "opposed"), [(0, False), (1, False), (1, True), (3, True), (9, False), (9, True)])
def test_as_many_groups_as_it_says_certify_a_level_whatever_the_others_vote(name, trusted, opposed):
    kind, clients = KINDS[name]
    groups = kind.build([f"client-{number}" for number in range(clients)])
    expected = agreement_of(kind, clients, trusted=trusted, opposed=opposed)
    voting = int((groups.sizes > 0).sum())
    expected = Agreement(expected.outlook.with_voting(voting), clients, num_labels=LABELS, opposed=opposed)
    for agreeing in range(voting + 1):
        reach = expected.reach(agreeing)
        level = reach.level if reach.certified else -1
        found = min(levels_of_all_votes(kind, clients, agreeing, 0, trusted, opposed))
        assert found >= level
        assert found == level or "finite" in name  # real shifts need not be the worst


@pytest.mark.parametrize("name", KINDS)
def test_a_label_that_loses_ties_needs_one_more_group_at_most(name):
    kind, clients = KINDS[name]
    outlook = kind.outlook(clients, LIKELY)
    groups = kind.build([f"client-{number}" for number in range(clients)])
    expected = Agreement(outlook.with_voting(int((groups.sizes > 0).sum())), clients, num_labels=LABELS)
    for level in range(expected.best.level + 1):
        fewest = expected.fewest(level)
        assert fewest is not None
        for agreeing in range(fewest + 1, expected.total + 1):
            assert min(levels_of_all_votes(kind, clients, agreeing, 2, 0, False)) >= level


def test_a_run_off_is_certified_whatever_the_others_prefer():
    kind, clients, choice = grouping.Balanced(num_groups=4), 4, Choice(name="runoff")
    expected = agreement_of(kind, clients, certificate=choice)
    rankings = [np.array([ranks]) for ranks in permutations(range(LABELS))]
    ours = [ranks for ranks in rankings if ranks[0, 0] == 0]
    groups = kind.sketch(clients)
    guarantee = LIKELY.of(choice, groups)
    for agreeing in range(1, 5):
        levels = []
        for mine in product(ours, repeat=agreeing):
            for theirs in product([ranks for ranks in rankings if ranks[0, 0]], repeat=4 - agreeing):
                ranks = certify.count_ranks([*mine, *theirs])
                found = guarantee.certify(certify.Evidence(ranks.votes, groups=groups.members, ranks=ranks))
                levels.append(int(found.levels[0]) if found.labels[0] == 0 and not found.abstained[0] else -1)
        reach = expected.reach(agreeing)
        assert min(levels) == (reach.level if reach.certified else -1)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("trusted", "opposed"), [(0, False), (2, False), (2, True)])
def test_the_fewest_groups_are_where_a_level_begins(name, trusted, opposed):
    kind, clients = KINDS[name]
    found = agreement_of(kind, clients, trusted=trusted, opposed=opposed)
    certified = [reach.level if reach.certified else -1 for reach in map(found.reach, range(found.total + 1))]
    assert certified == sorted(certified)  # more agreement is never worth less
    for level in range(clients + 1):
        enough = [votes for votes, reached in enumerate(certified) if reached >= level]
        assert found.fewest(level) == (enough[0] if enough else None)
    assert dict(found.curve()) == {
        level: found.fewest(level) for level in range(found.best.level + 1) if found.best.certified and found.best.wins
    }


def test_it_is_unknown_where_it_depends_on_which_groups_agree():
    kind = grouping.Sampled(num_groups=6, group_size=2)
    found = agreement_of(kind, 9, certificate=Choice(name="overlapping"))
    assert found.best.certified
    with pytest.raises(InputError, match="depends on which groups agree"):
        found.fewest(0)
