"""Trusted votes in the family of certificates: who takes them, what is predicted, written and said."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from flcert import certify
from flcert.certify import KINDS, Evidence, Guarantee, Trusted, guarantee_for, guarantee_from
from flcert.core.settings import Choice
from flcert.errors import InputError
from tests.theory.test_family import FITS, GROUPINGS, IDS, LABELS, evidence_of, votes_of

TAKES = {"disjoint", "sampled", "enumerated", "overlapping", "collective"}


class Own(Guarantee):
    """A user's own kind, which knows nothing of trusted votes."""

    title = "own"

    @classmethod
    def fits(cls, groups):
        return len(groups.members) > 0

    def certify(self, evidence, num_inputs=None):
        return certify.disjoint(evidence.counts[:num_inputs])


def guarantee(name, trusted=0, **numbers):
    return guarantee_from({"kind": name, "num_clients": 6, "num_groups": 15, "trusted": trusted, **numbers})


def groups_for(name):
    return GROUPINGS[next(kind for kind in GROUPINGS if kind in FITS[name])].build(IDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_takes_trusted_votes_or_refuses_them_in_one_line(name):
    assert KINDS[name].takes_trusted is (name in TAKES)
    groups = groups_for(name)
    assert guarantee_for(name, groups, settings={"trusted": 0}).trusted == 0
    if name in TAKES:
        assert guarantee_for(name, groups, settings={"trusted": 7}).trusted == 7
        return
    with pytest.raises(InputError, match=f"^certificate '{name}' cannot take trusted votes, got 7$"):
        guarantee_for(name, groups, settings={"trusted": 7})
    with pytest.raises(InputError, match="cannot take trusted votes, got 7"):
        KINDS[name].of(name, groups, settings={"trusted": 7})


def test_they_belong_to_the_whole_vote_and_not_to_one_certificate():
    choice = Choice(name="disjoint", options={"trusted": 7})
    with pytest.raises(InputError, match=r"^trusted of certificate 'disjoint' is the same for every certificate"):
        guarantee_for(choice, groups_for("disjoint"))


def test_a_kind_of_a_user_refuses_them_unless_it_says_otherwise():
    with pytest.raises(InputError, match="test_trusted_kinds:Own' cannot take trusted votes, got 1"):
        guarantee_from({"kind": f"{__name__}:Own", "trusted": 1})


@pytest.mark.parametrize("votes", [-1, 2**31])
def test_a_number_of_votes_that_makes_no_sense_is_refused(votes):
    with pytest.raises(InputError, match=f"trusted must be (greater|less) than .* got {votes}"):
        guarantee("disjoint", votes)
    with pytest.raises(InputError, match=rf"trusted votes must be in \[0, 1073741824\], got {votes}"):
        certify.with_trusted([[1, 2]], [0], votes)


@pytest.mark.parametrize("name", sorted(TAKES))
def test_votes_without_a_model_are_refused(name):
    groups = groups_for(name)
    evidence, kind = evidence_of(groups, votes_of(groups)), guarantee_for(name, groups, settings={"trusted": 3})
    message = "3 trusted votes were asked for, but no trusted model gave labels"
    for ask in (
        kind.check_evidence,
        kind.predict,
        lambda seen: kind.figures(seen, np.zeros(len(seen), dtype=int), [0], lambda *_: None),
    ):
        with pytest.raises(InputError, match=message):
            ask(evidence)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], r"one integer label to each of 2 inputs, got int64 of shape \(1,\)"),
        ([0.0, 1.0], "one integer label to each of 2 inputs, got float64"),
        ([0, -1], r"must be in \[0, 2\], got -1 for input 1"),
        ([3, 0], r"must be in \[0, 2\], got 3 for input 0"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    counts = np.array([[1, 2, 0], [0, 0, 3]])
    for table in (counts, csr_array(counts)):
        with pytest.raises(InputError, match=message):
            Evidence(table, trusted=np.array(labels))
        with pytest.raises(InputError, match=message):
            certify.with_trusted(table, labels, 1)
    with pytest.raises(InputError, match=message):
        Evidence.of_votes([[0, 1], [1, 2]], 3, trusted=labels)


def test_overlapping_refuses_labels_that_do_not_fit():
    with pytest.raises(InputError, match="one integer label to each of 1 inputs"):
        certify.overlapping([[0]], [[0]], num_clients=1, trusted=Trusted(np.array([0, 0]), 1))


def test_a_label_that_no_group_votes_for_gets_a_column():
    assert Evidence.of_votes([[0, 1]], trusted=[4, 0]).counts.shape == (2, 5)


def test_a_part_of_the_evidence_has_its_labels():
    whole = Evidence.of_votes(np.zeros((2, 5), dtype=int), 3, trusted=[0, 1, 2, 1, 0])
    assert whole.part(slice(1, 4)).trusted.tolist() == [1, 2, 1]
    assert whole.counts.sum() == 10  # those of the groups only


@pytest.mark.parametrize("name", sorted(TAKES - {"collective"}))
def test_what_is_predicted_is_what_is_certified(name):
    groups = groups_for(name)
    labels = np.arange(40) % LABELS
    evidence = Evidence.of_votes(votes_of(groups), LABELS, groups.members, trusted=labels)
    kind = guarantee_for(name, groups, settings={"trusted": 9, "alpha": 0.5})
    counted = certify.with_trusted(evidence.counts, labels, 9)
    assert np.array_equal(kind.counted(evidence), counted)
    predicted, certificate = kind.answer(evidence)
    for found in (predicted, kind.predict(evidence), kind.predict(evidence, alone=True)):
        assert np.array_equal(found[~certificate.abstained], certificate.labels[~certificate.abstained])
        assert (np.take_along_axis(counted, found[:, None], axis=1)[:, 0] == counted.max(axis=1)).all()
    assert not np.array_equal(predicted, kind.model_copy(update={"trusted": 0}).predict(evidence))
    truth = np.zeros(40, dtype=int)
    curve = certify.certified_accuracy(certificate, truth)
    assert kind.figures(evidence, truth, [], lambda *_: None).certified_accuracy == tuple(curve)


@pytest.mark.parametrize("name", KINDS)
def test_a_guarantee_without_trusted_votes_is_written_as_before(name):
    plain = guarantee(name)
    assert "trusted" not in plain.model_dump()
    assert "trusted" not in plain.model_dump_json() + plain.theorem() + plain.meaning
    assert guarantee_from(plain.model_dump()) == plain


@pytest.mark.parametrize("name", sorted(TAKES))
def test_a_guarantee_with_trusted_votes_says_so(name):
    kind = guarantee(name, 1200)
    assert guarantee_from(kind.model_dump(mode="json")) == kind
    assert len({kind.theorem(), guarantee(name).theorem(), guarantee(name, 1201).theorem()}) == 3
    assert kind.meaning == (
        f"{guarantee(name).meaning} 1,200 of the votes are those of a model of the server's own, "
        "which no client can change."
    )


def test_where_nobody_can_change_a_label_the_sentence_says_all():
    kind = certify.Disjoint(num_clients=1000, trusted=2000)
    said = kind.sentence_for_input("seven", 1000, abstained=False)
    assert said == "seven, and not even all 1,000 clients together could have changed this."
    assert "no 999 of the 1,000 clients together" in kind.sentence_for_input("seven", 999, abstained=False)
    assert kind.sentence(1000, 7, 10, right=True).startswith("Whatever all 1,000 clients do, at least 7 of")
    drawn = certify.Sampled(num_clients=1000, trusted=2000).sentence_for_input("seven", 1000, abstained=False)
    assert "not even all 1,000 clients together could have changed what the ensemble of all" in drawn
    unknown = certify.Disjoint(trusted=2000).sentence_for_input("seven", 9, abstained=False)
    assert unknown == "seven, and no 9 clients together could have changed this."


def test_with_trusted_votes_even_one_group_may_certify():
    counts, ours = np.array([[0, 1]]), np.array([1])
    kind = certify.Sampled(num_clients=9, group_size=2, trusted=2)
    assert kind.least_groups(10_000) == 1
    assert certify.Sampled(num_clients=9, group_size=2).least_groups(10_000) > 20
    assert kind.certify(Evidence(counts, trusted=ours)).levels[0] == 9


def test_the_trade_gives_the_curve_for_each_number_of_votes():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, LABELS, 50)
    votes = np.where(rng.random((9, 50)) < 0.7, truth, rng.integers(0, LABELS, (9, 50)))
    labels = np.where(rng.random(50) < 0.8, truth, 0)
    evidence = Evidence.of_votes(votes, LABELS, [[number] for number in range(9)], trusted=labels)
    for kind in (certify.Disjoint(num_clients=9, trusted=3), certify.Overlapping(num_clients=9)):
        curves = certify.trade(kind, evidence, truth, [0, 4, 20])
        assert list(curves) == [0, 4, 20]
        for number, curve in curves.items():
            one = kind.model_copy(update={"trusted": number})
            assert np.array_equal(curve, certify.certified_accuracy(one.certify(evidence), truth))
        alone = np.mean(labels == truth)
        assert curves[20].tolist() == [alone] * 10 + [0]  # nobody outvotes it, so its accuracy is certified throughout
    with pytest.raises(InputError, match="cannot take trusted votes, got 4"):
        certify.trade(certify.Runoff(), evidence, truth, [0, 4])
