"""``flcert train-group``: groups trained one command at a time, and found by ``flcert run``."""

import json

import pytest

SETTING = ("--clients", 12, "--groups", 4, "--rounds", 2, "--engine", "inline", "--out", "run")


def counts(result):
    assert result.code == 0, result.err
    return json.loads(result.out)["groups"]


@pytest.fixture
def prepared(flcert):
    result = flcert("run", *SETTING, "--prepare")
    assert result.code == 0, result.err
    assert result.out == "4 groups, numbered from 0 to 3\nrun directory: run\n"


def test_a_prepared_run_holds_its_configuration_and_nothing_else(flcert, tmp_path, prepared):
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]
    assert not (tmp_path / "cache").exists()
    assert json.loads(flcert("run", *SETTING, "--prepare", "--json").out) == {"directory": "run", "groups": 4}


def test_groups_trained_one_by_one_are_not_trained_again_and_have_the_same_bytes(flcert, tmp_path, prepared):
    for group in range(4):
        assert counts(flcert("train-group", "--run", "run", "--group", group, "--json")) == {"trained": 1, "reused": 0}
    assert counts(flcert("train-group", "--run", "run", "--group", 2, "--json")) == {"trained": 0, "reused": 1}
    assert counts(flcert("run", *SETTING, "--json"))["trained"] == 0
    alone = flcert("run", *SETTING[:-1], "alone", "--cache", "another", "--json")
    assert counts(alone)["trained"] == 4
    for group in range(4):
        name = f"models/group-{group:05d}.safetensors"
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_group_keeps_its_own_seed_and_algorithm(flcert):
    options = (*SETTING, "--set", "recipe.seeds=per-group", "--set", "recipe.variants=[{}, {aggregator='median'}]")
    assert flcert("run", *options, "--prepare").code == 0
    assert counts(flcert("train-group", "--run", "run", "--group", 3, "--json"))["trained"] == 1
    result = counts(flcert("run", *options, "--json"))
    assert (result["trained"], result["reused"]) == (3, 1)


def test_ranges_and_several_groups(flcert, prepared):
    first = flcert("train-group", "--run", "run", "--group", "0-1", "--group", 1, "--group", 3, "--json")
    assert counts(first) == {"trained": 3, "reused": 0}
    assert counts(flcert("run", *SETTING, "--json"))["trained"] == 1


def test_groups_under_the_attack_of_the_configuration_are_trained_too(flcert):
    options = (*SETTING, "--attack", "zero", "--malicious", 12)
    assert flcert("run", *options, "--prepare").code == 0
    assert counts(flcert("train-group", "--run", "run", "--group", "0-3", "--json")) == {"trained": 8, "reused": 0}
    result = counts(flcert("run", *options, "--json"))
    assert (result["trained"], result["trained_under_attack"]) == (0, 0)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (4, "group must be in [0, 3], got 4"),
        ("2-7", "group must be in [0, 3], got 4"),
        ("-1", "group must be a number or a range such as 0-9, got '-1'"),
        ("3-1", "a range of groups must not go backwards, got '3-1'"),
        ("0-99999999999", "group must be in [0, 999999], got 99999999999"),
        ("all", "group must be a number or a range such as 0-9, got 'all'"),
    ],
)
def test_a_wrong_number_is_refused(flcert, prepared, group, message):
    result = flcert("train-group", "--run", "run", "--group", group)
    assert result.code == 2
    assert message in result.err


def test_a_directory_without_a_configuration_is_refused(flcert):
    result = flcert("train-group", "--run", "nowhere", "--group", 0)
    assert result.code == 2
    assert "nowhere is not a run directory (no config.json); `flcert run --prepare` makes one" in result.err


def test_a_group_that_fails_is_an_error(flcert, tmp_path):
    (tmp_path / "angry.py").write_text(
        "def rule():\n"
        "    def aggregate(given):\n"
        "        if given.updates.abs().sum() > 0: raise RuntimeError('no')\n"
        "        return given.updates[0]\n"
        "    return aggregate\n"
    )
    assert flcert("run", *SETTING, "--set", "recipe.aggregator=angry:rule", "--prepare").code == 0
    result = flcert("train-group", "--run", "run", "--group", 1)
    assert result.code == 1
    assert "group 1 could not be trained: RuntimeError: no" in result.err
