"""Further certificates through the command line: of a run, and of what a run wrote."""

import json

import numpy as np
import pytest

from flcert import certify, voting
from flcert.datasets import load
from flcert.runs.directory import RunDirectory
from tests.sealing import seal

COMMON = ("--clients", 40, "--groups", 9, "--rounds", 4, "--engine", "inline", "-q", "--out", "run")
ALSO = ("--also", "overlapping", "--also", "runoff", "--also", "collective")


def summary(tmp_path):
    return json.loads((tmp_path / "run" / "summary.json").read_text())


def test_a_run_tells_all_certificates_of_its_models(flcert, tmp_path):
    result = flcert("run", *COMMON, *ALSO)
    assert result.code == 0, result.err
    for part in ("fixed overlapping groups", "run-off election", "whole test set at once"):
        assert part in " ".join(result.out.split())
    also, directory = summary(tmp_path)["also"], RunDirectory(tmp_path / "run")
    votes, truth = directory.array("votes"), directory.truth()
    plain = certify.disjoint(voting.count(votes, 10))
    own = certify.certified_accuracy(plain, truth)
    assert also["overlapping"]["certified_accuracy"] == own.tolist()  # disjoint groups: the same theorem
    for m, inputs in also["collective"]["inputs"].items():
        assert inputs >= round(own[int(m)] * len(truth))
    counted = directory.ranks()
    assert np.array_equal(counted.votes, voting.count(votes, 10))
    page = (tmp_path / "run" / "report.html").read_text()
    for name in ("fixed overlapping groups", "run-off election", "whole test set at once"):
        assert page.count(name) >= 2
    for kind in ("overlapping", "runoff"):
        printed = json.loads(flcert("certify", "run", "--also", kind, "--json").out)
        assert printed["certified_accuracy"] == also[kind]["certified_accuracy"]
    printed = json.loads(flcert("certify", "run", "--also", "collective", "--json").out)
    assert printed["stay_right"] == also["collective"]["inputs"]
    assert printed["note"].startswith("The whole-test-set figure is exact at m = 0")
    assert printed["note"] in also["collective"]["note"]
    assert printed["note"] in page
    assert printed["note"] in " ".join(flcert("certify", "run", "--also", "collective").out.split())


def test_the_run_off_of_a_run_is_that_of_its_models(flcert, tmp_path):
    flcert("run", *COMMON, "--also", "runoff", "--set", "data.options.num_test=60")
    directory = RunDirectory(tmp_path / "run")
    import torch

    from flcert.datasets import load
    from flcert.runs.ensemble import open_ensemble

    ensemble, inputs = open_ensemble(directory), load("digits", num_clients=40, num_test=60).test_inputs
    ranks = []
    for group in ensemble.model_keys():
        ranks.append(certify.ranked(ensemble.module(group)(torch.from_numpy(inputs)).detach().numpy()))
    expected, found = certify.count_ranks(ranks), directory.ranks()
    for name in ("votes", "first_wins", "second_wins"):
        assert np.array_equal(getattr(expected, name), getattr(found, name))
    assert expected.num_groups == found.num_groups


def test_groups_that_really_were_drawn_are_certified_without_probability(flcert, tmp_path):
    options = ("--grouping", "sampled", "--group-size", 2, "--groups", 30)
    assert flcert("run", *COMMON, *options, "--also", "overlapping").code == 0
    figures = summary(tmp_path)
    assert figures["also"]["overlapping"]["certified_accuracy"][1] > 0
    directory = RunDirectory(tmp_path / "run")
    again = certify.overlapping(directory.array("votes"), directory.members(), num_clients=40)
    curve = certify.certified_accuracy(again, directory.truth())
    assert figures["also"]["overlapping"]["certified_accuracy"] == curve.tolist()


def test_groups_of_finite_aggregation_are_certified_as_overlapping_and_predict(flcert, tmp_path):
    assert flcert("run", *COMMON, "--grouping", "finite-aggregation", "--set", "grouping.groups_per_client=3").code == 0
    assert summary(tmp_path)["certificate"] == "overlapping"
    members = json.loads((tmp_path / "run" / "groups.json").read_text())["groups"]
    served = [sum(user in group for group in members) for user in {user for group in members for user in group}]
    assert set(served) == {3}
    assert flcert("certify", "run").code == 0
    np.save(tmp_path / "inputs.npy", np.random.default_rng(0).random((4, 64)))
    predicted = json.loads(flcert("predict", "run", "inputs.npy", "--json").out)
    assert len(predicted["levels"]) == 4


