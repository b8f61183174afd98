"""`flcert plan` for a configuration: the same settings as `flcert run`, several numbers of groups, and the figure."""

import json

import numpy as np
import pytest

from flcert import certify, grouping
from flcert.pipeline.plan_config import clients_of
from flcert.runs.config import load_config
from flcert.training.compression import compressed
from flcert.training.recipe import Recipe
from flcert.training.start import initial_module, state_arrays
from tests.cli.test_plan import planned, row


def written(tmp_path, text):
    (tmp_path / "experiment.toml").write_text(text)
    return "experiment.toml"


DRAWN = """
[data.options]
num_clients = 28
[grouping]
kind = "sampled"
group_size = 2
num_groups = 30
distinct = true
[certificate]
tails = "both"
alpha = 0.01
also = ["overlapping"]
[recipe]
rounds = 12
participation = 0.5
"""


def test_a_file_is_planned_with_its_own_grouping_and_certificates(flcert, tmp_path):
    told = planned(flcert, written(tmp_path, DRAWN), "--target-m", 1)
    assert told["own"] == next(iter(told["plans"])) == "FLCert-P"
    assert told["grouping"]["distinct"]
    plan = told["plans"]["FLCert-P"]
    guarantee = certify.Sampled(num_clients=28, num_groups=30, group_size=2, distinct=True, tails="both", alpha=0.01)
    counts = np.zeros((1, 10), dtype=int)
    counts[0, 0] = 30
    found = guarantee.certify(certify.Evidence(counts), 450)  # digits have ten labels and 450 test inputs
    assert plan["can_certify"]
    assert plan["largest_level"] == found.levels[0]
    assert plan["rounds_a_client"] == pytest.approx(12 * 30 * 2 / 28 * 0.5)
    groups = grouping.sampled([str(number) for number in range(28)], 30, 2, distinct=True)
    fixed = certify.overlapping(np.zeros((30, 1), dtype=int), groups.members, num_clients=28)
    assert plan["also"]["fixed overlapping groups"]["level"] == fixed.levels[0]
    out = flcert("plan", "experiment.toml").out
    assert row(out, "largest m, fixed overlapping groups")[0] == str(fixed.levels[0])
    assert "D = 450 test inputs share alpha = 0.01, selection 'safe', tails 'both', distinct draws\n" in out
    assert "distinct" not in flcert("plan", "experiment.toml", "--set", "grouping.distinct=false").out


def test_settings_can_be_changed_as_for_a_run(flcert, tmp_path):
    name = written(tmp_path, DRAWN)
    told = planned(flcert, name, "--set", "certificate.tails=one", "--clients", 50, "--groups", 35, "--group-size", 3)
    assert told["sizes"] | {"num_clients": 50, "num_groups": 35, "group_size": 3, "tails": "one"} == told["sizes"]
    refused = [flcert(command, name, "--grouping", "balanced") for command in ("plan", "run")]
    assert refused[0] == refused[1]
    assert refused[0].code == 2


def test_certificates_that_cannot_be_planned_are_named(flcert):
    also = 'certificate.also=["runoff", "collective", "sampled"]'
    told = planned(flcert, "--groups", 20, "--grouping", "balanced", "--set", also)
    plan = told["plans"]["FLCert-D, balanced"]
    assert plan["also"] == {"run-off election": {"level": 10, "certified": True, "wins": True}}
    assert list(plan["unplanned"]) == ["whole test set at once", "sampled groups"]
    said = " ".join(told["sentences"])
    assert "The certificate 'whole test set at once' cannot be planned: it counts inputs of a test set" in said
    assert "certificate 'sampled' is for groups drawn at random, got groups of kind 'balanced'" in said


def test_a_run_off_of_overlapping_groups_is_planned(flcert):
    given = ("--groups", 21, "--grouping", "finite-aggregation", "--set", 'certificate.also=["runoff"]')
    plan = next(iter(planned(flcert, *given)["plans"].values()))
    assert plan["unplanned"] == {}
    assert plan["also"]["run-off election"]["certified"]


@pytest.mark.parametrize(
    ("votes", "cells"),
    [(0, None), (10, ["25", "15"]), (30, ["35", "5"]), (41, ["200", "outvoted"])],
)
def test_trusted_votes_may_agree_or_disagree(flcert, votes, cells):
    given = ("--groups", 40, "--grouping", "balanced", "--set", f"voting.trusted.votes={votes}", "--target-m", 5)
    out = flcert("plan", *given).out
    if cells is None:
        assert row(out, "largest certifiable m")[0] == "20"
        return
    found = [row(out, title)[0] for title in ("largest m, trusted model agrees", "largest m, it disagrees")]
    assert found == cells
    for opposed in (False, True):
        trusted = certify.Trusted(np.array([int(opposed)]), votes)
        one = certify.disjoint([[40, 0]], trusted=trusted, num_groups=40, num_clients=200)
        assert cells[opposed] == ("outvoted" if one.labels[0] else str(one.levels[0]))
    assert ("41 trusted votes outvote all 40 groups of FLCert-D, balanced" in out) == (votes == 41)


