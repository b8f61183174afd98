"""What holds for every kind of certificate, and which groups each of them is for."""

import numpy as np
import pytest

from flcert import certify, grouping
from flcert.certify import KINDS, CertificateSettings, Evidence
from flcert.certify.disjoint import share_no_client
from flcert.errors import InputError
from flcert.grouping import Grouping

IDS = [f"user-{number}" for number in range(6)]
GROUPINGS = {
    "hashed": grouping.Hashed(num_groups=4),
    "balanced": grouping.Balanced(num_groups=4),
    "sampled": grouping.Sampled(num_groups=15, group_size=2, distinct=True),
    "enumerated": grouping.Enumerated(group_size=2),
    "finite-aggregation": grouping.FiniteAggregation(num_groups=4),
}
FITS = {
    "disjoint": {"hashed", "balanced"},
    "runoff": set(GROUPINGS),
    "collective": {"hashed", "balanced"},
    "sampled": {"sampled"},
    "enumerated": {"enumerated"},
    "overlapping": set(GROUPINGS),
}
LABELS, INPUTS = 3, 40


def votes_of(groups, seed=0):
    return np.random.default_rng(seed).choice(LABELS, size=(len(groups), INPUTS), p=(0.8, 0.1, 0.1)).astype(np.int32)


def evidence_of(groups, votes):
    places = []
    for row in votes:
        table = np.stack([np.roll(np.arange(LABELS), label) for label in row])
        places.append(table)
    return Evidence.of_votes(votes, LABELS, groups.members, certify.count_ranks(places, groups.members))


