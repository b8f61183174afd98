"""A sweep checks every combination before it trains any, loses nothing when one fails, and compares the rest."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from flcert.core.store import Store
from flcert.pipeline import sweep as module
from flcert.pipeline.sweep import combined, default_directory, directory_name, variation
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory

ANY_CLIENTS = ("--set", "data.options.num_test=40", "--set", "recipe.rounds=2", "--engine", "inline", "-q")
HERE = ("--set", "data.options.num_clients=20", *ANY_CLIENTS)


def rows(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.draws
def test_every_combination_is_a_run_and_the_comparison_has_its_figures(flcert):
    command = ("sweep", *HERE, "--vary", "grouping.num_groups=4,6", "--vary", "recipe.aggregator=fedavg,median")
    result = flcert(*command, "--out", "s", "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    names = ["num_groups=4,aggregator=fedavg", "num_groups=4,aggregator=median"]
    names += ["num_groups=6,aggregator=fedavg", "num_groups=6,aggregator=median"]
    assert [row["setting"].replace(", ", ",") for row in told["settings"]] == names
    assert told["groups"] == {"trained": 20, "reused": 0}
    table = rows(Path("s/comparison.csv"))
    for name, row in zip(names, table, strict=True):
        run = RunDirectory.open(Path("s") / name)
        assert run.config().recipe.aggregator.name in name
        assert len(run.manifest().groups) == int(row["groups"])
        assert run.summary().certified_accuracy[1] == float(row["certified_accuracy_at_1"])
        assert sum(run.summary().certified_accuracy[1:]) == pytest.approx(float(row["area"]))
        assert flcert("certify", run.path).code == 0
    assert all(row[key] == "" for row in table for key in row if key.endswith(("_mark", "_deviation")))
    for name in ("comparison.png", "comparison.svg", "comparison.pdf", "comparison.html", "comparison-curves.csv"):
        assert Path("s", name).stat().st_size > 500
    again = json.loads(flcert(*command, "--out", "s", "--json").out)
    assert again["groups"] == {"trained": 0, "reused": 20}
    assert again["settings"] == told["settings"]


def test_the_page_needs_no_network_and_warns_of_choosing(flcert):
    result = flcert("sweep", *HERE, "--vary", "grouping.num_groups=3,4")
    assert result.code == 0, result.err
    (directory,) = Path("runs").glob("sweep-*")
    page = (directory / "comparison.html").read_text()
    assert [target for target in re.findall(r'(?:src|href)="(.*?)"', page) if target.startswith(("http", "//"))] == []
    for text in (page, result.out):
        assert "choosing by results that clients influenced lets one client influence every group" in text
    assert "num_groups%3D3/report.html" in page
    assert (directory / "num_groups=3" / "report.html").exists()


def test_repeats_have_other_seeds_and_those_that_were_run_before_are_reused(flcert):
    command = ("sweep", *HERE, "--vary", "grouping.num_groups=3,4", "--json")
    assert json.loads(flcert(*command).out)["groups"] == {"trained": 7, "reused": 0}
    result = flcert(*command, "--repeats", "3")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["groups"] == {"trained": 14, "reused": 7}
    (directory,) = Path("runs").glob("sweep-*")
    configs = [RunDirectory.open(directory / f"num_groups=4{end}").config() for end in ("", ",repeat=2", ",repeat=3")]
    assert [config.recipe.seed for config in configs] == [0, 1, 2]
    assert len({config.grouping.key for config in configs}) == 3
    assert [row["repeats"] for row in told["settings"]] == [3, 3]
    assert {one["figure"] for one in told["differences"]} >= {"accuracy", "area", "certified_accuracy_at_0"}


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["grouping.num_groups=4", "recipe.aggregator=fedavg,medain"], "num_groups=4,aggregator=medain: unknown agg"),
        (["recipe.aggregator=fedavg,krum", "grouping.num_groups=4,0"], "aggregator=fedavg,num_groups=0: grouping.num"),
        (
            ["grouping.group_size=3,30", "grouping.kind=sampled"],
            "group_size=30,grouping=sampled: group_size must be in",
        ),
        (["recipe.model.options.hidden=[8],[8, -1]", "grouping.num_groups=4"], "hidden=[8, -1],num_groups=4: "),
        (
            ["data.options.num_clients=20,3", "grouping.num_groups=4"],
            "num_clients=3,num_groups=4: num_groups must be in",
        ),
    ],
)
def test_a_combination_that_cannot_be_is_named_before_anything_trains(flcert, options, refusal):
    asked = [part for option in options for part in ("--vary", option)]
    result = flcert("sweep", *(ANY_CLIENTS if "num_clients" in refusal else HERE), *asked, "--out", "s")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {refusal}")
    assert len(result.err.splitlines()) == 1
    assert list(Store().entries()) == []
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ((), "a sweep varies something"),
        (("--vary", "recipe.rounds"), "must look like key=value,value, got 'recipe.rounds'"),
        (("--vary", "recipe.rounds="), "recipe.rounds needs a value"),
        (("--vary", "recipe.rounds=2,,3"), "recipe.rounds needs a value on either side of each comma, got '2,,3'"),
        (("--vary", "recipe.rounds=2,2"), "recipe.rounds has the value 2 twice"),
        (("--vary", "recipe.learning_rate=0.5,5e-1"), "learning_rate=0.5 and learning_rate=5e-1 are the same"),
        (("--vary", "recipe.local_steps=2", "--vary", "recipe.local_steps=3"), "recipe.local_steps is varied twice"),
        (("--vary", "recipe.rounds=2,3"), "recipe.rounds is both varied and set"),
        (("--vary", "recipe.model.options.hidden=[8,[4]"), "brackets and quotes must be closed, got '[8,[4]'"),
        (("--vary", "grouping.num_group=3,4"), "did you mean 'grouping.num_groups'?"),
        (("--vary", "recipe.seed=1,2", "--repeats", "2"), "repeats have seeds of their own"),
        (("--vary", "grouping.key=a,b", "--repeats", "2"), "key=a,repeat=2 and key=b,repeat=2 are the same"),
        (("--vary", "grouping.num_groups=3,4", "--repeats", "0"), "repeats must be in [1, 1000], got 0"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(flcert, arguments, refusal):
    result = flcert("sweep", *HERE, *arguments)
    assert (result.code, result.out) == (2, "")
    assert refusal in result.err
    assert len(result.err.splitlines()) == 1


def test_a_directory_of_another_sweep_is_refused_before_anything_trains(flcert):
    assert flcert("sweep", *HERE, "--vary", "grouping.num_groups=3", "--out", "s").code == 0
    changed = ("--set", "recipe.local_steps=7")
    result = flcert("sweep", *HERE, *changed, "--vary", "grouping.num_groups=2,3", "--out", "s")
    assert result.code == 2
    assert "num_groups=3: s/num_groups=3 holds a run of another configuration" in result.err
    assert not Path("s/num_groups=2").exists()


def test_the_directory_of_a_run_is_no_place_for_a_sweep(flcert):
    assert flcert("run", *HERE, "--set", "grouping.num_groups=2", "--out", "r").code == 0
    before = sorted(Path("r").iterdir())
    result = flcert("sweep", *HERE, "--vary", "grouping.num_groups=2,3", "--out", "r")
    assert (result.code, result.err) == (2, "error: r holds a run; choose another --out\n")
    assert sorted(Path("r").iterdir()) == before


OWN_RULE = """
def rule(fail=False):
    def mean(given):
        if fail and given.updates.any():  # it is tried out with zeros before training
            raise OSError("no such luck")
        return given.updates.mean(dim=0)
    return mean
