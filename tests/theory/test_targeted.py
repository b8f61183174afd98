"""Label-targeted levels against every attack on small cases: no m clients can make a given label win."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from flcert import certify, grouping, voting
from flcert.certify import KINDS, CertificateSettings, Evidence, Trusted
from flcert.certify.draw import Draw
from flcert.certify.targeted import groups_to_close, groups_to_elect
from flcert.certify.targeted_drawn import drawn_targets
from flcert.errors import InputError
from tests.theory.test_enumerated import counts_of, groups_of
from tests.theory.test_family import FITS, GROUPINGS, IDS, evidence_of, votes_of
from tests.theory.test_overlapping import FAMILIES
from tests.theory.test_sparse import TABLES
from tests.theory.test_trusted import DISJOINT, LABELS, SEVERAL, columns, elected, hits, outcomes, reachable
from tests.theory.test_trusted import evidence_of as trusted_evidence


def wins(votes, target, ties):
    """Whether the target may win: ties go to the smaller label, or are drawn."""
    return all(
        votes[target] > other or (votes[target] == other and (ties == "random" or target < label))
        for label, other in enumerate(votes)
        if label != target
    )


@cache
def turned_by_trying(counts, target, silent, trusted, num_failed, ties):
    """The fewest groups that must turn, by trying how many come from each label and from those that cast no vote."""
    label, more = trusted
    best = None
    for taken in product(*(range(number + 1) for number in counts), range(silent + 1)):
        total = sum(taken)
        if taken[target] or (best is not None and total >= best):
            continue
        after = [number - lost for number, lost in zip(counts, taken, strict=False)]
        after[target] += total + num_failed
        after[label] += more
        if wins(after, target, ties):
            best = total
    return best


@pytest.mark.parametrize("ties", ["smallest", "random"])
def test_the_groups_that_a_label_needs_are_found_by_trying(ties):
    """Four labels, groups that cast no vote, failed groups, trusted votes on every side."""
    tables = list(product(range(4), repeat=4))
    for silent, num_failed, more in product((0, 1), (0, 1), (0, 1, 3, 6)):
        for label, target in product((0, 2), range(4)):
            total = np.array([sum(counts) + silent for counts in tables])
            trusted = Trusted(np.full(len(tables), label), more)
            found = groups_to_elect(
                np.array(tables), target, trusted, ties=ties, num_failed=num_failed, total=total
            ).tolist()
            for counts, all_of_them, needed in zip(tables, total.tolist(), found, strict=True):
                least = turned_by_trying(counts, target, silent, (label, more), num_failed, ties)
                assert needed == (all_of_them + 1 if least is None else least), (counts, target, label, more)


def test_the_closed_form_is_the_smallest_number_that_closes_all_gaps():
    for gaps in product(range(-1, 7), repeat=3):
        least = next(m for m in range(30) if sum(max(0, gap - m) for gap in gaps) <= m)
        assert groups_to_close(gaps) == least


def exact_level(can_win, num_clients):
    """The largest m for which the target cannot win, -1 if there is none."""
    return next((m for m in range(num_clients + 1) if can_win(m)), num_clients + 1) - 1


@pytest.mark.parametrize("name", DISJOINT)
@pytest.mark.parametrize("trusted", SEVERAL)
def test_disjoint_levels_are_the_largest_that_no_attack_breaks(name, trusted):
    groups, num_clients = DISJOINT[name]
    guarantee = certify.Disjoint(num_clients=num_clients, num_groups=len(groups), trusted=trusted)
    cases = columns(groups)
    evidence = trusted_evidence(cases, groups)
    for target in range(LABELS):
        for (votes, label), level in zip(cases, guarantee.target_levels(evidence, target).tolist(), strict=True):

            def can_win(m, votes=votes, label=label, target=target):
                found = outcomes(votes, groups, num_clients, m)
                return any(elected(one, label, trusted) == target for one in found)

            level_by_trying = exact_level(can_win, num_clients)
            assert level == min(level_by_trying, num_clients), (votes, label, target)


@pytest.mark.parametrize("num_failed", [1, 2])
def test_what_failed_groups_would_have_voted_cannot_elect_the_target(num_failed):
    groups = tuple((number,) for number in range(3 + num_failed))
    failed = range(3, 3 + num_failed)
    for trusted, target in product((0, 1, 2, 4, 7), range(LABELS)):
        cases = [((*votes, *[-1] * num_failed), label) for votes, label in columns(groups[:3])]
        guarantee = certify.Disjoint(num_clients=len(groups), num_failed=num_failed, trusted=trusted)
        levels = guarantee.target_levels(trusted_evidence(cases, groups), target).tolist()
        for (votes, label), level in zip(cases, levels, strict=True):

            def can_win(m, votes=votes, label=label, target=target, trusted=trusted):
                free = {tuple(sorted({*hit, *failed})) for hit in hits(groups, len(groups), m)}
                return any(elected(one, label, trusted) == target for hit in free for one in reachable(votes, hit))

            assert level == min(exact_level(can_win, len(groups)), len(groups)), (votes, label, target)


@pytest.mark.parametrize("trusted", [0, 4, 40])
def test_the_weakest_target_is_the_level_of_theorem_4(trusted):
    """A label changes if and only if it becomes another."""
    rng = np.random.default_rng(trusted)
    votes = rng.choice(6, size=(25, 300), p=[0.4, 0.3, 0.1, 0.1, 0.1, 0])
    evidence = Evidence.of_votes(votes, 6, trusted=rng.integers(0, 6, 300))
    for failed in (0, 1, 3):
        guarantee = certify.Disjoint(num_clients=60, num_failed=failed, trusted=trusted)
        plain = guarantee.certify(evidence)
        levels = np.array([guarantee.target_levels(evidence, target) for target in range(6)])
        rivals = np.where(np.arange(6)[:, None] == plain.labels, 10**6, levels)
        assert np.array_equal(rivals.min(axis=0), np.where(plain.abstained, -1, plain.levels))
        assert (np.take_along_axis(levels, plain.labels[None], axis=0) == -1).all()


def test_two_strong_rivals_protect_an_input_better_than_each_of_them_does():
    guarantee = certify.Disjoint()
    evidence = Evidence(np.array([[10, 10, 0, 0], [10, 0, 0, 0], [10, 10, 10, 0]]))
    assert guarantee.certify(evidence).levels.tolist() == [0, 5, 0]
    assert guarantee.target_levels(evidence, 3).tolist() == [7, 5, 8]  # (11 + 11) / 3, 11 / 2, 33 / 4, rounded up, - 1


@pytest.mark.parametrize(("clients", "size", "labels"), [(3, 2, 3), (4, 2, 2), (4, 1, 3)])
def test_no_attack_on_all_groups_within_the_level_elects_the_target(clients, size, labels):
    """Every vote of every touched group is tried; among the models of the same counts, one more client turns one."""
    groups = tuple(groups_of(clients, size))
    weakest = defaultdict(list)
    for votes, target in product(product(range(labels), repeat=len(groups)), range(labels)):

        def can_win(m, votes=votes, target=target):
            for hit in hits(groups, clients, m):
                for forged in product(range(labels), repeat=len(hit)):
                    changed = list(votes)
                    for group, vote in zip(hit, forged, strict=True):
                        changed[group] = vote
                    if wins(counts_of(changed, labels), target, "random"):
                        return True
            return False

        weakest[tuple(counts_of(votes, labels)), target].append(exact_level(can_win, clients))
    guarantee = certify.Enumerated(num_clients=clients, group_size=size)
    for (counts, target), levels in weakest.items():
        assert guarantee.target_levels(Evidence(np.array([counts])), target)[0] == min(levels), (counts, target)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("trusted", [0, 1, 3, 9])
def test_overlapping_levels_hold_against_every_attack(name, trusted):
    groups, num_clients = tuple(map(tuple, FAMILIES[name][0])), FAMILIES[name][1]
    cases = columns(groups)
    guarantee, evidence = certify.Overlapping(num_clients=num_clients, trusted=trusted), trusted_evidence(cases, groups)
    plain, exact = guarantee.certify(evidence), []
    for target in range(LABELS):
        levels = guarantee.target_levels(evidence, target)
        assert (levels >= certify.implied_levels(plain, target)).all()
        for (votes, label), level in zip(cases, levels.tolist(), strict=True):
            failed = {number for number, vote in enumerate(votes) if vote < 0 and groups[number]}

            def can_win(m, votes=votes, label=label, target=target, failed=failed):
                free = {tuple(sorted({*hit, *failed})) for hit in hits(groups, num_clients, m)}
                return any(elected(one, label, trusted) == target for hit in free for one in reachable(votes, hit))

            best = min(exact_level(can_win, num_clients), num_clients)
            assert level <= best, (votes, label, target)
            exact.append(level == best)
    assert np.mean(exact) > 0.8  # a sum over clients counts a shared group twice, so it is not always tight


def test_overlapping_is_the_exact_level_for_disjoint_groups():
    rng = np.random.default_rng(0)
    groups = [[2 * number, 2 * number + 1] for number in range(30)]
    votes = np.where(rng.random((30, 700)) < rng.random(700), 1, rng.integers(0, 4, (30, 700)))
    votes[7] = -1
    evidence = Evidence.of_votes(votes, 5, groups, trusted=rng.integers(0, 5, 700))
    for trusted, target in product((0, 5, 29, 31, 70), range(5)):
        sizes = {"num_clients": 60, "trusted": trusted}
        expected = certify.Disjoint(**sizes, num_failed=1).target_levels(evidence, target)
        assert np.array_equal(certify.Overlapping(**sizes).target_levels(evidence, target), expected)


def chances(true_counts, num_groups, distinct):
    """The votes that a draw of groups can bring, and how probable they are."""
    total = sum(true_counts)
    for counts in product(range(num_groups + 1), repeat=len(true_counts)):
        if sum(counts) != num_groups:
            continue
        if distinct:
            ways = prod(comb(number, drawn) for number, drawn in zip(true_counts, counts, strict=True))
            yield counts, Fraction(ways, comb(total, num_groups))
        else:
            orders = factorial(num_groups) // prod(map(factorial, counts))
            ways = prod(number**drawn for number, drawn in zip(true_counts, counts, strict=True))
            yield counts, Fraction(orders * ways, total**num_groups)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("tails", ["one", "both", "best"])
def test_the_failure_probability_covers_all_targets_at_once_and_the_certificate(tails, distinct):
    """Enumerated over all draws of 6 groups, for every ensemble of fifteen; a wrong claim about any label counts."""
    clients, size, labels, told = 6, 2, 3, 0
    for alpha, more in product((0.05, 0.3), (0, 2)):
        for true_counts in ((8, 7, 0), (5, 5, 5), (10, 4, 1), (1, 13, 1), (15, 0, 0), (6, 7, 2)):
            weight = Fraction(more * 15, 6)
            wrong = Fraction(0)
            for counts, chance in chances(true_counts, 6, distinct):
                if not chance:
                    continue
                guarantee = certify.Sampled(
                    num_clients=clients, group_size=size, alpha=alpha, tails=tails, distinct=distinct, trusted=more
                )
                evidence = Evidence(np.array([counts]), trusted=np.array([1]))
                certificate = guarantee.certify(evidence)
                claims = {z: int(guarantee.target_levels(evidence, z)[0]) for z in range(labels)}
                implied = {z: int(certify.implied_levels(certificate, z)[0]) for z in range(labels)}
                assert all(claims[z] >= implied[z] for z in range(labels))
                told += claims != implied
                wrong += chance * any(
                    may_win(true_counts, weight, z, comb(6, 2) - comb(6 - level, 2))
                    for z, level in claims.items()
                    if level >= 0
                )
            assert wrong <= Fraction(str(alpha)), (tails, true_counts, alpha, float(wrong))
    assert (told > 0) == (tails != "one")  # it says more than the certificate does


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("tails", ["both", "best"])
def test_the_bounds_on_targets_share_alpha_among_all_inputs(tails, distinct):
    """A hundred inputs with alpha are each worth one with a hundredth of it; half of it pays for the selection."""
    row, levels = np.array([[30, 12, 8]]), {}
    setting = {"num_clients": 60, "group_size": 2, "tails": tails, "distinct": distinct}
    for inputs, alpha, selection in ((100, 0.1, "safe"), (1, 0.001, "safe"), (1, 0.0005, "paper"), (1, 0.1, "safe")):
        guarantee = certify.Sampled(alpha=alpha, selection=selection, **setting)
        found = guarantee.target_levels(Evidence(np.repeat(row, inputs, axis=0)), 2)
        assert len(set(found.tolist())) == 1
        levels[inputs, alpha] = found[0]
    assert levels[100, 0.1] == levels[1, 0.001] == levels[1, 0.0005] < levels[1, 0.1]


def may_win(true_counts, weight, target, touched):
    """Whether so many groups can be turned so that no label is ahead of the target; trusted votes are for label 1."""
    for taken in product(*(range(number + 1) for number in true_counts)):
        if taken[target] or sum(taken) > touched:
            continue
        after = [Fraction(number - lost) for number, lost in zip(true_counts, taken, strict=True)]
        after[target] += sum(taken)
        after[1] += weight
        if max(after) == after[target]:
            return True
    return False


def drawn_votes(num_groups, num_inputs=4):
    """Votes of drawn groups, most of them for the first of three labels."""
    return np.random.default_rng(1).multinomial(num_groups, [0.75, 0.2, 0.05], num_inputs)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("tails", ["one", "both", "best"])
def test_safe_selection_is_that_of_the_paper_with_half_the_alpha_for_targets_too(tails, distinct):
    numbers = {"num_clients": 1000, "group_size": 2, "tails": tails, "distinct": distinct}
    safe = certify.Sampled(**numbers, alpha=0.01)
    half, whole = (certify.Sampled(**numbers, alpha=alpha, selection="paper") for alpha in (0.005, 0.01))
    evidence = Evidence(drawn_votes(60))
    assert np.array_equal(safe.certify(evidence).levels, half.certify(evidence).levels)
    assert not np.array_equal(safe.certify(evidence).levels, whole.certify(evidence).levels)
    for target in (1, 2):
        levels = safe.target_levels(evidence, target)
        assert np.array_equal(levels, half.target_levels(evidence, target))
        assert not np.array_equal(levels, whole.target_levels(evidence, target))


@pytest.mark.parametrize("distinct", [False, True])
def test_the_best_tails_are_the_better_of_the_two_with_half_the_alpha_each(distinct):
    numbers = {"num_clients": 1000, "group_size": 2, "distinct": distinct}
    best = certify.Sampled(**numbers, alpha=0.01, tails="best")
    one, both = (certify.Sampled(**numbers, alpha=0.005, tails=tails) for tails in ("one", "both"))
    evidence = Evidence(drawn_votes(60))
    for target in range(3):
        expected = np.maximum(one.target_levels(evidence, target), both.target_levels(evidence, target))
        assert np.array_equal(best.target_levels(evidence, target), expected)


@pytest.mark.parametrize("distinct", [False, True])
def test_what_failed_groups_of_a_draw_would_have_voted_cannot_elect_the_target(distinct):
    counts, failed = drawn_votes(60), 4
    numbers = {"num_clients": 1000, "group_size": 2, "tails": "both", "distinct": distinct}
    for target in range(3):
        found = certify.Sampled(**numbers, num_failed=failed).target_levels(Evidence(counts), target)
        for label in range(3):
            voted = counts.copy()
            voted[:, label] += failed
            assert (found <= certify.Sampled(**numbers).target_levels(Evidence(voted), target)).all()
        assert (found > 0).any() == (target > 0)


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_level_of_a_draw_is_that_of_the_weakest_ensemble_within_the_bounds(more, distinct):
    """Every ensemble of fifteen groups within the bounds is tried."""
    draw, alpha, exact = Draw(6, 2, 9, distinct), Fraction(1, 60), []
    for counts in product(range(10), repeat=3):
        if sum(counts) not in (8, 9):
            continue
        missing = 9 - sum(counts)
        trusted = Trusted(np.array([0]), more)
        for target in range(3):
            level = int(drawn_targets(np.array([counts]), target, draw, alpha=alpha, trusted=trusted)[0])
            low = [draw.at_least(number, alpha) for number in counts]
            high = draw.at_most(counts[target] + missing, alpha)
            if distinct:
                low, high = np.maximum(low, counts).tolist(), min(high, counts[target] + missing + 6)
            turned = []
            for first, second in product(range(16), repeat=2):
                ensemble = (first, second, 15 - first - second)
                if min(ensemble) < 0 or ensemble[target] > high:
                    continue
                if all(ensemble[one] >= low[one] for one in range(3) if one != target):
                    turned.append(least_turned(ensemble, Fraction(more * 15, 9), target))
            if turned:
                exact.append(level == draw.level(min(turned)))
                assert level <= draw.level(min(turned)), (counts, target)
    assert np.mean(exact) > 0.9


@cache
def least_turned(ensemble, weight, target):
    """The fewest groups before no label is ahead of the target; trusted votes are for label 0."""
    best = sum(ensemble) + 1
    for taken in product(*(range(number + 1) for number in ensemble)):
        after = [Fraction(number - lost) for number, lost in zip(ensemble, taken, strict=True)]
        after[target] += sum(taken)
        after[0] += weight
        if not taken[target] and max(after) == after[target]:
            best = min(best, sum(taken))
    return best


@pytest.mark.parametrize("tails", ["one", "both", "best"])
@pytest.mark.parametrize("trusted", [0, 7, 14, 16])
def test_a_draw_of_all_groups_is_certain(tails, trusted):
    counts = np.array([[9, 4, 2], [5, 5, 5], [3, 9, 3], [15, 0, 0], [7, 7, 1], [8, 7, 0]])
    evidence, size = Evidence(counts, trusted=np.array([0, 1, 2, 0, 2, 2])), {"num_clients": 6, "group_size": 2}
    drawn = certify.Sampled(**size, distinct=True, tails=tails, trusted=trusted)
    exact = certify.Enumerated(**size, trusted=trusted)
    for target in range(3):
        assert np.array_equal(drawn.target_levels(evidence, target), exact.target_levels(evidence, target))


def test_huge_numbers_of_groups_stay_exact():
    evidence = Evidence(np.array([[250, 240, 10], [495, 5, 0], [5, 5, 490]]))
    guarantee = certify.Sampled(num_clients=80_000, group_size=160, tails="both")
    levels = guarantee.target_levels(evidence, 2)
    assert levels[0] > guarantee.certify(evidence).levels[0]
    assert levels[1] >= guarantee.certify(evidence).levels[1] > 100
    assert levels[2] == -1


@given(TABLES, st.integers(0, 1), st.integers(0, 5))
def test_sparse_counts_give_the_levels_of_dense_ones(counts, failed, trusted):
    labels = np.arange(len(counts)) % counts.shape[1]
    guarantee = certify.Disjoint(num_failed=failed, trusted=trusted, num_groups=40)
    for target in range(counts.shape[1]):
        dense, sparse = (
            guarantee.target_levels(Evidence(table, trusted=labels), target) for table in (counts, csr_array(counts))
        )
        assert np.array_equal(dense, sparse)


def test_thousands_of_labels_need_no_dense_table():
    votes = np.random.default_rng(0).zipf(1.3, size=(60, 2000)) % 50_000
    counts = voting.count(votes, 50_000)
    assert isinstance(counts, csr_array)
    guarantee = certify.Disjoint()
    for target in (0, 1, 7, 49_999):
        levels = guarantee.target_levels(Evidence(counts), target)
        narrow = guarantee.target_levels(Evidence.of_votes(votes[:, :50], 50_000), target)
        assert np.array_equal(levels[:50], narrow)


def test_the_bound_counts_inputs_of_other_labels_that_m_clients_may_reach():
    rng = np.random.default_rng(0)
    levels, truth = rng.integers(-1, 6, 200), rng.integers(0, 4, 200)
    for target in range(4):
        curve = certify.targeted_success(levels, truth, target)
        others = levels[truth != target]
        assert curve.tolist() == [float((others < m).mean()) for m in range(7)]
        assert curve[-1] == 1
    assert certify.targeted_success(np.array([3, 3]), [1, 1], 1).tolist() == [0] * 5  # nothing to turn
    assert certify.targeted_success(np.array([0, 3]), [0, 1], 1).tolist() == [0, 1, 1, 1, 1]  # a single input
    with pytest.raises(InputError, match=r"one label for each of 200 inputs, got shape \(3,\)"):
        certify.targeted_success(levels, [1, 2, 3], 0)


def test_beyond_its_end_the_bound_says_nothing():
    levels, truth = np.array([2, 0, -1]), np.zeros(3, dtype=int)
    bound = certify.targeted_success(levels, truth, 1)
    for m in range(6):
        assert certify.success_at(bound, m) == (levels < m).mean()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_tells_target_levels_that_are_never_below_its_own_or_says_that_it_cannot(name):
    groups = GROUPINGS[next(kind for kind in GROUPINGS if kind in FITS[name])].build(IDS)
    evidence = evidence_of(groups, votes_of(groups))
    guarantee = CertificateSettings().of(name, groups)
    found = [guarantee.target_levels(evidence, target) for target in range(3)]
    if name in ("runoff", "collective"):
        assert found == [None] * 3
        return
    certificate = guarantee.certify(evidence)
    for target, levels in enumerate(found):
        assert (levels >= certify.implied_levels(certificate, target)).all()
        assert (levels[guarantee.predict(evidence) == target] == -1).all()
    for wrong in (-1, 3):
        with pytest.raises(InputError, match=rf"target must be in \[0, 2\], got {wrong}"):
            guarantee.target_levels(evidence, wrong)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_proves_about_a_target_and_no_more_than_that(name):
    guarantee = KINDS[name](kind=name, num_clients=50)
    said = guarantee.target_sentence("seven", 3, 2, 10)
    assert "any 3 of the 50 clients do" in said
    assert "at most 2 of the 10 inputs (20.0%) whose true label is another get the label seven." in said
    assert ("except with probability 0.001" in said.lower()) == guarantee.probabilistic
    assert ("all possible groups" in said) == guarantee.probabilistic
    assert "any one of the 50 clients does" in guarantee.target_sentence("seven", 1, 2, 10)
    assert guarantee.target_sentence("seven", 0, 2, 10).startswith(
        "Nothing is proved by this certificate against malicious clients"
    )


def test_groups_that_nobody_is_in_cannot_be_turned():
    """Two of five groups are empty; the trusted model stands against all three others for label 1."""
    groups = grouping.Grouping("hashed", 3, tuple(np.array(one, dtype=np.int64) for one in ([0], [], [1], [], [2])))
    votes = np.array([[0], [-1], [0], [-1], [0]])
    evidence = Evidence.of_votes(votes, 2, groups.members, trusted=[0])
    for trusted, level in ((2, 2), (3, 3)):  # three votes beat two; against three they lose the tie
        guarantee = CertificateSettings().of("disjoint", groups, trusted=trusted)
        assert guarantee.target_levels(evidence, 1).tolist() == [level]