def test_a_run_off_among_groups_that_share_clients_goes_through_every_command(flcert, tmp_path):
    """Some groups fail, too: those with two clients."""
    grumpy = ("--set", "recipe.aggregator=tests.serve.grumpy:rule", "--set", "data.options.num_test=60")
    options = ("--grouping", "finite-aggregation", "--set", "grouping.groups_per_client=2", "--clients", 16)
    assert flcert("run", *COMMON, *options, *grumpy, "--also", "runoff").code == 0
    directory, also = RunDirectory(tmp_path / "run"), summary(tmp_path)["also"]["runoff"]
    assert directory.guarantee().num_failed > 0
    ranks, members = directory.ranks(), directory.members()
    assert np.array_equal(ranks.ballots.tops, directory.array("votes"))
    expected = certify.overlapping_runoff(ranks, members, num_clients=16)
    curve = certify.certified_accuracy(expected, directory.truth()).tolist()
    assert curve[0] > 0
    assert curve == also["certified_accuracy"]
    assert json.loads(flcert("certify", "run", "--also", "runoff", "--json").out)["certified_accuracy"] == curve
    np.save("inputs.npy", load("digits", num_clients=16, num_test=60).test_inputs)
    printed = json.loads(flcert("predict", "run", "inputs.npy", "--certificate", "runoff", "--json").out)
    assert (printed["labels"], printed["levels"]) == (expected.labels.tolist(), expected.levels.tolist())
    assert flcert("report", "run").code == 0
    assert "run-off election" in (tmp_path / "run" / "report.html").read_text()
    kept = dict(np.load(tmp_path / "run" / "ranks.npz"))
    np.savez(tmp_path / "run" / "ranks.npz", **{name: array for name, array in kept.items() if name != "tops"})
    seal(tmp_path / "run")
    assert "cannot read run/ranks.npz" in flcert("certify", "run", "--also", "runoff").err


