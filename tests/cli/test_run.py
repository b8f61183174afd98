"""``flcert run`` and what it writes."""

import json
import sys

import numpy as np
import pytest

from flcert import certify, voting

SMALL = ("--clients", 12, "--groups", 4, "--rounds", 2, "--engine", "inline", "--out", "run")


def test_it_shows_progress_a_table_a_sentence_and_where_the_page_is(flcert, tmp_path):
    result = flcert("run", *SMALL, "--rounds", 15)
    assert result.code == 0
    assert "training groups" in result.err
    assert "certified accuracy" in result.out
    assert "accuracy without attack" in result.out
    assert "of the 12 clients does, at least" in result.out
    assert "run directory: run" in result.out
    page = (tmp_path / "run" / "report.html").read_text()
    curve = json.loads((tmp_path / "run" / "summary.json").read_text())["certified_accuracy"]
    assert curve[1] < curve[0]
    sentence = (
        f"Whatever any one of the 12 clients does, at least {round(450 * curve[1])} of these 450 test inputs "
        f"({curve[1]:.1%}) keep their right label."
    )
    assert sentence in " ".join(result.out.split())
    assert sentence in " ".join(page.split())
    assert "http" not in page.replace("http-equiv", "")
    assert sorted(file.name for file in (tmp_path / "run" / "figures").iterdir()) == [
        f"{name}.{form}" for name in ("curve", "levels", "sizes") for form in ("pdf", "png", "svg")
    ]


def test_what_it_writes_fits_together(flcert, tmp_path):
    result = json.loads(flcert("run", *SMALL, "--json").out)
    directory = tmp_path / "run"
    votes, truth = np.load(directory / "votes.npy"), np.load(directory / "truth.npy")
    certificate = certify.disjoint(voting.count(votes, 10))
    curve = certify.certified_accuracy(certificate, truth)
    assert result["certified_accuracy"] == curve.tolist()
    assert result["accuracy"] == curve[0]
    assert json.loads((directory / "summary.json").read_text())["certified_accuracy"] == curve.tolist()
    rows = (directory / "certificate.csv").read_text().splitlines()
    assert rows[0] == "input,truth,label,level,abstained"
    assert rows[1] == f"0,{truth[0]},{certificate.labels[0]},{certificate.levels[0]},0"
    groups = json.loads((directory / "groups.json").read_text())["groups"]
    manifest = json.loads((directory / "manifest.json").read_text())
    assert [len(users) for users in groups] == [entry["clients"] for entry in manifest["groups"]]
    assert sum(map(len, groups)) == 12
    models = [entry["model"] for entry in manifest["groups"]]
    assert [model is None for model in models] == [(vote == -1).all() for vote in votes]


def test_the_same_command_again_reuses_everything_and_says_so(flcert):
    assert "4 groups trained, 0 reused" in flcert("run", *SMALL).out
    assert "0 groups trained, 4 reused" in flcert("run", *SMALL).out


def test_the_written_configuration_repeats_the_run(flcert, tmp_path):
    flcert("run", *SMALL)
    result = flcert("run", "run/config.json", "--engine", "inline", "--out", "again")
    assert result.code == 0
    for name in ("votes.npy", "certificate.csv", "manifest.json", "report.html"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("--grouping", "sampled", "--group-size", 3, "--groups", 30), "sampled"),
        (("--grouping", "enumerated", "--group-size", 11), "enumerated"),
    ],
)
def test_flcert_p(flcert, options, kind):
    common = ("--clients", 12, "--rounds", 2, "--engine", "inline", "--json", "--out", "run")
    result = flcert("run", *options, *common)
    assert result.code == 0, result.err
    assert json.loads(result.out)["certificate"] == kind
    assert flcert("certify", "run").code == 0


def test_evaluation_points_are_drawn_along_the_rounds(flcert, tmp_path):
    assert flcert("run", *SMALL, "--set", "recipe.evaluate_at=[1]").code == 0
    rows = (tmp_path / "run" / "rounds.csv").read_text().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == {"1", "2"}
    assert (tmp_path / "run" / "figures" / "rounds.svg").exists()


