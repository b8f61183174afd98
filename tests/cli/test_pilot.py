"""`flcert pilot`: what it predicts, recommends and refuses; and that pilot clients are no part of a run."""

import csv
import json
import re

import numpy as np
import pytest

from flcert.cli.pilot import _nothing, _recommendation
from flcert.datasets import load
from flcert.pipeline.forecast import Forecast
from flcert.pipeline.pilot import Candidate, Piloted
from flcert.pipeline.run import checked, federation_of
from flcert.runs.config import Pilot, load_config
from tests.tinydata import publish, write_har

SMALL = (
    *("--set", "data.options.num_clients=80", "--set", "data.options.num_test=50"),
    *("--set", "recipe.rounds=4", "--set", "grouping.kind=balanced", "--share", "0.4", "--engine", "inline", "-q"),
)


@pytest.mark.draws
def test_it_predicts_recommends_and_prints_the_command(flcert, tmp_path):
    result = flcert("pilot", *SMALL, "--groups", "12,40", "--trainings", 8, "--target-m", 10, "--out", "pilot")
    assert result.code == 0, result.err
    facts = json.loads((tmp_path / "pilot" / "pilot.json").read_text())
    assert [one["groups"] for one in facts["candidates"]] == [12, 40]
    assert facts["recommended"] == 40  # 10 clients can change 12 groups at will
    assert facts["clients"] + facts["pilot_clients"] == 80
    curves = [one["certified_accuracy"] for one in facts["candidates"]]
    assert all(np.diff(curve).max() <= 0 for curve in curves)
    assert curves[0][0] > 0.3
    assert curves[0][7] == 0
    rows = list(csv.DictReader((tmp_path / "pilot" / "pilot.csv").open()))
    assert {row["groups"] for row in rows} == {"12", "40"}
    assert all(float(row["low"]) <= float(row["certified_accuracy"]) <= float(row["high"]) for row in rows)
    for form in ("png", "svg", "pdf"):
        assert (tmp_path / "pilot" / f"pilot.{form}").stat().st_size > 1000
    command = result.out.strip().splitlines()[-1]
    assert command.startswith("flcert run --set data.options.num_clients=80")
    assert command.endswith("--set pilot.share=0.4 --groups 40")
    again = flcert("pilot", *SMALL, "--groups", "12,40", "--trainings", 8, "--json")
    assert json.loads(again.out)["candidates"][1]["certified_accuracy"] == curves[1]  # from the store
    made = flcert(*command.split()[1:], "--rounds", 1, "--engine", "inline", "-q", "--json")
    assert made.code == 0, made.err
    manifest = json.loads((tmp_path / json.loads(made.out)["directory"] / "manifest.json").read_text())
    assert manifest["data"]["clients"] == facts["clients"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--groups", "90"), "groups must be in [1, number of clients without the pilot="),
        (("--groups", "a,b"), "groups must be whole numbers with commas between them, got 'a,b'"),
        (("--groups", "3"), "a pilot needs at least 4 such groups"),
        (("--share", "0.001"), "sets 0 of 80 clients apart; a pilot needs at least 4"),
        (("--share", "1"), "pilot.share must be less than 1"),
        (("--set", "pilot.shares=0.1"), "did you mean 'pilot.share'?"),
        (("--set", "pilot.key="), "key must have 1 to 64 bytes, got 0"),
        (
            ("--groups", "20", "--set", "grouping.kind=finite-aggregation"),
            "a pilot predicts groups that share no client",
        ),
        (("--set", "grouping={kind='enumerated', group_size=2}"), "a pilot varies the number of groups"),
        (("--trainings", "2"), "trainings must be in [4, 10000], got 2"),
        (("--target-m", "-1"), "target_m must be in [0, num_clients="),
        (("--target-m", "500"), "], got 500"),
        (("--set", "grouping.kind=sampled"), "a pilot predicts groups that share no client, got kind 'sampled'"),
    ],
)
def test_it_refuses_in_one_line(flcert, options, told):
    result = flcert("pilot", "--set", "data.options.num_clients=80", "--share", "0.2", "--groups", "40", *options)
    assert result.code == 2
    assert told in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_it_recommends_nothing_that_cannot_certify_the_target(flcert):
    result = flcert("pilot", *SMALL, "--groups", "12,20", "--trainings", 4, "--target-m", 11)
    assert result.code == 0, result.err
    told = " ".join(result.out.split())
    assert "None of these numbers of groups can certify m = 11; that takes at least 22 groups." in told
    assert "flcert run" not in told
    assert "has the largest" not in told
    facts = json.loads(flcert("pilot", *SMALL, "--groups", "12", "--trainings", 4, "--target-m", 30, "--json").out)
    assert (facts["recommended"], facts["command"]) == (None, None)
    told = " ".join(flcert("pilot", *SMALL, "--groups", "12", "--trainings", 4, "--target-m", 30).out.split())
    more = f"that takes at least 60 groups, more than there are clients ({facts['clients']})."
    assert f"This number of groups cannot certify m = 30; {more}" in told


