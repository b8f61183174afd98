"""Every experiment of the paper runs end to end at a tiny scale, and its table says what must hold."""

import csv
import json
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from flcert.config import load_config
from flcert.engines import Inline
from flcert.errors import InputError
from flcert.experiments import EXPERIMENTS, Options
from flcert.experiments.reproduce import reproduce
from flcert.pipeline import run
from flcert.rundir import RunDirectory
from flcert.store import Store

GROUPS = 4
SETTING = ("recipe.rounds=2", "recipe.local_steps=10", "data.options.num_test=60", f"grouping.num_groups={GROUPS}")
OPTIONS = Options(repeats=2, copies=3, beta=0.5, malicious=(1, 3), groups=(2, GROUPS), single_rounds=3)


@pytest.fixture(scope="module")
def tiny_store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


def make(name, directory, store, options=OPTIONS, **changes):
    config = load_config(preset="digits", scale=0.1, overrides=SETTING)
    return reproduce(name, config, directory, label="tiny", options=options, engine=Inline(), store=store, **changes)


def rows_of(made):
    with made.table.open(newline="") as lines:
        return list(csv.DictReader(lines))


def series(rows, value="certified_accuracy"):
    """The values by m of every curve of a table."""
    curves = {}
    for row in rows:
        names = tuple(text for key, text in row.items() if key not in ("m", value))
        curves.setdefault(names, {})[int(row["m"])] = float(row[value])
    return curves


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_its_files_and_trains_nothing_twice(name, tmp_path, tiny_store):
    options = OPTIONS.model_copy(update={"malicious": (1,)})
    first = make(name, tmp_path, tiny_store, options)
    assert first.trained + first.reused > 0
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(written) == {f"{name}-tiny.{form}" for form in ("csv", "png", "svg", "json")} | {"report.html"}
    assert written[f"{name}-tiny.png"].startswith(b"\x89PNG")
    assert f'id="{name}-tiny"' in written["report.html"].decode()
    second = make(name, tmp_path, tiny_store, options)
    assert second.trained == 0
    assert second.reused == first.trained + first.reused
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == written


@pytest.mark.parametrize("name", ["comparison", "groups", "backdoor", "base-algorithms"])
def test_certified_accuracy_never_rises_and_ends_where_the_theorem_ends(name, tmp_path, tiny_store):
    rows = rows_of(make(name, tmp_path, tiny_store))
    for names, curve in series(rows).items():
        assert sorted(curve) == list(range(len(curve)))
        assert all(later <= earlier for earlier, later in pairwise(curve.values()))
        if "FLCert-D" in names:
            assert curve[0] > 0
            number = int(names[1]) if name == "groups" else GROUPS
            assert all(value == 0 for m, value in curve.items() if m > number / 2)
        if names[0] in ("single global model", "CRFL"):
            assert curve[0] > 0
            assert all(value == 0 for m, value in curve.items() if m >= 1)


def test_a_table_has_every_method_of_its_figure(tmp_path, tiny_store):
    methods = {row["method"] for row in rows_of(make("comparison", tmp_path, tiny_store))}
    assert methods == {"FLCert-D", "FLCert-P", "single global model", "CRFL"}
    base = rows_of(make("base-algorithms", tmp_path, tiny_store))
    assert {row["algorithm"] for row in base} == {"FedAvg", "Krum", "Trimmed-mean", "Median", "FLTrust"}
    assert {row["groups"] for row in rows_of(make("groups", tmp_path, tiny_store))} == {"2", str(GROUPS)}
    stamped = series(rows_of(make("backdoor", tmp_path, tiny_store)))
    assert {names[1] for names in stamped} == {"clean", "with trigger"}


@pytest.fixture
def certified(tmp_path, tiny_store, monkeypatch):
    """What ``flcert run`` says of FLCert-D in the same setting, changed as told: the summary and each group's votes."""
    monkeypatch.setattr("flcert.report.page.write_report", lambda _: None)

    def certify(*overrides):
        config = load_config(preset="digits", scale=0.1, overrides=[*SETTING, *overrides])
        result = run(config, tmp_path / f"run-{config.digest()}", engine=Inline(), store=tiny_store)
        directory = RunDirectory(result.directory)
        groups = directory.manifest()["groups"]
        return SimpleNamespace(**result.summary, votes=directory.array("votes"), truth=directory.truth(), groups=groups)

    return certify


