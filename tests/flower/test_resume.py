"""A server that restarts trains only what is missing."""

from functools import partial

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg, Krum

from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.grouping import Sampled
from flcert.runs.directory import RunDirectory
from flcert.training import Recipe
from tests.flower.models import group_of, model_bytes

VICTIM = 3


def trained_by(grid):
    return {partition for partition, kind in grid.log if kind == "train"}


def test_a_finished_run_trains_nobody_again(network, train):
    first = train(network({VICTIM: "nan"}))
    before = {path.name: path.read_bytes() for path in first.directory.iterdir() if path.suffix in (".json", ".npy")}
    again = network()
    second = train(again)
    assert trained_by(again) == set()
    assert (second.ensemble.trained, second.ensemble.reused) == (0, first.ensemble.trained)
    assert {path.name: path.read_bytes() for path in first.directory.iterdir() if path.name in before} == before
    assert any(entry.dropped for entry in RunDirectory.open(second.directory).manifest().groups)


@pytest.mark.parametrize("rule", ["fedavg", "fedyogi"])
def test_a_server_that_is_stopped_goes_on_where_it_was(rule, network, train, tmp_path):
    given = Recipe(rounds=3, local_steps=2, aggregator=Choice(name=rule))
    train = partial(train, recipe=given)
    whole = train(network(), directory=tmp_path / "whole").ensemble
    progressed = []

    def stop_after_two(stage, done, total):
        progressed.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(network(), concurrent=1, progress=stop_after_two)
    there = len(list((tmp_path / "run" / "models").iterdir()))
    assert there >= 1
    again = network()
    resumed = train(again).ensemble
    assert (resumed.reused, resumed.trained) == (there, whole.trained - there)
    reused = [group for group in range(4) if len(whole.grouping.members[group])][:there]
    assert not trained_by(again) & {int(one) for group in reused for one in whole.grouping.members[group]}
    assert model_bytes(resumed) == model_bytes(whole)


@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), lambda file: file.unlink()])
def test_a_group_whose_record_of_dropped_replies_is_damaged_or_gone_is_trained_again(network, train, damage):
    first = train(network())
    group = group_of(first.ensemble, VICTIM)
    damage(first.directory / "dropped" / f"group-{group:05d}.json")
    again = network()
    second = train(again).ensemble
    assert trained_by(again) == {int(one) for one in first.ensemble.grouping.members[group]}
    assert model_bytes(second) == model_bytes(first.ensemble)


def test_a_damaged_model_is_trained_again(network, train):
    first = train(network()).ensemble
    group = group_of(first, VICTIM)
    file = RunDirectory(train(network()).directory).model(group)
    intact = file.read_bytes()
    file.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
    again = network()
    assert train(again).ensemble.trained == 1
    assert trained_by(again) == set(first.grouping.members[group].tolist())
    assert file.read_bytes() == intact


def test_a_group_that_failed_is_tried_again(network, train):
    members = train(network()).ensemble
    group = group_of(members, VICTIM)
    clients = members.grouping.members[group].tolist()
    failed = train(network(dict.fromkeys(clients, "raises")), directory=members_directory(train, network, "second"))
    assert list(failed.ensemble.failures) == [group]
    again = network()
    assert not train(again, directory=failed.directory).ensemble.failures
    assert trained_by(again) == set(clients)


def members_directory(train, network, name):
    return train(network()).directory.with_name(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("plan.FLOWER_VERSION", 99), ("plan.version", lambda _: "99"), ("plan.recipe_sources", lambda _: ["other text"])],
    ids=["our version", "Flower's version", "sources"],
)
def test_models_of_other_versions_are_trained_again(name, value, network, train, monkeypatch):
    first = train(network()).ensemble
    monkeypatch.setattr(f"flcert.flower.{name}", value)
    assert train(network()).ensemble.trained == first.trained


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": Recipe(rounds=2)},
        {"recipe": Recipe(rounds=3, local_steps=2, seed=1)},
        {"groups": 3},
        {"strategy": FedAvg},
        {"strategy": Krum},
        {"train_config": {"lr": 0.1}},
        {"initial": "zeros"},
    ],
    ids=str,
)
def test_another_setting_does_not_take_over_a_directory(options, network, train):
    first = train(network())
    if "initial" in options:
        arrays = first.ensemble.load(next(iter(first.ensemble.model_keys().values())))
        options = {"initial": {name: np.zeros_like(array) for name, array in arrays.items()}}
    with pytest.raises(InputError, match="holds a run of another configuration"):
        train(network(), **options)


def test_the_same_sampled_group_drawn_twice_is_trained_once(network, train):
    grid = network()
    twice = Sampled(num_groups=60, group_size=1)
    result = train(grid, groups=twice)
    assert result.ensemble.trained == 9 < 60
    assert len([kind for _, kind in grid.log if kind == "train"]) == 9 * 3
    assert len(list((result.directory / "models").iterdir())) == 60


def test_other_code_settings_or_initial_arrays_have_other_keys(network, train, tmp_path):
    keys = set()
    first = train(network(), directory=tmp_path / "0").ensemble
    start = first.load(first.model_keys()[0])
    options = [
        {},
        {"strategy": FedAvg},
        {"initial": start},
        {"train_config": {"epochs": 2}},
        {"recipe": Recipe(seed=1)},
    ]
    for number, changed in enumerate(options):
        grid = network()
        result = train(grid, directory=tmp_path / f"run-{number}", **{"recipe": Recipe(rounds=1), **changed})
        keys |= set(result.ensemble.model_keys().values())
    assert len(keys) == len(options) * first.trained