def test_distinct_draws_and_tails_reach_the_certificate(flcert, tmp_path):
    options = ("--grouping", "sampled", "--group-size", 2, "--groups", 30, "--alpha", 0.05)
    assert (
        flcert("run", *COMMON, *options, "--set", "grouping.distinct=true", "--set", "certificate.tails=best").code == 0
    )
    directory = RunDirectory(tmp_path / "run")
    guarantee = directory.guarantee()
    assert (guarantee.distinct, guarantee.tails) == (True, "best")
    counts = voting.count(directory.array("votes"), 10)
    expected = certify.sampled(
        counts, num_clients=40, group_size=2, alpha=0.05, options=certify.SampledOptions(30, "best", distinct=True)
    )
    assert np.array_equal(expected.levels, directory.certificate().levels)
    one = json.loads(flcert("certify", "run", "--tails", "one", "--json").out)
    assert one["guarantee"]["tails"] == "one"
    groups = json.loads((tmp_path / "run" / "groups.json").read_text())["groups"]
    assert len({tuple(group) for group in groups}) == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--grouping", "sampled", "--group-size", 2, "--also", "collective"),
            "certificate 'collective' is for disjoint groups",
        ),
        (("--also", "runof"), "unknown certificate 'runof'; did you mean 'runoff'?"),
        (("--also", "runoff", "--set", "recipe.smoothing.copies=3"), "certificate 'runoff' needs the scores of models"),
        (
            ("--grouping", "finite-aggregation", "--set", "grouping.groups_per_client=10"),
            "groups_per_client must be in [1, num_groups=9]",
        ),
        (
            ("--set", "grouping.groups_per_client=2"),
            "grouping.groups_per_client goes with grouping.kind finite-aggregation, got kind 'balanced'",
        ),
        (
            ("--grouping", "sampled", "--group-size", 1, "--groups", 41, "--set", "grouping.distinct=true"),
            "num_groups must be at most 40, as many as there are distinct groups of 1 of the 40 clients, got 41",
        ),
        (("--set", "certificate.tails=two"), "certificate.tails must be 'one', 'both' or 'best', got 'two'"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("run", *COMMON, *options)
    assert result.code == 2
    assert message in result.err


def test_a_further_certificate_is_shown_as_far_as_it_reaches(flcert, tmp_path):
    """Twelve groups are too few for Algorithm 1, which certifies nothing; they are enough for the one beside it."""
    options = ("--grouping", "sampled", "--group-size", 6, "--groups", 12, "--rounds", 20, "--also", "overlapping")
    result = flcert("run", *COMMON, *options)
    curve = summary(tmp_path)["also"]["overlapping"]["certified_accuracy"]
    assert summary(tmp_path)["certified_accuracy"][0] == 0
    last = max(m for m, share in enumerate(curve) if share > 0)
    assert last >= 1
    assert [line.split()[0] for line in result.out.splitlines() if "%" in line][: last + 1] == ["0", "1", "2"][
        : last + 1
    ]
    assert f"{curve[1]:.1%}" in result.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert f'<td class="number">{curve[1]:.1%}</td>' in page
    assert f'max="{last + 1}"' in page
    assert "speaks of the groups that were trained, holds with certainty" in page
    certified = flcert("certify", "run", "--also", "overlapping")
    assert "Whatever any one of the 40 clients does, at least" in " ".join(certified.out.split())
    assert "all possible groups" not in certified.out
    assert (
        json.loads(flcert("certify", "run", "--also", "overlapping", "--json").out)["guarantee"]["kind"]
        == "overlapping"
    )


def test_settings_that_do_not_enter_a_certificate_are_refused(flcert):
    flcert("run", *COMMON)
    sampled = ("--grouping", "sampled", "--group-size", 2, "--out", "p")
    flcert("run", *COMMON, *sampled)
    for arguments, message in (
        (("run", "--alpha", 2), "alpha has no meaning for disjoint groups, got 2.0; it goes with --kind sampled"),
        (("run", "--tails", "both"), "tails has no meaning for disjoint groups, got both"),
        (("run", "--also", "collective", "--alpha", 0.1), "alpha has no meaning for certificate 'collective', got 0.1"),
        (("run", "--also", "collective", "--out", "x.csv"), "counts inputs without naming them; leave out --out x.csv"),
        (("p", "--also", "overlapping", "--alpha", 0.5), "alpha has no meaning for certificate 'overlapping', got 0.5"),
        (("p", "--alpha", 2), "alpha must be in (0, 1), got 2.0"),
    ):
        answer = flcert("certify", *arguments)
        assert answer.code == 2
        assert message in answer.err


def test_asking_a_run_for_what_it_did_not_keep_is_answered(flcert):
    flcert("run", *COMMON)
    assert "if it was made with --also runoff" in flcert("certify", "run", "--also", "runoff").err
    (votes := np.zeros((3, 2), dtype=int)).tofile("x")
    np.save("votes.npy", votes)
    assert "--also goes with a run directory" in flcert("certify", "votes.npy", "--also", "overlapping").err


def test_predict_answers_by_any_certificate_that_fits_the_groups(flcert, tmp_path):
    """A run that was not asked for a run-off can still predict by one: its models rank the labels when asked."""
    flcert("run", *COMMON, "--also", "runoff", "--out", "asked")
    flcert("run", *COMMON)
    np.save("inputs.npy", load("digits", num_clients=40).test_inputs)
    expected = certify.runoff(RunDirectory(tmp_path / "asked").ranks())
    printed = json.loads(flcert("predict", "run", "inputs.npy", "--certificate", "runoff", "--json").out)
    assert (printed["labels"], printed["levels"]) == (expected.labels.tolist(), expected.levels.tolist())
    plain = json.loads(flcert("predict", "run", "inputs.npy", "--json").out)
    assert printed["labels"] != plain["labels"]  # another rule
    assert printed["votes"] == plain["votes"]
    same = json.loads(flcert("predict", "run", "inputs.npy", "--certificate", "overlapping", "--json").out)
    assert same["levels"] == plain["levels"]
    for kind, message in (
        ("collective", "certificate 'collective' counts the inputs of a test set without naming them"),
        ("sampled", "certificate 'sampled' is for groups drawn at random, got groups of kind 'balanced'"),
        ("disjont", "unknown certificate 'disjont'; did you mean 'disjoint'?"),
    ):
        refused = flcert("predict", "run", "inputs.npy", "--certificate", kind)
        assert (refused.code, message in refused.err) == (2, True)


def test_a_vote_table_is_certified_as_a_whole_test_set_too(flcert):
    flcert("run", *COMMON)
    of_run = json.loads(flcert("certify", "run", "--also", "collective", "--json").out)
    table = ("certify", "run/votes.npy", "--kind", "collective", "--truth", "run/truth.npy")
    assert json.loads(flcert(*table, "--json").out) == of_run
    assert "whole test set at once" in flcert(*table).out
    missing = flcert(*table[:4])
    assert (missing.code, "needs the true labels: give --truth" in missing.err) == (2, True)