def test_every_kind_and_every_grouping_has_a_row_here():
    assert set(FITS) == set(KINDS)
    assert set(GROUPINGS) == set(grouping.KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_certificate_is_given_to_the_groups_that_it_holds_for_and_to_no_others(name):
    for kind, settings in GROUPINGS.items():
        groups = settings.build(IDS)
        if kind in FITS[name]:
            assert CertificateSettings().of(name, groups).num_groups == len(groups)
        else:
            with pytest.raises(
                InputError, match=f"certificate '{name}' is for {KINDS[name].suits}, got groups of kind"
            ):
                CertificateSettings().of(name, groups)


@pytest.mark.parametrize("kind", GROUPINGS)
def test_each_grouping_gets_a_certificate_that_fits_it_and_is_restored_as_it_was(kind):
    settings = GROUPINGS[kind]
    groups = settings.build(IDS)
    assert kind in FITS[settings.certificate]
    restored = settings.restored(groups.num_clients, groups.members)
    for name in ("kind", "num_clients", "group_size", "drawn", "distinct"):
        assert getattr(restored, name) == getattr(groups, name), name


def test_groups_that_happen_to_share_no_client_are_still_drawn():
    """The certificate of a draw must not depend on how it came out."""
    alone = grouping.sampled(IDS, 3, 1, seed=1, distinct=True)
    assert len({int(group[0]) for group in alone.members}) == 3
    assert not share_no_client(alone)


def test_all_groups_means_each_of_them_once():
    groups = grouping.enumerated(IDS, 2)
    assert certify.Enumerated.fits(groups)
    twice = Grouping("enumerated", 6, (groups.members[0], *groups.members[:-1]), 2)
    assert not certify.Enumerated.fits(twice)
    assert not certify.Enumerated.fits(Grouping("enumerated", 6, groups.members[:-1], 2))
    assert not certify.Enumerated.fits(Grouping("enumerated", 6, groups.members, 2, drawn=True))
    nested = tuple(range(size + 1) for size in range(6))
    assert not certify.Enumerated.fits(Grouping("enumerated", 6, nested, 1))
    assert not certify.Sampled.fits(Grouping("sampled", 6, nested, 1, drawn=True))


FUNCTIONS = {
    "disjoint": lambda _, evidence, failed: certify.disjoint(evidence.counts, num_failed=failed),
    "runoff": lambda _, evidence, failed: certify.runoff(evidence.ranks, num_failed=failed),
    "enumerated": lambda _, evidence, failed: certify.enumerated(
        evidence.counts, num_clients=6, group_size=2, num_failed=failed
    ),
    "overlapping": lambda groups, evidence, _: certify.overlapping(evidence.votes, groups.members, num_clients=6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("failed", [0, 1])
def test_a_kind_computes_what_its_function_does_with_failed_groups_charged(name, failed):
    groups = GROUPINGS[next(kind for kind in GROUPINGS if kind in FITS[name])].build(IDS)
    votes = votes_of(groups)
    first = next(group for group, members in enumerate(groups.members) if len(members))
    if failed:
        votes[first] = -1
    table = evidence_of(groups, np.maximum(votes, 0))
    evidence = Evidence.of_votes(votes, LABELS, groups.members, table.ranks)
    found = CertificateSettings().of(name, groups, failed).certify(evidence)
    expected = FUNCTIONS[name](groups, evidence, failed)
    assert np.array_equal(found.levels, expected.levels)
    assert np.array_equal(found.abstained, expected.abstained)
    if failed and name != "overlapping":  # which sees a failed group in the votes
        assert not np.array_equal(FUNCTIONS[name](groups, table, 0).levels, expected.levels)


def test_the_collective_kind_charges_failed_groups():
    groups = grouping.balanced(IDS, 6)
    votes = np.zeros((6, 10), dtype=np.int32)
    truth = np.zeros(10, dtype=np.int64)
    evidence = Evidence.of_votes(votes, LABELS, groups.members)
    for failed in (0, 1, 3):
        figures = CertificateSettings().of("collective", groups, failed).figures(evidence, truth, [0, 1, 2, 3], report)
        expected = {m: certify.collective(evidence.counts, votes, truth, m, num_failed=failed) for m in (0, 1, 2, 3)}
        assert figures.inputs == expected


def report(done, total):
    assert 0 <= done <= total


def test_ties_are_drawn_for_groups_of_flcert_p_and_go_to_the_smallest_label_for_all_others():
    assert {name for name, kind in KINDS.items() if kind.ties == "random"} == {"sampled", "enumerated"}
    assert {name for name, kind in KINDS.items() if kind.probabilistic} == {"sampled"}
    tied = Evidence(np.array([[5, 5, 0]] * 60))
    assert set(certify.Disjoint().predict(tied).tolist()) == {0}
    assert set(certify.Enumerated().predict(tied).tolist()) == {0, 1}


def test_a_part_of_the_evidence_is_that_of_the_inputs_in_it():
    groups = grouping.balanced(IDS, 4)
    whole = evidence_of(groups, votes_of(groups))
    part = whole.part(slice(10, 25))
    assert len(part) == 15
    assert np.array_equal(part.votes, whole.votes[:, 10:25])
    assert np.array_equal(part.counts, whole.counts[10:25])
    assert part.groups == whole.groups
    for name in ("disjoint", "runoff", "overlapping"):
        guarantee = CertificateSettings().of(name, groups)
        assert np.array_equal(guarantee.certify(part).levels, guarantee.certify(whole).levels[10:25])


def test_an_account_of_alpha_is_known_by_the_same_text_as_in_the_first_version():
    guarantee = certify.Sampled(num_clients=60, num_groups=80, group_size=4, alpha=0.3, tails="both")
    assert guarantee.theorem() == (
        '{"kind": "sampled", "num_clients": 60, "group_size": 4, "num_groups": 80, "num_failed": 0, '
        '"tails": "both", "distinct": false, "tie_seed": 0}'
    )
    assert guarantee.theorem() == guarantee.model_copy(update={"alpha": 0.01, "selection": "paper"}).theorem()
    assert guarantee.theorem() != guarantee.model_copy(update={"num_groups": 81}).theorem()
    with_trusted = guarantee.model_copy(update={"trusted": 7}).theorem()
    assert with_trusted == guarantee.theorem().replace('"tie_seed": 0', '"tie_seed": 0, "trusted": 7')


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_proves_and_no_more_than_that(name):
    guarantee = KINDS[name](kind=name, num_clients=50)
    said = guarantee.sentence(3, 7, 10, right=True)
    assert "any 3 of the 50 clients do" in said
    assert "7 of these 10 test inputs (70.0%) keep their right label" in said
    assert guarantee.sentence(0, 7, 10, right=True).startswith(
        "Nothing is proved by this certificate against malicious clients"
    )
    about_input = guarantee.sentence_for_input("seven", 2, abstained=False)
    for text in (said, about_input, guarantee.meaning, guarantee.proved, guarantee.caption):
        if guarantee.probabilistic:
            assert "all possible groups" in text
            assert "except with probability 0.001" in text.lower()
        else:
            assert "probability" not in text
    assert "nothing is certified" in guarantee.sentence_for_input("seven", 0, abstained=True)
    assert "nothing is proved against even one" in guarantee.sentence_for_input("seven", 0, abstained=False)


@pytest.mark.parametrize("name", KINDS)
def test_evidence_that_lacks_what_a_kind_needs_is_refused_and_any_other_is_not(name):
    groups = GROUPINGS[next(kind for kind in GROUPINGS if kind in FITS[name])].build(IDS)
    whole, guarantee = evidence_of(groups, votes_of(groups)), CertificateSettings().of(name, groups)
    parts = {
        "counts": Evidence(whole.counts),
        "votes": Evidence(whole.counts, whole.votes, whole.groups),
        "ranks": Evidence(whole.counts, groups=whole.groups, ranks=whole.ranks),
    }
    for has, evidence in parts.items():
        if guarantee.needs in ("counts", has):
            guarantee.check_evidence(evidence)
        else:
            with pytest.raises(InputError, match=f"certificate '{name}' needs"):
                guarantee.check_evidence(evidence)


def test_a_run_off_predicts_the_label_that_it_certifies():
    groups = grouping.balanced(IDS, 5)
    evidence, guarantee = evidence_of(groups, votes_of(groups, seed=3)), CertificateSettings().of("runoff", groups)
    for alone in (False, True):
        assert np.array_equal(guarantee.predict(evidence, alone=alone), guarantee.certify(evidence).labels)
    with pytest.raises(InputError, match="certificate 'runoff' needs how the models rank the labels"):
        guarantee.predict(Evidence(evidence.counts))


def test_the_settings_of_a_draw_belong_to_its_kind_alone():
    for setting in ("alpha", "selection", "tails"):
        assert certify.kinds_with(setting) == ["sampled"]
    assert certify.kinds_with("group_size") == ["sampled", "enumerated"]
    assert set(certify.kinds_with("num_failed")) == set(KINDS)


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"sampled"}))
def test_one_group_is_enough_for_a_kind_that_holds_with_certainty(name):
    assert KINDS[name](kind=name).least_groups(10_000) == 1


