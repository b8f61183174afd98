"""Votes of a model that no client can change: every kind that takes them, against every attack on small cases."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import ceil, comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from flcert import certify
from flcert.certify import Evidence, SampledOptions, Trusted
from flcert.certify.confidence import clopper_pearson
from flcert.certify.draw import Draw
from tests.theory.test_overlapping import FAMILIES
from tests.theory.test_sparse import same

LABELS = 3
VOTES = range(-1, LABELS)  # -1: no vote
SEVERAL = (0, 1, 2, 3, 4, 5, 9)  # trusted votes; with the last nobody else has a say in four groups


@cache
def elected(counts, label, trusted):
    """The label with the most votes, the smallest index on a tie."""
    votes = [number + trusted * (index == label) for index, number in enumerate(counts)]
    return max(range(LABELS), key=lambda one: (votes[one], -one))


def counts_of(votes):
    return tuple(votes.count(label) for label in range(LABELS))


@cache
def reachable(votes, hit):
    """All counts that an attacker can bring about who decides the votes of these groups."""
    found = set()
    for forged in product(VOTES, repeat=len(hit)):
        changed = list(votes)
        for group, vote in zip(hit, forged, strict=True):
            changed[group] = vote
        found.add(counts_of(changed))
    return found


def hits(groups, num_clients, num_malicious):
    """The groups that each choice of malicious clients sits in."""
    return {
        tuple(number for number, members in enumerate(groups) if set(members) & set(malicious))
        for malicious in combinations(range(num_clients), num_malicious)
    }


@cache
def outcomes(votes, groups, num_clients, num_malicious):
    """All counts that so many malicious clients can bring about."""
    return set().union(*(reachable(votes, hit) for hit in hits(groups, num_clients, num_malicious)))


def columns(groups, vote=VOTES):
    """Every vote of these groups, none from empty ones, with every label of the trusted model."""
    tables = product(*(vote if members else [-1] for members in groups))
    return list(product(tables, range(LABELS)))


def evidence_of(cases, groups):
    votes, labels = zip(*cases, strict=True)
    return Evidence.of_votes(np.array(votes).T, LABELS, groups, trusted=labels)


def checked(guarantee, groups, cases):
    """The certificates of all cases, sound against every attack; for each case whether one more client breaks it."""
    evidence, num_clients, trusted = evidence_of(cases, groups), guarantee.num_clients, guarantee.trusted
    result = guarantee.certify(evidence)
    assert not result.abstained.any()
    for (votes, label), predicted, level in zip(cases, result.labels, result.levels.tolist(), strict=True):
        assert predicted == elected(counts_of(votes), label, trusted)

        def stands(m, votes=votes, label=label, predicted=predicted):
            counts = outcomes(votes, groups, num_clients, m)
            return all(elected(one, label, trusted) == predicted for one in counts)

        assert stands(level), (votes, label, trusted)
        if stands(num_clients):
            assert level == num_clients  # it sees that nobody can
        yield level == num_clients or not stands(level + 1)


DISJOINT = {
    "one client each": (((0,), (1,), (2,), (3,)), 4),
    "two in one group": (((0, 1), (2,), (3,)), 4),
    "an empty group": (((0,), (1,), (), (2,)), 3),
    "two groups": (((0,), (1,)), 2),
    "one group": (((0,),), 1),
}


@pytest.mark.parametrize("name", DISJOINT)
@pytest.mark.parametrize("trusted", SEVERAL)
def test_disjoint_levels_are_the_largest_that_no_attack_breaks(name, trusted):
    groups, num_clients = DISJOINT[name]
    guarantee = certify.Disjoint(num_clients=num_clients, num_groups=len(groups), trusted=trusted)
    assert all(checked(guarantee, groups, [case for case in columns(groups) if trusted or max(case[0]) >= 0]))


@pytest.mark.parametrize("num_failed", [1, 2])
def test_what_failed_groups_would_have_voted_cannot_change_a_certified_label(num_failed):
    groups = tuple((number,) for number in range(3 + num_failed))
    failed = range(3, 3 + num_failed)
    for trusted in (1, 2, 4, 7):
        cases = [((*votes, *[-1] * num_failed), label) for votes, label in columns(groups[:3])]
        guarantee = certify.Disjoint(num_clients=len(groups), num_failed=num_failed, trusted=trusted)
        result = guarantee.certify(evidence_of(cases, groups))
        for (votes, label), *found in zip(cases, result.labels, result.levels, result.abstained, strict=True):
            predicted, level, abstained = found

            def stands(m, votes=votes, label=label, predicted=predicted, trusted=trusted):
                free = {tuple(sorted({*hit, *failed})) for hit in hits(groups, len(groups), m)}
                return all(elected(one, label, trusted) == predicted for hit in free for one in reachable(votes, hit))

            assert stands(0) is not bool(abstained)
            assert abstained or stands(level)
            assert abstained or level == len(groups) or not stands(level + 1)


def test_without_members_groups_that_cast_no_vote_may_have_clients():
    counts, trusted = np.array([[1, 0, 0]]), Trusted(np.array([0]), 2)
    alone = certify.disjoint(counts, trusted=trusted)
    silent = certify.disjoint(counts, trusted=trusted, num_groups=4)
    assert (alone.levels[0], silent.levels[0]) == (1, 2)  # nobody can; three can
    assert certify.disjoint(counts, trusted=trusted, num_clients=7).levels[0] == 7
    assert certify.disjoint(counts, trusted=trusted, num_groups=4, num_clients=1).levels[0] == 1
    rows = certify.disjoint([[4, 0, 0], [1, 0, 0]], trusted=Trusted(np.array([0, 0]), 2))
    assert rows.levels[1] == 2  # four groups have voted on some input


@pytest.mark.parametrize("trusted", [1, 3])
def test_an_input_alone_has_the_levels_that_it_has_among_others(trusted):
    """Groups that cast no vote on any input at hand have clients all the same."""
    for groups, num_clients in (DISJOINT["two in one group"], DISJOINT["an empty group"]):
        cases = columns(groups)
        evidence, guarantee = evidence_of(cases, groups), certify.Disjoint(num_clients=num_clients, trusted=trusted)
        levels = guarantee.certify(evidence).levels
        targets = [guarantee.target_levels(evidence, target) for target in range(LABELS)]
        for row in range(len(cases)):
            one = evidence.part(slice(row, row + 1))
            assert guarantee.certify(one).levels[0] == levels[row]
            assert [guarantee.target_levels(one, target)[0] for target in range(LABELS)] == [
                whole[row] for whole in targets
            ]


@pytest.mark.parametrize("num_failed", [0, 1])
def test_groups_that_voted_on_some_input_can_be_turned_on_every_other(num_failed):
    evidence = Evidence(np.array([[4, 0, 0], [1, 0, 0]]), trusted=np.array([0, 0]))
    for num_groups, trusted in product((None, 4 + num_failed, 5 + num_failed), (2, 4)):
        can_turn = (num_groups or 4 + num_failed) - num_failed
        votes, failed = (0, *[-1] * (can_turn - 1 + num_failed)), range(can_turn, can_turn + num_failed)

        def stands(m, can_turn=can_turn, votes=votes, failed=failed, trusted=trusted):
            attacks = (reachable(votes, (*hit, *failed)) for hit in combinations(range(can_turn), m))
            return all(elected(one, 0, trusted) == 0 for attack in attacks for one in attack)

        level = 20 if stands(can_turn) else max(m for m in range(can_turn) if stands(m))
        guarantee = certify.Disjoint(num_groups=num_groups, num_failed=num_failed, num_clients=20, trusted=trusted)
        assert guarantee.certify(evidence).levels[1] == level
        assert guarantee.target_levels(evidence, 1)[1] == level


def test_where_the_clients_are_not_known_a_label_that_nobody_can_change_has_the_groups_as_its_level():
    evidence = Evidence(np.array([[2, 1, 0]]), trusted=np.array([0]))
    for num_failed in (0, 1, 2):
        guarantee = certify.Disjoint(num_failed=num_failed, trusted=9)
        assert guarantee.certify(evidence).levels[0] == 3 + num_failed
        assert guarantee.target_levels(evidence, 1)[0] == 3 + num_failed


@pytest.mark.parametrize("trusted", [1, 2, 3, 4, 9])
def test_a_takeover_lists_who_could_get_ahead_and_with_how_many_clients(trusted):
    groups, num_clients = DISJOINT["an empty group"]
    cases = columns(groups)
    evidence, guarantee = evidence_of(cases, groups), certify.Disjoint(num_clients=num_clients, trusted=trusted)
    for position, (votes, label) in enumerate(cases):
        leader = elected(counts_of(votes), label, trusted)
        needed = {}
        for rival, m in product(set(range(LABELS)) - {leader}, range(num_clients, 0, -1)):
            only = [
                [count * (index in (leader, rival)) for index, count in enumerate(counts)]
                for counts in outcomes(votes, groups, num_clients, m)
            ]
            fixed = trusted if label in (leader, rival) else 0
            if any(elected(tuple(counts), label, fixed) == rival for counts in only):
                needed[str(rival)] = m
        assert guarantee.takeover(evidence, position) == needed


def test_a_takeover_among_many_labels_leaves_out_what_cannot_win():
    counts = np.zeros((1, 60), dtype=int)
    counts[0, :3] = 4, 3, 2
    for table in (counts, csr_array(counts)):
        near = certify.Disjoint(trusted=2).takeover(Evidence(table, trusted=np.array([0])), 0)
        assert near == {"1": 2, "2": 3, "other": 4}
        never = certify.Disjoint(trusted=10).takeover(Evidence(table, trusted=np.array([1])), 0)
        assert never == {}


def all_counts(total):
    return [(a, b, total - a - b) for a in range(total + 1) for b in range(total + 1 - a)]


@pytest.mark.parametrize("sparse", [False, True])
def test_no_trusted_votes_are_the_theorem_as_it_was(sparse):
    counts = np.array([row for total in range(1, 9) for row in all_counts(total)])
    table, nothing = csr_array(counts) if sparse else counts, Trusted(np.arange(len(counts)) % LABELS, 0)
    for failed in range(3):
        result = certify.disjoint(table, num_failed=failed, trusted=nothing, num_groups=30, num_clients=40)
        for row, label, level, abstained in zip(counts, result.labels, result.levels, result.abstained, strict=True):
            gap = min(row[label] - row[other] - (other < label) for other in range(LABELS) if other != label)
            assert (level, abstained) == (max(0, (gap - failed) // 2), gap < failed)


@given(st.data())
def test_sparse_counts_give_the_certificates_of_dense_ones(data):
    counts = np.array(data.draw(st.lists(st.sampled_from(all_counts(15)), min_size=1, max_size=6)))
    counts = np.hstack([counts, np.zeros((len(counts), 2), dtype=int)])
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(counts), max_size=len(counts))))
    trusted = Trusted(labels, data.draw(st.sampled_from([0, 1, 3, 8, 14, 15, 16, 40])))
    thin = csr_array(counts)
    assert np.array_equal(certify.with_trusted(thin, labels, 3).todense(), certify.with_trusted(counts, labels, 3))
    assert same(*(certify.disjoint(table, trusted=trusted, num_groups=17, num_failed=1) for table in (counts, thin)))
    size = {"num_clients": 6, "group_size": 2}
    assert same(*(certify.enumerated(table, **size, trusted=trusted) for table in (counts, thin)))
    options = SampledOptions(16, data.draw(st.sampled_from(["one", "both", "best"])), trusted=trusted)
    assert same(*(certify.sampled(table, **size, alpha=0.5, options=options) for table in (counts, thin)))


def leads(counts, weights, label):
    """Strictly ahead with votes and weights that cannot be changed; FLCert-P never certifies a tie."""
    mine = counts[label] + weights[label]
    return all(mine > counts[other] + weights[other] for other in range(len(counts)) if other != label)


def weights_of(label, weight):
    return [weight * (index == label) for index in range(LABELS)]


@cache
def touched(num_clients, group_size, malicious):
    groups = combinations(range(num_clients), group_size)
    return tuple(number for number, group in enumerate(groups) if set(group) & set(malicious))


@cache
def after_turning(votes, num_clients, group_size):
    """For each m, the counts of groups that m clients leave untouched, and how many they touch."""
    found = []
    for m in range(num_clients + 1):
        hit = [touched(num_clients, group_size, malicious) for malicious in combinations(range(num_clients), m)]
        kept = ([vote for number, vote in enumerate(votes) if number not in one] for one in hit)
        found.append({(counts_of(rest), len(one)) for rest, one in zip(kept, hit, strict=True)})
    return found


def ensemble_level(votes, num_clients, group_size, weights, label=None):
    """The level of all groups with these votes by trying all clients: touched groups turn to one rival."""
    counts = counts_of(votes)
    label = max(range(LABELS), key=lambda one: counts[one] + weights[one]) if label is None else label
    for m, left in enumerate(after_turning(votes, num_clients, group_size)):
        for kept, turned in left:
            for rival in set(range(LABELS)) - {label}:
                after = [number + turned * (index == rival) for index, number in enumerate(kept)]
                if not leads(after, weights, label):
                    return m - 1
    return num_clients


@pytest.mark.parametrize(("num_clients", "group_size"), [(4, 2), (3, 2), (5, 1)])
def test_enumerated_levels_are_those_of_the_weakest_models_with_these_counts(num_clients, group_size):
    for trusted in (1, 2, 3, 5, 6, 7, 20):
        weakest = defaultdict(lambda: num_clients)
        for votes in product(range(LABELS), repeat=comb(num_clients, group_size)):
            level = ensemble_level(votes, num_clients, group_size, weights_of(1, trusted))
            weakest[counts_of(votes)] = min(weakest[counts_of(votes)], level)
        ours = Trusted(np.ones(len(weakest), dtype=int), trusted)
        result = certify.enumerated(list(weakest), num_clients=num_clients, group_size=group_size, trusted=ours)
        assert np.where(result.abstained, -1, result.levels).tolist() == list(weakest.values())


def test_enumerated_levels_hold_against_attacks_of_every_kind():
    """Every vote of every touched group, also with a group that failed."""
    groups = list(combinations(range(3), 2))
    for votes in product(VOTES, repeat=3):
        failed = votes.count(-1)
        for label, trusted in product(range(LABELS), (1, 2, 3, 4)):
            result = certify.enumerated(
                [counts_of(votes)], num_clients=3, group_size=2, num_failed=failed, trusted=Trusted([label], trusted)
            )
            if result.abstained[0]:
                continue
            if all(
                leads(counts, weights_of(label, trusted), result.labels[0]) for counts in reachable(votes, (0, 1, 2))
            ):
                assert result.levels[0] == 3
            missing = {number for number, vote in enumerate(votes) if vote < 0}
            for hit in hits(groups, 3, int(result.levels[0])):
                for counts in reachable(votes, tuple(sorted({*hit, *missing}))):
                    assert leads(counts, weights_of(label, trusted), result.labels[0])


@pytest.mark.parametrize(("num_clients", "group_size"), [(4, 2), (5, 1)])
@pytest.mark.parametrize("num_groups", [4, 7])
def test_the_level_of_a_bound_is_that_of_the_weakest_models_within_it(num_clients, group_size, num_groups):
    """T votes beside N groups weigh T C / N beside all C groups."""
    total = comb(num_clients, group_size)
    draw = Draw(num_clients, group_size, num_groups, distinct=False)
    models = list(product(range(LABELS), repeat=total))
    for trusted, label in product((1, 2, 4, 6, 8), (0, 1)):
        weights = weights_of(label, Fraction(trusted * total, num_groups))
        of_zero = defaultdict(list)
        for votes in models:
            counts = counts_of(votes)
            of_zero[counts[0]].append(ensemble_level(votes, num_clients, group_size, weights, 0))
        lead = trusted if label == 0 else -trusted
        for numerator in range(2 * total + 1):
            bound = Fraction(numerator, 2 * total)
            weakest = min(level for votes, levels in of_zero.items() if votes >= bound * total for level in levels)
            granted = draw.level_of_bound(bound, lead)
            if bound > draw.threshold(lead):
                assert granted == weakest
            else:
                assert granted == -1  # as in the paper, which asks that the bound itself is above


SIZE = (6, 2)  # clients, and those of a group: fifteen groups
TOTAL = comb(*SIZE)


def claims(num_groups, trusted, alpha, tails, distinct):
    """The label and level of every outcome of a draw, if any, as if it were the only input."""
    for seen in all_counts(num_groups):
        options = SampledOptions(num_groups, tails, distinct, trusted)
        result = certify.sampled([seen], num_clients=SIZE[0], group_size=SIZE[1], alpha=alpha, options=options)
        if not result.abstained[0]:
            yield seen, int(result.labels[0]), int(result.levels[0])


def true_levels(true_counts, num_groups, trusted):
    """For each label the largest m for which it wins in the weakest ensemble with these counts; -1 if it never does."""
    weights = weights_of(trusted.labels[0], trusted.votes * TOTAL)

    def wins(label, turned):
        after = [num_groups * min(votes + turned, TOTAL) + weights[other] for other, votes in enumerate(true_counts)]
        mine = num_groups * max(true_counts[label] - turned, 0) + weights[label]
        return all(mine > votes for other, votes in enumerate(after) if other != label)

    turned = [TOTAL - comb(SIZE[0] - m, SIZE[1]) for m in range(SIZE[0] + 1)]
    return [max((m for m, some in enumerate(turned) if wins(label, some)), default=-1) for label in range(LABELS)]


def chance(seen, true_counts, distinct):
    """The probability of an outcome, up to a factor that is the same for all of them."""
    pairs = list(zip(true_counts, seen, strict=True))
    if distinct:
        return prod(comb(marked, drawn) for marked, drawn in pairs)
    return factorial(sum(seen)) // prod(map(factorial, seen)) * prod(marked**drawn for marked, drawn in pairs)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("tails", ["one", "both", "best"])
def test_the_failure_probability_is_kept_for_every_ensemble(tails, distinct):
    """By enumeration of all draws of N of fifteen groups, for every ensemble."""
    worst = Fraction(0)
    for num_groups, votes, alpha in [(6, 1, 0.6), (6, 3, 0.3), (5, 2, 0.6), (5, 5, 0.3), (4, 3, 0.9), (3, 4, 0.05)]:
        trusted = Trusted(np.array([1]), votes)
        claimed = list(claims(num_groups, trusted, alpha, tails, distinct))
        assert claimed
        draws = comb(TOTAL, num_groups) if distinct else TOTAL**num_groups
        for true_counts in all_counts(TOTAL):
            truth = true_levels(true_counts, num_groups, trusted)
            wrong = sum(chance(seen, true_counts, distinct) for seen, label, level in claimed if truth[label] < level)
            assert Fraction(wrong, draws) <= Fraction(str(alpha)), (num_groups, votes, true_counts)
            worst = max(worst, Fraction(wrong, draws) / Fraction(str(alpha)))
    assert worst > 0.05  # the claims are not timid


def test_too_few_votes_for_the_selection_correction_certify_nothing():
    """The bound of one vote in two is 0.29, above s = 1/4; the correction needs 1 + s votes."""
    size = {"num_clients": 6, "group_size": 2, "alpha": 0.99}
    assert clopper_pearson(1, 2, Fraction(99, 200)) > Fraction(1, 4)
    for votes, nothing in ([1, 1], True), ([2, 0], False):
        options = SampledOptions(trusted=Trusted(np.array([0]), 1))
        assert certify.sampled([votes], **size, options=options).abstained[0] == nothing


def test_both_tails_grant_what_theorem_1_grants_for_the_bounds():
    n, k, trials = 12, 3, 40
    total, share = comb(n, k), Fraction(1, 10) / (2 * LABELS)
    rng = np.random.default_rng(0)
    levels = set()
    for round_ in range(60):
        counts, votes = rng.multinomial(trials, rng.dirichlet([3, 1, 1])).tolist(), int(rng.integers(1, 45))
        label = round_ % LABELS
        weights = weights_of(label, Fraction(votes * total, trials))
        options = SampledOptions(tails="both", trusted=Trusted(np.array([label]), votes))
        result = certify.sampled([counts], num_clients=n, group_size=k, alpha=0.1, options=options)
        mine = elected(tuple(counts), label, votes)
        least = ceil(clopper_pearson(counts[mine], trials, share) * total)

        def stays(m, mine=mine, least=least, counts=counts, weights=weights):
            turned = total - comb(n - m, k)
            for other in set(range(LABELS)) - {mine}:
                high = (1 - clopper_pearson(trials - counts[other], trials, share)) * total
                most = min(high.numerator // high.denominator, total - least)
                if max(least - turned, 0) + weights[mine] <= min(most + turned, total) + weights[other]:
                    return False
            return True

        granted = max((m for m in range(n + 1) if stays(m)), default=-1)
        assert (result.labels[0], -1 if result.abstained[0] else result.levels[0]) == (mine, granted)
        levels.add(granted)
    assert {-1, n} < levels


def test_a_draw_of_all_groups_is_certain():
    counts, ours = [[9, 4, 2], [5, 5, 5], [3, 9, 3]], Trusted(np.array([0, 1, 2]), 7)
    drawn = certify.sampled(
        counts, num_clients=6, group_size=2, options=SampledOptions(distinct=True, tails="best", trusted=ours)
    )
    assert same(drawn, certify.enumerated(counts, num_clients=6, group_size=2, trusted=ours))


@pytest.mark.parametrize("tails", ["one", "both", "best"])
def test_more_trusted_votes_than_groups_cannot_be_outvoted(tails):
    options = SampledOptions(500, tails, trusted=Trusted(np.array([1, 1]), 501))
    result = certify.sampled([[480, 0], [0, 490]], num_clients=1000, group_size=2, options=options)
    assert result.labels.tolist() == [1, 1]
    assert result.levels.tolist() == [1000, 1000]


@pytest.mark.parametrize("name", FAMILIES)
def test_overlapping_levels_hold_against_every_attack(name):
    groups, num_clients = tuple(map(tuple, FAMILIES[name][0])), FAMILIES[name][1]
    cases, exact = columns(groups, range(LABELS)), []
    for trusted in SEVERAL[1:]:
        exact += checked(certify.Overlapping(num_clients=num_clients, trusted=trusted), groups, cases)
    assert all(exact)


@pytest.mark.parametrize("trusted", [1, 3, 6])
def test_overlapping_charges_failed_groups(trusted):
    groups, num_clients = FAMILIES["pairs"]
    cases = columns(groups)
    result = certify.Overlapping(num_clients=num_clients, trusted=trusted).certify(evidence_of(cases, groups))
    for row in np.flatnonzero(~result.abstained):
        votes, label = cases[row]
        failed = {number for number, vote in enumerate(votes) if vote < 0}
        for hit in hits(groups, num_clients, int(result.levels[row])):
            counts = reachable(votes, tuple(sorted({*hit, *failed})))
            assert all(elected(one, label, trusted) == result.labels[row] for one in counts)


def test_overlapping_is_the_exact_level_for_disjoint_groups():
    rng = np.random.default_rng(0)
    groups = [[2 * number, 2 * number + 1] for number in range(30)]
    votes = np.where(rng.random((30, 300)) < rng.random(300), 1, rng.integers(0, 4, (30, 300)))
    evidence = Evidence.of_votes(votes, 5, groups, trusted=rng.integers(0, 5, 300))
    for trusted in (0, 5, 20, 29, 30, 31, 70):
        kinds = (kind(num_clients=60, trusted=trusted) for kind in (certify.Overlapping, certify.Disjoint))
        assert same(*(kind.certify(evidence) for kind in kinds))


@pytest.mark.parametrize("seed", range(8))
def test_no_set_of_groups_breaks_more_inputs_than_the_collective_certificate_says(seed):
    rng = np.random.default_rng(seed)
    groups, inputs = 4, 10
    truth = rng.integers(0, LABELS, inputs)
    votes = np.where(rng.random((groups, inputs)) < 0.6, truth, rng.integers(-1, LABELS, (groups, inputs)))
    labels = np.where(rng.random(inputs) < 0.7, truth, rng.integers(0, LABELS, inputs))
    members = [[number] for number in range(groups)]
    evidence = Evidence.of_votes(votes, LABELS, members, trusted=labels)
    for trusted in (1, 2, 4, 5, 9):
        own = certify.Disjoint(num_clients=groups, trusted=trusted).certify(evidence)
        kind = certify.Collective(num_clients=groups, trusted=trusted)
        proved = kind.figures(evidence, truth, range(groups + 3), lambda *_: None).inputs
        for m in range(groups + 3):
            worst = min(
                sum(
                    all(elected(counts, labels[i], trusted) == truth[i] for counts in reachable(column, hit))
                    for i, column in enumerate(map(tuple, votes.T.tolist()))
                )
                for hit in combinations(range(groups), min(m, groups))
            )
            assert ((own.labels == truth) & (own.levels >= min(m, groups))).sum() <= proved[m] <= worst