def disjoint(made, value="certified_accuracy"):
    """FLCert-D's curves, by what is varied."""
    found = series(rows_of(made), value)
    curves = {names[1]: list(curve.values()) for names, curve in found.items() if names[0] == "FLCert-D"}
    assert len({tuple(curve) for curve in curves.values()}) > 1  # it makes a difference
    return curves


def same(curve, other):
    """Whether two curves are the same but for zeros at their end."""
    longest = max(len(curve), len(other))
    return np.pad(curve, (0, longest - len(curve))).tolist() == np.pad(other, (0, longest - len(other))).tolist()


def test_groups_are_as_many_as_told(tmp_path, tiny_store, certified):
    for number, curve in disjoint(make("groups", tmp_path, tiny_store)).items():
        assert same(curve, certified(f"grouping.num_groups={number}").certified_accuracy)


def test_base_algorithms_are_those_of_their_names(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"groups": (GROUPS,)})
    for algorithm, curve in disjoint(make("base-algorithms", tmp_path, tiny_store, options)).items():
        assert same(curve, certified(f"recipe.aggregator={algorithm.lower()}").certified_accuracy)


def test_a_figure_tells_in_how_many_groups_another_rule_acts(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"groups": (GROUPS + 2,), "malicious": (0,)})
    told = certified("recipe.aggregator=krum", f"grouping.num_groups={GROUPS + 2}").groups
    count = sum(group["substitute"] == "median" for group in told)
    assert 0 < count < GROUPS + 2
    for name in ("base-algorithms", "empirical"):
        note = make(name, tmp_path, tiny_store, options).outcome.note
        assert f"FLCert-D, Krum: the median acts in {count} groups, which are too small for the rule." in note
        assert "FedAvg: the median" not in note


def test_the_backdoor_s_trigger_is_on_the_inputs_of_its_curve(tmp_path, tiny_store, certified):
    curves = disjoint(make("backdoor", tmp_path, tiny_store))
    told = certified("attack.name=backdoor", "attack.malicious=1")
    assert same(curves["clean"], told.certified_accuracy)
    assert same(curves["with trigger"], told.attack["certified_accuracy_on_stamped_inputs"])


def test_seeds_gives_mean_and_deviation_of_different_trials(tmp_path, tiny_store, certified):
    rows = [row for row in rows_of(make("seeds", tmp_path, tiny_store)) if row["method"] == "FLCert-D"]
    trials = [certified(), certified("grouping.key=flcert-1", "recipe.seed=1")]
    assert not same(trials[0].certified_accuracy, trials[1].certified_accuracy)
    for row in rows:
        values = [dict(enumerate(one.certified_accuracy)).get(int(row["m"]), 0.0) for one in trials]
        assert float(row["mean"]) == pytest.approx(np.mean(values))
        assert float(row["standard_deviation"]) == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert {row["repeats"] for row in rows} == {"2"}


def test_known_attacks_are_measured_for_each_algorithm_and_method(tmp_path, tiny_store, certified):
    options = OPTIONS.model_copy(update={"malicious": (0, 10), "beta": 1.0})
    rows = rows_of(make("empirical", tmp_path, tiny_store, options))
    value = {(row["algorithm"], row["method"], int(row["m"]), row["metric"]): float(row["value"]) for row in rows}
    assert len(value) == 5 * 3 * 2 * 2
    harmless, harmed = (value["FedAvg", "single global model", m, "test accuracy"] for m in (0, 10))
    assert harmed < harmless  # FedAvg with zero updates learns nothing
    asked = {row["algorithm"]: row["attack"] for row in rows if row["metric"] == "test accuracy"}
    assert asked == {"FedAvg": "zero", "Krum": "krum", "Trimmed-mean": "trim", "Median": "trim", "FLTrust": "trim"}
    setting = ("grouping.num_groups=2", "attack.malicious=10")
    zero, backdoor = (certified(*setting, f"attack.name={name}").attack for name in ("zero", "backdoor"))
    assert zero["accuracy_under_attack"] != zero["accuracy_without_attack"]
    assert backdoor["success_rate_under_attack"] != backdoor["success_rate_without_attack"]
    assert value["FedAvg", "FLCert-D", 10, "test accuracy"] == zero["accuracy_under_attack"]
    assert value["FedAvg", "FLCert-D", 10, "attack success rate"] == backdoor["success_rate_under_attack"]
    assert value["FedAvg", "FLCert-D", 0, "attack success rate"] == backdoor["success_rate_without_attack"]