def test_a_group_that_fails_is_reported_and_charged(flcert, tmp_path, monkeypatch):
    (tmp_path / "grumpy.py").write_text(
        "def rule():\n"
        "    def aggregate(given):\n"
        "        if len(given.sizes) == 4: raise RuntimeError('four is too many')\n"
        "        return given.updates.mean(0)\n"
        "    return aggregate\n"
    )
    result = flcert("run", *SMALL, "--grouping", "hashed", "--set", "recipe.aggregator=grumpy:rule")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    failed = [group for group, entry in enumerate(manifest["groups"]) if entry["clients"] == 4]
    assert failed
    assert result.code == 0
    assert f"group {failed[0]} casts no vote and counts as one for the strongest rival" in result.err
    assert manifest["guarantee"]["num_failed"] == len(failed)
    assert "four is too many" in (tmp_path / "run" / "report.html").read_text()


RULE = """
def rule():
    def aggregate(given):
        if given.updates.abs().sum() > 0: raise RuntimeError("no")
        return given.updates[0]
    return aggregate
"""


def test_groups_too_small_for_their_rule_are_in_the_manifest(flcert, tmp_path):
    options = ("--clients", 30, "--groups", 8, "--rounds", 1, "--engine", "inline", "--out", "run")
    assert flcert("run", *options, "--set", "recipe.aggregator=krum").code == 0
    groups = json.loads((tmp_path / "run" / "manifest.json").read_text())["groups"]
    assert {group["substitute"] for group in groups} == {"median", None}
    assert all((group["substitute"] == "median") == (group["clients"] < 4) for group in groups)


def test_a_run_in_which_every_group_fails_is_an_error(flcert, tmp_path):
    (tmp_path / "hopeless.py").write_text(RULE)
    result = flcert("run", *SMALL, "--set", "recipe.aggregator=hopeless:rule")
    assert result.code == 1
    assert "no group could be trained; group 0: RuntimeError: no" in result.err


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "must give torch.float32 of shape (4810,), got NoneType"),
        ("given.updates.mean()", "must give torch.float32 of shape (4810,), got torch.float32 of shape ()"),
        ("given.updates.long()[0]", "got torch.int64 of shape (4810,)"),
        ("1 / 0", "aggregator 'wrong:rule' raised ZeroDivisionError: division by zero"),
    ],
)
def test_an_aggregator_that_gives_something_else_is_refused_before_training(flcert, tmp_path, returned, message):
    (tmp_path / "wrong.py").write_text(f"def rule():\n    return lambda given: {returned}\n")
    result = flcert("run", *SMALL, "--set", "recipe.aggregator=wrong:rule")
    assert result.code == 2
    assert message in result.err
    sys.modules.pop("wrong")


def test_models_that_diverged_are_pointed_out(flcert, tmp_path):
    result = flcert("run", *SMALL, "--set", "recipe.learning_rate=1e38")
    assert result.code == 0
    assert "4 models are not finite and vote for label 0" in result.err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [entry["finite"] for entry in manifest["groups"]] == [False] * 4


def test_brackets_in_names_are_printed_as_they_are(flcert, tmp_path):
    (tmp_path / "moody.py").write_text(
        "def rule():\n"
        "    def aggregate(given):\n"
        "        if len(given.sizes) == 4: raise RuntimeError('bad [/b] thing')\n"
        "        return given.updates.mean(0)\n"
        "    return aggregate\n"
    )
    options = ("--clients", 13, "--groups", 4, "--rounds", 1, "--engine", "inline", "--out", "x[/b]y")
    result = flcert("run", *options, "--set", "recipe.aggregator=moody:rule")
    assert result.code == 0
    assert "bad [/b] thing" in result.err
    assert "run directory: x[/b]y" in result.out


def test_the_default_directory_is_in_runs_whatever_the_data_is_called(flcert, tmp_path):
    (tmp_path / "odd.py").write_text(
        "import numpy as np\n"
        "from flcert import Federation\n"
        "def load():\n"
        "    data = (np.ones((2, 3)), np.array([0, 1]))\n"
        "    return Federation.build('../../evil/[/b]', {'ann': data, 'bob': data}, data)\n"
    )
    options = ("--groups", 1, "--rounds", 1, "--engine", "inline", "--set", "data=odd:load")
    assert flcert("run", *options).code == 0
    assert [path.parent.name for path in tmp_path.rglob("manifest.json")] == [
        path.name for path in (tmp_path / "runs").iterdir()
    ]