def test_several_numbers_of_groups(flcert):
    given = ("--preset", "mnist-0.1", "--groups", "20,50,500", "--target-m", 20)
    told = planned(flcert, *given)["overviews"]
    own = [one["plans"]["FLCert-D"] for one in told]
    alone = [planned(flcert, "--preset", "mnist-0.1", "--groups", number)["plans"] for number in (20, 50, 500)]
    assert [one["largest_level"] for one in own] == [one["FLCert-D"]["largest_level"] for one in alone]
    assert [one["needed"]["agreeing"] for one in own] == [None, 45, 236]
    assert [one["likely_votes"] for one in own] == [20, 50, 432]
    assert certify.disjoint([[236, 196]]).levels[0] == 20 > certify.disjoint([[235, 197]]).levels[0]
    out = flcert("plan", *given).out
    assert "N = 20, 50, 500 groups" in out
    assert row(out, "clients in a group, on average") == ["50.0", "20.0", "2.0", "1,000.0"]
    assert row(out, "groups that must agree for m = 20") == ["impossible", "45 of 50", "236 of 432"]
    assert row(out, "FLCert-P") == [largest(one["FLCert-P"]) for one in alone]


def largest(plan):
    return str(plan["largest_level"]) if plan["can_certify"] else "none"


def test_a_number_of_groups_that_is_not_possible_does_not_hide_the_others(flcert):
    out = flcert("plan", "--preset", "har", "--groups", "10,50").out
    assert row(out, "largest certifiable m") == ["5", "not possible", "0"]
    assert "FLCert-D is not possible: num_groups must be in [1, num_clients=30], got 50." in out


def test_other_groupings_count_their_likely_empty_groups_for_every_number(flcert):
    out = flcert("plan", "--grouping", "balanced", "--groups", "10,100").out
    alone = planned(flcert, "--grouping", "hashed", "--groups", 100)["plans"]["FLCert-D"]
    assert (alone["largest_level"], alone["likely_votes"], alone["likely_level"]) == (50, 87, 43)
    assert row(out, "FLCert-D") == ["5", "43"]
    assert "FLCert-D leaves 13.4 of N = 100 groups empty on average; its largest m is that of 87 groups." in out
    assert "of N = 10 groups empty" not in out
    assert "FLCert-D leaves" not in flcert("plan", "--grouping", "balanced", "--groups", 100).out  # it has rows there


def test_other_groupings_that_are_not_possible_are_explained(flcert):
    given = ("--clients", 20, "--grouping", "sampled", "--group-size", 2, "--groups", "10,30")
    out = flcert("plan", *given).out
    assert row(out, "FLCert-D")[1] == row(out, "FLCert-D, balanced")[1] == "not possible"
    for label in ("FLCert-D", "FLCert-D, balanced"):
        assert f"\n{label} is not possible: num_groups must be in [1, num_clients=20], got 30.\n" in out


def test_the_table_of_other_groupings_says_what_the_trusted_model_votes(flcert):
    given = ("--grouping", "balanced", "--groups", "20,40", "--set", "voting.trusted.votes=10")
    out = flcert("plan", *given).out
    assert "largest m elsewhere, trusted model agrees" in out
    assert row(out, "FLCert-D") == row(out, "largest m, trusted model agrees")[:2] == ["15", "25"]


def test_ties_are_only_mentioned_where_they_can_be_certified(flcert):
    drawn, dealt = ("--grouping", "sampled", "--group-size", 2), ("--grouping", "balanced")
    ties = "A label that loses ties may need one more"
    several, one = ("--groups", "40,50", "--target-m", 3), ("--groups", 40, "--target-m", 3)
    assert f"whatever the others vote. {ties}.\n" in flcert("plan", *dealt, *several).out
    out = flcert("plan", *drawn, *several).out
    assert "Groups that must agree: whatever the others vote.\n" in out
    assert ties not in out
    beside = " ".join(flcert("plan", *drawn, *one).out.split())
    assert f"{ties} with FLCert-D or FLCert-D, balanced." in beside


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        (("--groups", 20), [10]),
        ((), [5]),  # N = 40 by default
        (("--groups", "20,30,300"), [10, 7, 1]),
        (("--groups", 20, "--group-size", 3), [3]),
        (("--groups", 20, "--set", "grouping.group_size=3"), [3]),
        (("--groups", 20, "--groups-per-client", 2), [10]),
        (("--groups", 20, "--clients", 90), [4]),
        (("--groups", 20, "--clients", 90, "--set", "recipe.rounds=2"), [4]),
    ],
)
def test_groups_of_a_fixed_size_have_n_over_n_clients_by_default(flcert, given, sizes):
    told = planned(flcert, "--grouping", "sampled", *given)
    assert [one["grouping"]["group_size"] for one in told.get("overviews", [told])] == sizes


