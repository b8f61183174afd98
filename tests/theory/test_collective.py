"""The collective certificate against every attack on small cases."""

import sys
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

from flcert import certify, voting
from flcert.certify import Evidence, Trusted
from flcert.certify.branching import most_broken
from flcert.certify.collective import WholeTestSet
from flcert.certify.relaxation import SCALE, dual_bound, relaxed_bound
from flcert.certify.threats import Threats
from flcert.errors import InputError

LABELS = 3
HOME = sys.modules[WholeTestSet.__module__]


def winner(votes, trusted):
    """The label with the most votes, T of them for the label t of a trusted model."""
    chosen, extra = trusted
    return max(range(LABELS), key=lambda label: (votes.count(label) + extra * (label == chosen), -label))


def stays(votes, true, free, trusted=(0, 0)):
    """Whether an input keeps its right label, whatever these groups vote."""
    for forged in product(range(-1, LABELS), repeat=len(free)):
        changed = list(votes)
        for group, vote in zip(free, forged, strict=True):
            changed[group] = vote
        if winner(changed, trusted) != true:
            return False
    return True


def worst_case(votes, truth, num_malicious, *, failed=(), with_clients=None, trusted=None):
    """How many inputs stay right under the worst attack, whatever the failed groups would have voted."""
    attackable = range(len(votes)) if with_clients is None else with_clients
    fixed = [(0, 0)] * len(truth) if trusted is None else [(label, trusted.votes) for label in trusted.labels.tolist()]
    cases = list(zip(votes.T.tolist(), truth.tolist(), fixed, strict=True))
    return min(
        sum(stays(column, true, sorted({*hit, *failed}), extra) for column, true, extra in cases)
        for hit in combinations(attackable, min(num_malicious, len(attackable)))
    )


def drawn(rng, groups, inputs, share=0.75):
    truth = rng.integers(0, LABELS, inputs)
    return np.where(rng.random((groups, inputs)) < share, truth, rng.integers(0, LABELS, (groups, inputs))), truth


@pytest.mark.parametrize("seed", range(25))
def test_it_is_what_the_worst_attack_leaves(seed):
    votes, truth = drawn(np.random.default_rng(seed), 5, 12)
    counts = voting.count(votes, LABELS)
    curve = certify.certified_accuracy(certify.disjoint(counts), truth)
    for m in range(7):
        found = WholeTestSet(counts, votes, truth).kept(m)
        assert found.exact
        assert found.inputs == worst_case(votes, truth, m)
        assert found.inputs >= (round(curve[m] * len(truth)) if m < len(curve) else 0)


@pytest.mark.parametrize("seed", range(25))
def test_it_is_exact_with_failed_and_empty_groups_and_trusted_votes(seed):
    rng = np.random.default_rng(seed)
    votes, truth = drawn(rng, 5, 6, 0.9)
    failed, empty = [0] * (seed % 3 > 0), [1] * (seed % 2)
    votes[[*failed, *empty]] = -1
    some = rng.random(votes.shape) < 0.05
    some[2] = False  # somebody votes on each input
    votes[some] = -1
    with_clients = [group for group in range(5) if group not in empty]
    trusted = Trusted(np.where(rng.random(6) < 0.7, truth, rng.integers(0, LABELS, 6)), int(rng.integers(0, 5)))
    numbers = {"num_failed": len(failed), "trusted": trusted, "num_groups": len(with_clients)}
    for m in range(6):
        found = WholeTestSet(voting.count(votes, LABELS), votes, truth, **numbers).kept(m)
        worst = worst_case(votes, truth, m, failed=failed, with_clients=with_clients, trusted=trusted)
        assert found == (worst, True)


def test_silent_groups_that_may_have_clients_can_be_attacked():
    votes = np.array([[0, 0], [0, 0], [1, 1], [-1, -1]])
    counts, truth = voting.count(votes, LABELS), np.array([0, 0])
    ask = partial(certify.collective, counts, votes, truth, trusted=Trusted(truth, 3))
    assert ask(4, num_groups=3) == ask(4, num_groups=4, num_failed=0) + 2 == 2
    assert ask(2, num_groups=4) == 2
    assert ask(3, num_groups=4) == 0


def test_it_beats_certified_accuracy_where_inputs_lean_on_different_groups():
    """Each input is won by its own few groups, so an attacker cannot be at all of them at once."""
    groups, inputs = 30, 60
    rng = np.random.default_rng(0)
    votes = np.full((groups, inputs), -1)
    for column in range(inputs):
        votes[rng.choice(groups, 4, replace=False), column] = 0
    counts = voting.count(votes, 2)
    truth = np.zeros(inputs, dtype=int)
    assert certify.certified_accuracy(certify.disjoint(counts), truth)[2] == 1
    assert certify.collective(counts, votes, truth, 3) > 10  # each input alone withstands 2


def some_threats(rng, groups, inputs):
    owners = np.sort(rng.integers(0, inputs, 2 * inputs))
    return Threats(rng.integers(0, 3, (groups, 2 * inputs)), rng.integers(0, 7, 2 * inputs), owners)