"""


def test_a_combination_that_fails_leaves_the_others_and_is_tried_again(flcert):
    Path("mine.py").write_text(OWN_RULE)
    own = ("--set", "recipe.aggregator.name=mine:rule", "--set", "grouping.num_groups=3")
    command = ("sweep", *HERE, *own, "--vary", "recipe.aggregator.options.fail=true,false", "--out", "s")
    result = flcert(*command)
    assert result.code == 1
    assert "warning: fail=true failed:" in result.err
    assert "no such luck" in result.err
    assert result.err.splitlines()[-1] == "error: 1 of 2 runs failed; the same command tries them again"
    assert "3 groups trained" in result.out
    assert len(rows(Path("s/comparison.csv"))) == 1
    told = json.loads(flcert(*command, "--json").out)
    assert list(told["failed"]) == ["fail=true"]
    assert told["groups"] == {"trained": 0, "reused": 3}


def test_not_even_an_error_that_nobody_expected_stops_the_others(flcert, monkeypatch):
    def broken(context, ready):
        return 1 / 0 if len(ready.grouping) == 2 else run_ready(context, ready)

    run_ready = module.run_ready
    monkeypatch.setattr(module, "run_ready", broken)
    result = flcert("sweep", *HERE, "--vary", "grouping.num_groups=2,3", "--out", "s", "--json")
    assert result.code == 1
    told = json.loads(result.out)
    assert told["failed"] == {"num_groups=2": "unexpected ZeroDivisionError: division by zero"}
    assert len(told["settings"]) == 1


def test_a_sweep_in_which_all_fail_says_so(flcert):
    Path("mine.py").write_text(OWN_RULE)
    own = ("--set", "recipe.aggregator.name=mine:rule", "--set", "recipe.aggregator.options.fail=true")
    result = flcert("sweep", *HERE, *own, "--vary", "grouping.num_groups=2,3", "--out", "s", "--json")
    assert result.code == 1
    assert list(json.loads(result.out)["failed"]) == ["num_groups=2", "num_groups=3"]
    assert not Path("s/comparison.csv").exists()


def test_data_are_loaded_once_for_all_combinations_that_share_them(flcert, monkeypatch):
    loaded, load = [], module.federation_of
    monkeypatch.setattr(module, "federation_of", lambda config: loaded.append(config.data) or load(config))
    varied = ("--vary", "grouping.num_groups=3,4", "--vary", "recipe.local_steps=1,2")
    assert flcert("sweep", *HERE, *varied, "--out", "s").code == 0
    assert len(loaded) == 1
    loaded.clear()
    varied = ("--vary", "recipe.local_steps=1,2", "--vary", "data.options.num_clients=10,20")
    result = flcert("sweep", *ANY_CLIENTS, "--set", "grouping.num_groups=3", *varied, "--out", "t")
    assert result.code == 0, result.err
    assert [data.options["num_clients"] for data in loaded] == [
        10,
        20,
        10,
        20,
    ]  # one at a time: to check, then to train
    assert "m counts clients, and these runs have from 10 to 20 of them." in result.out


def test_the_commands_of_the_planning_page_run_and_print_what_it_says(flcert):
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    section = re.split(r"^## ", page.partition("## Sweeps and comparisons\n")[2], flags=re.MULTILINE)[0]
    first, second = re.findall(r"```sh\nflcert (.*?)\n```", section)
    (printed,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    shown = flcert(*shlex.split(first), "--engine", "inline", "-q").out.split("\n\n")[1]
    assert shown.splitlines()[0] == printed.splitlines()[0]
    assert [line.split()[0] for line in shown.splitlines()] == [line.split()[0] for line in printed.splitlines()]
    shares = [[float(share) for share in re.findall(r"([\d.]+)%", text)] for text in (shown, printed)]
    assert shares[0] == pytest.approx(shares[1], abs=2)  # another processor may round a vote
    assert "\nsmall    " in flcert(*shlex.split(second)).out


def named(*texts, repeats=1):
    return combined(lambda changes: load_config(overrides=changes), [variation(text) for text in texts], repeats)


def test_names_are_short_where_they_can_be_and_fit_a_file_system():
    names = [one.name for one in named("recipe.model.options.hidden=[8],[8,4]", "recipe.seed=1,2")]
    assert names == ["hidden=[8],seed=1", "hidden=[8],seed=2", "hidden=[8,4],seed=1", "hidden=[8,4],seed=2"]
    folders = [directory_name(name) for name in names]
    assert len(set(folders)) == 4
    assert all(re.fullmatch(r"[\w.,=+-]+", folder) for folder in folders)
    assert directory_name("a=x/y") != directory_name("a=x-y") == "a=x-y"
    assert len(directory_name("a" * 500)) < 200


def test_more_values_go_into_the_same_directory_and_other_settings_into_another():
    def place(*texts, repeats=1):
        return default_directory(named(*texts, repeats=repeats), [variation(text) for text in texts])

    assert place("grouping.num_groups=3,4") == place("grouping.num_groups=3,4,5", repeats=2)
    assert place("grouping.num_groups=3") == place("grouping.num_groups=4")
    assert place("grouping.num_groups=3,4") != place("recipe.rounds=3,4")