MISTAKES = [
    (("--preset", ""), "unknown preset ''"),
    (("--set", "recipe.smoothing.sigmo=1"), "did you mean 'recipe.smoothing.sigma'?"),
    (("--attack", "zero", "--set", "attack.malicious=[]"), "must be a number from 1 or a list of user ids, got []"),
    (("--set", "recipe.model=builtins:dict"), "must be a torch.nn.Module, got dict"),
    (("--set", "recipe=3"), "recipe must be a table, got 3"),
    (("--set", "recipe.model.options.hidden=[-2]"), "option 'hidden.0' of model 'mlp' must be greater than 0, got -2"),
    (("--cache", "SETTINGS"), "SETTINGS must be a directory, got a file"),
    (("--grouping", "sampled", "--group-size", 2, "--set", "recipe.seeds=per-group"), "must all train alike"),
    (("--set", "recipe.ronds=3"), "unknown setting 'recipe.ronds'; did you mean 'recipe.rounds'?"),
    (("--set", "recipe.model=mpl"), "unknown model 'mpl'; did you mean 'mlp'?"),
    (("--set", "recipe.aggregator=fedag"), "unknown aggregator 'fedag'; did you mean 'fedavg'?"),
    (("--set", "data=digit"), "unknown data set 'digit'; did you mean 'digits'?"),
    (("--set", "grouping.kind=hash"), "unknown grouping.kind 'hash'; did you mean 'hashed'?"),
    (
        ("--set", "grouping.group_size=3"),
        "grouping.group_size goes with grouping.kind sampled or enumerated, got kind 'balanced'",
    ),
    (("--groups", 13), "num_groups must be in [1, num_clients=12], got 13"),
    (("--grouping", "sampled"), "grouping.group_size is needed, but was not given"),
    (("--grouping", "sampled", "--group-size", 13), "group_size must be in [1, num_clients=12], got 13"),
    (("--alpha", 0), "certificate.alpha must be greater than 0, got 0.0"),
    (("--alpha", 1), "certificate.alpha must be less than 1, got 1.0"),
    (("--rounds", 0), "recipe.rounds must be greater than 0, got 0"),
    (("--set", "recipe.learning_rate=nan"), "recipe.learning_rate must be a finite number, got nan"),
    (("--set", "recipe.participation=1.5"), "recipe.participation must be less than or equal to 1, got 1.5"),
    (("--set", "recipe.reduction=avg"), "recipe.reduction must be 'mean' or 'sum', got 'avg'"),
    (("--set", "recipe.evaluate_at=[9]"), "evaluate_at must be in [1, rounds=2], got 9"),
    (("--set", "recipe.model.options.hiden=[3]"), "unknown option of model 'mlp': 'hiden'; did you mean 'hidden'?"),
    (("--set", "rounds"), "an override must look like key=value, got 'rounds'"),
    (("--engine", "proceses"), "unknown engine 'proceses'; did you mean 'processes'?"),
    (("--workers", 0), "workers must be at least 1, got 0"),
    (("--out", "/proc/run"), "directory /proc/run cannot be written"),
    (("--cache", "/proc/cache"), "cannot be written"),
    (("missing.toml",), "cannot read the configuration missing.toml: No such file or directory"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_gives_a_message_and_code_2_and_leaves_nothing_behind(flcert, tmp_path, options, message):
    (tmp_path / "SETTINGS").write_text("a file where a directory should be")
    result = flcert("run", *SMALL, *options)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "run" / "models").exists()


def test_a_broken_file_is_refused(flcert, tmp_path):
    (tmp_path / "broken.toml").write_text("rounds = = 3")
    assert "broken.toml is not valid TOML" in flcert("run", "broken.toml").err
    (tmp_path / "broken.json").write_text("{")
    assert "broken.json is not valid JSON" in flcert("run", "broken.json").err
    (tmp_path / "list.json").write_text("[]")
    assert "list.json must hold a table of settings, got list" in flcert("run", "list.json").err
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "binary.toml is not a text file" in flcert("run", "binary.toml").err
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert "deep.json is not valid JSON" in flcert("run", "deep.json").err


def test_a_bug_of_ours_is_one_line_and_code_1(flcert, monkeypatch):
    monkeypatch.setattr("flcert.pipeline.run.run", lambda *_, **__: 1 / 0)
    result = flcert("run", *SMALL)
    assert result.code == 1
    assert (
        result.err.strip() == "error: unexpected ZeroDivisionError: division by zero (FLCERT_TRACEBACK=1 shows where)"
    )


def test_what_a_user_s_code_raises_is_told_in_one_line(flcert, tmp_path):
    (tmp_path / "two_lines.py").write_text("def net(num_labels):\n    raise ValueError('no good\\n  at all')\n")
    result = flcert("run", *SMALL, "--set", "recipe.model=two_lines:net")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: model 'two_lines:net' raised ValueError: no good at all\n"