def worst_of(threats, num_malicious):
    sets = combinations(range(len(threats.reach)), min(num_malicious, len(threats.reach)))
    broken = [threats.reach[list(hit)].sum(axis=0) > threats.gaps for hit in sets]
    return max(len(set(threats.owners[one].tolist())) for one in broken)


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_the_most_that_can_be_broken_and_one_cut_off_tells_no_less(seed):
    rng = np.random.default_rng(seed)
    threats = some_threats(rng, int(rng.integers(2, 9)), int(rng.integers(1, 12)))
    cut_off = 0
    for m in range(len(threats.reach) + 2):
        worst = worst_of(threats, m)
        assert most_broken(threats, m) == (worst, True)
        for effort in (0, 2**10, 2**15, 2**16, 2**17):
            most, exact = most_broken(threats, m, effort)
            assert most == worst if exact else most >= worst
            cut_off += not exact
        assert worst <= relaxed_bound(threats, m) <= len(threats.starts)
    assert cut_off > 0


def test_any_multipliers_give_a_sound_bound():
    rng = np.random.default_rng(1)
    for _ in range(10):
        threats = some_threats(rng, 6, 9)
        inputs, worst = len(threats.starts), worst_of(threats, 2)
        for _ in range(30):
            assert dual_bound(rng.integers(-SCALE, 4 * SCALE, inputs), threats, 2) >= worst
        assert dual_bound(np.zeros(inputs, dtype=np.int64), threats, 2) == inputs


def test_the_relaxation_is_used_where_a_search_would_be_too_long(monkeypatch):
    votes, truth = drawn(np.random.default_rng(3), 9, 40)
    counts = voting.count(votes, LABELS)
    exact = [certify.collective(counts, votes, truth, m) for m in range(5)]
    monkeypatch.setattr(HOME, "most_broken", partial(most_broken, effort=0))
    own = certify.certified_accuracy(certify.disjoint(counts), truth)
    bounds = [WholeTestSet(counts, votes, truth).kept(m) for m in range(5)]
    assert [one.exact for one in bounds] == [True, False, False, False, False]
    for m, (bound, best) in enumerate(zip(bounds, exact, strict=True)):
        assert round(own[m] * 40 if m < len(own) else 0) <= bound.inputs <= best
    assert any(bound.inputs > round(own[m] * 40) for m, bound in enumerate(bounds[: len(own)]))


def test_the_figures_tell_where_they_are_exact(monkeypatch):
    votes, truth = drawn(np.random.default_rng(3), 9, 40)
    evidence = Evidence.of_votes(votes, LABELS)
    exactly = certify.Collective().figures(evidence, truth, [0, 1, 2], lambda *_: None)
    assert exactly.note.startswith("The whole-test-set figure is exact at m = 0, 1 and 2: ")
    assert "lower bound" not in exactly.note
    monkeypatch.setattr(HOME, "most_broken", partial(most_broken, effort=0))
    partly = certify.Collective().figures(evidence, truth, [0, 1, 2], lambda *_: None)
    assert partly.note.startswith("The whole-test-set figure is exact at m = 0: ")
    assert "It is a lower bound at m = 1 and 2, " in partly.note
    bound = certify.Collective().figures(evidence, truth, [2], lambda *_: None)
    assert bound.note.startswith("The whole-test-set figure is a lower bound at m = 2, ")
    assert "exact" not in bound.note


def test_failed_groups_and_abstentions_are_charged():
    counts, votes = np.array([[3, 2], [5, 0]]), np.array([[0, 0], [0, 0], [0, 0], [1, 0], [1, 0]])
    assert certify.collective(counts, votes, [0, 0], 0, num_failed=2) == 1
    assert certify.collective(counts, votes, [0, 0], 1, num_failed=2) == 1


def test_bad_input_is_named():
    with pytest.raises(InputError, match="do not fit together"):
        certify.collective([[1, 0]], [[0, 0]], [0], 1)
    with pytest.raises(InputError, match=r"num_malicious must be in \[0"):
        certify.collective([[1, 0]], [[0]], [0], -1)


def test_groups_that_are_silent_can_be_attacked_if_they_have_a_model_and_no_more_of_them():
    votes, counts, trusted = np.array([[1], [-1], [-1]]), np.array([[0, 1]]), Trusted(np.array([0]), 3)
    level = certify.disjoint(counts, num_failed=1, trusted=trusted, num_groups=3, num_clients=3).levels[0]
    whole = WholeTestSet(counts, votes, np.array([0]), num_failed=1, trusted=trusted, num_groups=3)
    assert [whole.kept(m).inputs for m in range(4)] == [int(m <= level) for m in range(4)]
    assert all(whole.kept(m).exact for m in range(4))


def test_the_kind_knows_from_the_groups_who_can_be_attacked():
    """Two groups never vote. Both have clients in the one case, and one is empty in the other."""
    votes, truth = np.array([[1], [-1], [-1]]), np.array([0])
    for members, kept in (([[0], [1], [2]], [1, 1, 0, 0]), ([[0], [1], []], [1, 1, 1, 1])):
        evidence = Evidence.of_votes(votes, 2, members, trusted=[0])
        figures = certify.Collective(num_clients=3, trusted=2).figures(evidence, truth, range(4), lambda *_: None)
        assert list(figures.inputs.values()) == kept