@pytest.mark.draws
@pytest.mark.parametrize(("form", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_figure(flcert, tmp_path, form, begins):
    given = ("plan", "--clients", 100, "--groups", "10,20", "--set", "voting.trusted.votes=3")
    pictures = []
    for name in ("first", "second"):
        assert flcert(*given, "--figure", f"{name}.{form}").code == 0
        pictures.append((tmp_path / f"{name}.{form}").read_bytes())
    assert pictures[0].startswith(begins)
    assert pictures[0] == pictures[1]
    if form == "svg":
        assert b">malicious clients m</text>" in pictures[0]


def test_own_data_are_counted(flcert, tmp_path):
    (tmp_path / "mine" / "clients").mkdir(parents=True)
    for number in range(7):
        np.savez(tmp_path / "mine" / "clients" / f"user-{number}.npz", inputs=np.zeros((3, 4)), labels=[0, 1, 2])
    np.savez(tmp_path / "mine" / "test.npz", inputs=np.zeros((5, 4)), labels=[0, 1, 2, 0, 1])
    text = '[data]\nname = "folder"\noptions = {path = "mine"}\n[recipe]\nmodel = "linear"\n'
    told = planned(flcert, written(tmp_path, text), "--groups", 3)
    assert told["clients"]["number"] == 7
    assert told["clients"]["known_from"] == "counted in the data"
    assert told["sizes"]["num_inputs"] == 5
    assert told["sizes"]["num_parameters"] == 4 * 3 + 3
    assert "n = 7 clients (counted in the data)" in flcert("plan", "experiment.toml", "--groups", 3).out
    left = planned(flcert, "experiment.toml", "--groups", 3, "--set", 'forget=["user-2"]')["clients"]
    assert (left["number"], left["forgotten"]) == (6, 1)


def test_forgotten_clients_count_and_keep_their_places(flcert):
    forgotten = 'forget=["user-01", "user-02"]'
    told = planned(flcert, "--preset", "har", "--set", forgotten, "--grouping", "balanced", "--groups", 30)
    assert told["sizes"]["num_clients"] == 28
    plan = told["plans"]["FLCert-D, balanced"]  # as many groups as were registered, two of them empty now
    assert (plan["likely_votes"], plan["likely_level"], plan["num_groups"]) == (28, 14, 30)
    assert (
        "28 clients (those of 'har' by default, without 2 forgotten)"
        in flcert("plan", "--preset", "har", "--set", forgotten).out
    )


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_compressed_models_are_stored_small_and_sent_whole(flcert, dtype):
    told = planned(flcert, "--groups", 20, "--set", f"compression={dtype}")["sizes"]
    arrays = state_arrays(initial_module(Recipe(), (64,), 10))
    assert told["bytes_a_round"] == sum(array.nbytes for array in arrays.values())
    assert told["bytes_a_model"] == sum(array.nbytes for array in compressed(arrays, dtype).values())


def test_every_model_of_a_group_is_sent(flcert):
    one, three = (
        planned(flcert, "--groups", 20, *extra)["sizes"]["bytes_a_round"]
        for extra in ((), ("--set", "recipe.models_per_group=3"))
    )
    assert three == 3 * one


def test_a_user_s_own_groups_are_planned(flcert):
    told = planned(flcert, "--grouping", "tests.toy_kinds:Dealt", "--groups", 9, "--target-m", 2)
    plan = told["plans"]["dealt out"]
    assert plan["largest_level"] == 4
    assert plan["needed"]["agreeing"] == 7
    cautious = planned(flcert, "--grouping", "tests.toy_kinds:CautiouslyDealt", "--groups", 9)
    assert next(iter(cautious["plans"].values()))["largest_level"] == 2


def test_what_is_planned_is_what_runs(flcert, tmp_path):
    """A run on whose inputs all groups agree reaches the level of the plan, and no run exceeds it."""
    given = ("--groups", 5, "--set", "data.options.num_clients=20", "--rounds", 5, "--grouping", "balanced")
    plan = planned(flcert, *given)["plans"]["FLCert-D, balanced"]
    assert flcert("run", *given, "--out", "runs/first", "--quiet", "--engine", "inline").code == 0
    summary = json.loads((tmp_path / "runs/first/summary.json").read_text())
    assert summary["largest_level"] == plan["largest_level"] == 2
    again = planned(flcert, "runs/first/config.json")["plans"]["FLCert-D, balanced"]
    assert again == plan


@pytest.mark.parametrize(
    ("given", "number", "source"),
    [
        (("data.name=mnist",), 1000, "those of 'mnist' by default"),
        (("data.name=har", "data.options.num_clients=12"), 12, "data.options.num_clients"),
        (("data.name=chitchat",), 1235, "those of 'chitchat' by default"),
        (("data.name=chitchat", "data.options.num_test=50"), 1235, "those of 'chitchat' by default"),
        (("data.name=chitchat", "data.options.leave_out_pilot=true"), 1235, "all users of 'chitchat'"),
    ],
)
def test_where_the_number_of_clients_comes_from(monkeypatch, tmp_path, given, number, source):
    monkeypatch.setenv("FLCERT_CACHE", str(tmp_path))
    found = clients_of(load_config(None, given))
    assert (found.number, found.known_from) == (number, source)
    assert ("words.txt is missing" in found.unread) == (source == "all users of 'chitchat'")