def test_cost_and_convergence_are_those_of_as_many_rounds(tmp_path, tiny_store, certified):
    cost = make("cost", tmp_path, tiny_store)
    accuracy = {
        int(row["round"]): float(row["accuracy"])
        for row in rows_of(make("convergence", tmp_path, tiny_store))
        if row["model"] == "a group of FLCert-D"
    }
    disjoint = [row for row in rows_of(cost) if row["method"] == "FLCert-D"]
    costs = {int(row["rounds"]): float(row["certified_accuracy"]) for row in disjoint}
    assert costs[1] != costs[2]
    for rounds in (1, 2):
        told = certified(f"recipe.rounds={rounds}")
        assert costs[rounds] == told.certified_accuracy[1]
        first = next(votes for votes in told.votes if votes[0] >= 0)
        assert accuracy[rounds] == np.mean(first == told.truth)
    ((place, label),) = [panel.marked for panel in cost.outcome.panels]
    assert (place, label) == (0.5 * 3, "cost of the single model (T = 3, beta = 0.5)")  # beta T / beta_e


def test_cost_and_convergence_follow_the_rounds(tmp_path, tiny_store):
    costs = rows_of(make("cost", tmp_path, tiny_store))
    assert {(row["method"], row["m"], row["rounds"]) for row in costs} == {
        (method, "1", rounds) for method in ("FLCert-D", "FLCert-P") for rounds in ("1", "2")
    }
    rounds = {}
    for row in rows_of(make("convergence", tmp_path, tiny_store)):
        rounds.setdefault(row["model"], []).append(int(row["round"]))
    assert rounds == {
        "a group of FLCert-D": [1, 2],
        "a group of FLCert-P": [1, 2],
        "single global model": [1, 2, 3],
    }


def test_an_experiment_that_was_stopped_goes_on(tmp_path, store):
    def stop_at_the_second(what):
        if what == "FLCert-P":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("backdoor", tmp_path, store, announce=stop_at_the_second)
    resumed = make("backdoor", tmp_path, store)
    assert resumed.trained > 0
    assert resumed.reused >= GROUPS - 1  # FLCert-D's groups, one of which may be empty


def test_experiments_share_a_page_and_refuse_to_write_over_other_settings(tmp_path, tiny_store):
    make("comparison", tmp_path, tiny_store)
    page = make("groups", tmp_path, tiny_store).page.read_text()
    assert 'id="comparison-tiny"' in page
    assert 'id="groups-tiny"' in page
    assert "http" not in page.replace("http://www.w3.org", "")
    with pytest.raises(InputError, match="belongs to a figure of other settings"):
        make("groups", tmp_path, tiny_store, OPTIONS.model_copy(update={"groups": (3,)}))


def test_the_command_says_what_was_trained_and_what_was_reused(flcert, tmp_path):
    settings = [option for setting in SETTING for option in ("--set", setting)]
    common = ("reproduce", "groups", "--preset", "digits", "--scale", 0.1, *settings, "--groups", 2, "-q")
    result = flcert(*common, "--engine", "inline")
    assert result.code == 0, result.err
    assert result.out.startswith("groups-digits-scale-0.1: 4 groups trained, 0 reused from the store\n")
    again = flcert(*common, "--engine", "inline", "--json")
    printed = json.loads(again.out)
    assert printed["groups"] == {"trained": 0, "reused": 4}
    assert printed["rows"][0]["method"] == "FLCert-D"
    assert (tmp_path / "results" / "groups-digits-scale-0.1.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("compare",), "unknown experiment 'compare'; did you mean 'comparison'?"),
        (("groups", "--preset", "digit"), "unknown preset 'digit'; did you mean 'digits'?"),
        (("groups", "--preset", "digits", "--groups", 0), "--groups must be greater than 0, got 0"),
        (("seeds", "--preset", "digits", "--repeats", 1), "--repeats must be greater than or equal to 2, got 1"),
        (("comparison", "--preset", "digits", "--beta", 0), "--beta must be greater than 0, got 0.0"),
        (
            ("groups", "--preset", "digits", "--set", 'grouping={kind="enumerated",group_size=1}'),
            "start from hashed groups",
        ),
        (("groups", "--preset", "digits", "--groups", 300), "num_groups must be in [1, num_clients=200], got 300"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("reproduce", *options, "-q", "--engine", "inline", "--set", "recipe.rounds=1")
    assert result.code == 2
    assert message in result.err