def test_one_number_of_groups_is_not_called_the_largest_and_values_are_in_their_intervals(flcert):
    result = flcert("pilot", *SMALL, "--groups", "12", "--trainings", 4)
    assert "N = 12 is the only number of groups that was tried." in result.out
    assert "has the largest" not in result.out
    assert result.out.splitlines()[-1].endswith("--groups 12")
    found = re.findall(r"([\d.]+)% \(([\d.]+)-([\d.]+)\)", result.out)
    assert found
    assert all(float(low) <= float(value) <= float(high) for value, low, high in found)
    assert {len(number.partition(".")[2]) for row in found for number in row} == {1}


def made_up(num_groups, curve, error):
    forecast = Forecast(np.array(curve), np.array(error))
    return Candidate(num_groups, num_groups, num_groups // 2, (1, 1), 4, forecast, None, 0, 0)


@pytest.mark.parametrize(("target", "error", "overlap"), [(None, 0.1, True), (None, 0.001, False), (1, 0.1, True)])
def test_it_says_which_intervals_overlap(target, error, overlap):
    few, many = made_up(2, [0.9, 0.5], [error] * 2), made_up(4, [0.8, 0.7, 0.2], [error] * 3)
    found = Piloted(9, 4, 10, "inputs", (few, many))
    assert found.best(target) is many
    told = _recommendation(found, many, target)
    assert ("The intervals of N = 2 overlap with its own." in told) == overlap


def test_predictions_that_are_all_zero_recommend_nothing():
    found = Piloted(9, 4, 10, "inputs", (made_up(2, [0.9, 0.0], [0.1, 0.0]), made_up(4, [0.8, 0.0004, 0], [0.1] * 3)))
    assert found.best(1) is None
    assert found.best(0).num_groups == 2
    assert _nothing(found, 1).startswith("Next to no input is predicted to be certified against m = 1")


def test_a_share_that_leaves_nobody_is_named(flcert):
    result = flcert("run", "--set", "data.options.num_clients=40", "--set", "pilot.share=0.999")
    assert result.code == 2
    assert result.err == "error: pilot.share 0.999 sets all 40 clients apart; some must be left\n"


def test_pilot_clients_are_in_no_group_and_change_nothing():
    small = ["data.options.num_clients=60", "grouping.num_groups=9", "grouping.kind=balanced"]
    config = load_config(overrides=[*small, "pilot.share=0.2"])
    everybody = load("digits", num_clients=60)
    apart = config.pilot.chosen(everybody.ids)
    federation, grouping, _ = checked(config)
    assert 3 < len(apart) < 25
    assert {*federation.ids} == {*everybody.ids} - {*apart}
    assert federation.forgotten == ()  # never registered: the others are dealt out among themselves
    assert grouping.sizes.max() - grouping.sizes.min() <= 1
    for position, user in enumerate(federation.ids):
        before = everybody.client(everybody.ids.index(user))
        np.testing.assert_array_equal(federation.client(position)[0], before[0])
    assert {*apart} < {*Pilot(share=0.5).chosen(everybody.ids)}  # a larger pilot holds a smaller one


def test_the_test_rows_of_people_who_are_set_apart_go_with_them(tmp_path, monkeypatch):
    folder = write_har(tmp_path)
    publish(monkeypatch, "har", folder / "har")
    options = [f"data.options.data_dir={folder}", "data.options.num_root=4", "data.name=har"]
    everybody = load("har", data_dir=folder, num_root=4)
    chosen = {"user-01", "user-03"}
    others, apart = everybody.set_apart(chosen)
    assert {*apart.test_owners} == chosen
    assert {*others.test_owners} == {"user-02", "user-04"}
    assert {*others.test_inputs[:, 0].tolist()} == {2.0, 4.0}  # the first feature is the user here
    assert len(others.test_labels) + len(apart.test_labels) == len(everybody.test_labels)
    share = next(share for share in np.arange(0.1, 1, 0.1) if 0 < len(Pilot(share=share).chosen(everybody.ids)) < 4)
    federation = federation_of(load_config(overrides=[*options, f"pilot.share={share}"]))
    assert {*federation.test_owners} == {*federation.ids}


def test_without_known_owners_the_test_set_stays_and_pilot_inputs_are_their_own_examples():
    everybody = load("digits", num_clients=20, num_test=30)
    others, apart = everybody.set_apart({"client-0003", "client-0007"})
    assert len(others.test_labels) == 30
    np.testing.assert_array_equal(apart.test_inputs, apart.inputs)
    assert {*apart.test_owners} == {"client-0003", "client-0007"}


def test_sweeps_and_plans_leave_pilot_clients_out(flcert, tmp_path):
    small = ("--set", "data.options.num_clients=20", "--set", "recipe.rounds=1", "--set", "grouping.num_groups=4")
    left = {share: 20 - len(Pilot(share=share).chosen([f"client-{i:04d}" for i in range(20)])) for share in (0.2, 0.5)}
    swept = flcert("sweep", *small, "--vary", "pilot.share=0.2,0.5", "--out", "swept", "--engine", "inline", "-q")
    assert swept.code == 0, swept.err
    manifests = sorted((tmp_path / "swept").glob("*/manifest.json"))
    assert [json.loads(one.read_text())["data"]["clients"] for one in manifests] == list(left.values())
    planned = flcert("plan", *small, "--set", "pilot.share=0.5")
    assert planned.out.startswith(f"n = {left[0.5]} clients")
