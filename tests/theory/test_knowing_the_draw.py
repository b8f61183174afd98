"""Malicious clients who know which groups were drawn, against every honest ensemble, by enumeration of all draws."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from flcert import certify
from flcert.certify import SampledOptions, Trusted
from tests.theory.test_trusted import LABELS, all_counts, chance, counts_of, leads, weights_of


def claims(size, num_groups, options, alpha):
    """The label and level, or -1, of every outcome of a draw in which some groups may have cast no vote."""
    found = {}
    for seen in (row for cast in range(1, num_groups + 1) for row in all_counts(cast)):
        result = certify.sampled([seen], num_clients=size[0], group_size=size[1], alpha=alpha, options=options)
        found[seen] = int(result.labels[0]), -1 if result.abstained[0] else int(result.levels[0])
    return found


def forged(claimed, honest, touched, num_malicious):
    """The highest level that each label can get if the touched groups of a draw vote as the attacker likes.

    Levels below the number of malicious clients are left out: nothing is claimed for them.
    """
    levels = [-1] * LABELS
    for cast in range(touched + 1):
        for votes in all_counts(cast):
            seen = tuple(map(sum, zip(honest, votes, strict=True)))
            label, level = claimed.get(seen, (0, -1))
            if level >= num_malicious:
                levels[label] = max(levels[label], level)
    return levels


def true_level(votes, malicious, size, weights, label):
    """The largest m for which the label wins whatever the malicious clients do, and enough others to make m; or -1.

    Args:
        votes: the vote of each group that no malicious client is in.
    """
    others = sorted(set(range(size[0])) - set(malicious))
    for m in range(len(malicious), size[0] + 1):
        for more in combinations(others, m - len(malicious)):
            kept = counts_of([vote for group, vote in votes.items() if not set(group) & set(more)])
            turned = comb(*size) - sum(kept)
            for rival in set(range(LABELS)) - {label}:
                after = [number + turned * (index == rival) for index, number in enumerate(kept)]
                if not leads(after, weights, label):
                    return m - 1 if m > len(malicious) else -1
    return size[0]


def outcomes(cells, num_groups, distinct):
    """Every number of drawn groups of each kind, with its probability."""
    draws = comb(sum(cells), num_groups) if distinct else sum(cells) ** num_groups
    for drawn in product(*(range(num_groups + 1) for _ in cells)):
        if sum(drawn) == num_groups and (weight := chance(drawn, cells, distinct)):
            yield drawn, Fraction(weight, draws)


SETTINGS = {  # n, k; malicious clients; N; alpha
    "one of five, pairs": ((5, 2), 1, 7, 0.7),
    "one of six": ((6, 1), 1, 5, 0.7),
    "two of six": ((6, 1), 2, 5, 0.8),
    "one of four, pairs": ((4, 2), 1, 5, 0.9),
}


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("tails", ["one", "both", "best"])
@pytest.mark.parametrize("name", SETTINGS)
def test_levels_of_at_least_m_survive_m_clients_who_know_the_draw(name, tails, distinct):
    """For every vote of the groups that they are not in, with the votes of the others chosen after each draw."""
    size, num_malicious, num_groups, alpha = SETTINGS[name]
    malicious = tuple(range(num_malicious))
    untouched = list(combinations(range(num_malicious, size[0]), size[1]))
    touched, given = comb(*size) - len(untouched), 0
    for votes in (0, 1, num_groups - 1):
        options = SampledOptions(num_groups, tails, distinct, Trusted(np.array([1]), votes) if votes else None)
        weights = weights_of(1, Fraction(votes * comb(*size), num_groups))
        claimed = claims(size, num_groups, options, alpha)
        reach = {
            (honest, number): forged(claimed, honest, number, num_malicious)
            for number in range(num_groups + 1)
            for honest in all_counts(num_groups - number)
        }
        given += sum(max(levels) >= 0 for levels in reach.values())
        rates = {}
        for honest in product(range(LABELS), repeat=len(untouched)):
            ballots = dict(zip(untouched, honest, strict=True))
            truth = tuple(true_level(ballots, malicious, size, weights, label) for label in range(LABELS))
            cells = (*counts_of(honest), touched)
            if (cells, truth) not in rates:
                rates[cells, truth] = sum(
                    probability
                    for drawn, probability in outcomes(cells, num_groups, distinct)
                    if any(map(int.__gt__, reach[drawn[:-1], drawn[-1]], truth))
                )
        assert max(rates.values()) <= Fraction(str(alpha)), votes
    assert given  # certificates of such levels exist


def nine_clients(num_groups, alpha):
    """Groups of one client, four of which vote for label 0 and five for label 1; what draws of so many certify."""
    honest = {(client,): int(client >= 4) for client in range(9)}
    options = SampledOptions(num_groups, distinct=True)
    return honest, claims((9, 1), num_groups, options, alpha)


def broken_draws(honest, claimed, pair):
    """The draws of five on which these two clients bring about a wrong certificate of at least level 2."""
    votes = {group: vote for group, vote in honest.items() if group[0] not in pair}
    truth = [true_level(votes, pair, (9, 1), [0] * LABELS, label) for label in range(LABELS)]
    for draw in combinations(range(9), 5):
        kept = counts_of([honest[client,] for client in draw if client not in pair])
        if any(map(int.__gt__, forged(claimed, kept, 5 - sum(kept), 2), truth)):
            yield draw


def test_who_is_malicious_must_be_settled_before_the_draw():
    """Two clients whom the attacker picks after the draw break level 2 too often; any two picked before do not."""
    honest, claimed = nine_clients(5, alpha=0.1)
    assert claimed[5, 0, 0] == (0, 2)
    broken = [set(broken_draws(honest, claimed, pair)) for pair in combinations(range(9), 2)]
    assert max(map(len, broken)) <= 0.1 * comb(9, 5)
    assert (len(set().union(*broken)), comb(9, 5)) == (66, 126)  # docs/theory.md


def test_nothing_holds_below_the_number_of_clients_who_know_the_draw():
    """If all nine know which four were drawn, these vote for label 0 and the others for label 1."""
    _, claimed = nine_clients(4, alpha=0.1)
    assert claimed[4, 0, 0] == (0, 1)