class Doubtful(certify.Disjoint):
    """A user's own kind that is probabilistic."""

    kind: str = "doubtful"
    alpha: float = 0.001
    selection: str = "safe"


def test_an_account_of_a_users_own_kind_does_not_depend_on_what_is_spent():
    guarantee = Doubtful(num_clients=6)
    for change in ({"alpha": 0.5}, {"selection": "paper"}):
        assert guarantee.model_copy(update=change).theorem() == guarantee.theorem()
    assert guarantee.model_copy(update={"num_clients": 7}).theorem() != guarantee.theorem()


@pytest.mark.parametrize(
    ("num_clients", "level", "they_do", "nobody"),
    [
        (None, 1, "any one client does", "no one clients"),
        (None, 2, "any 2 clients do", "no 2 clients together"),
        (None, 3, "any 3 clients do", "no 3 clients together"),
        (1, 1, "any one of the 1 clients does", "no one of the 1 clients"),
        (2, 2, "all 2 clients do", "not even all 2 clients together"),
        (50, 1, "any one of the 50 clients does", "no one of the 50 clients"),
        (50, 2, "any 2 of the 50 clients do", "no 2 of the 50 clients together"),
        (50, 50, "all 50 clients do", "not even all 50 clients together"),
    ],
)
def test_sentences_speak_of_as_many_clients_as_are_meant(num_clients, level, they_do, nobody):
    guarantee = certify.Disjoint(num_clients=num_clients)
    said = "at least 7 of these 10 test inputs (70.0%) keep their {}label."
    assert guarantee.sentence(level, 7, 10, right=True) == f"Whatever {they_do}, {said.format('right ')}"
    assert guarantee.sentence(level, 7, 10, right=False) == f"Whatever {they_do}, {said.format('')}"
    about_input = guarantee.sentence_for_input("seven", level, abstained=False)
    assert about_input == f"seven, and {nobody} could have changed this."
