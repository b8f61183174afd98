"""One group's training: the arithmetic against a naive loop, and what its key covers."""

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from torch.nn import functional

from flcert import attacks, models
from flcert.attacks import AttackPlan
from flcert.core import plugins
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.datasets import Federation, load
from flcert.engines import Inline, Processes, Workers
from flcert.errors import InputError, RunError
from flcert.grouping import hashed, sampled
from flcert.training import Recipe, train
from flcert.training.context import Context
from flcert.training.group import train_group
from flcert.training.keys import model_entry, recipe_sources
from flcert.training.rounds import participants
from flcert.training.smoothing import Smoothing
from flcert.training.start import initial_digest
from flcert.training.tasks import GroupTask
from flcert.training.train import train_groups

FEDERATION = load("digits", num_clients=30, num_test=60)


def naive_fedavg(federation, members, recipe, seed):
    """FedAvg written with the optimiser and the loss that a user would write, on the same batches."""
    model = models.build(recipe.model, federation.input_shape, federation.num_labels, seed)
    for number in range(1, recipe.rounds + 1):
        start = {name: value.clone() for name, value in model.state_dict().items()}
        total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in start.items()}
        examples = sum(len(federation.client(client)[1]) for client in members)
        for client in members:
            model.load_state_dict(start)
            inputs, labels = (torch.tensor(array) for array in federation.client(client))
            optimiser = torch.optim.SGD(model.parameters(), lr=recipe.learning_rate)
            rows = np.tile(np.arange(len(labels)), (recipe.local_steps, 1))
            draws = stream(seed, "batches", federation.ids[client], number).permuted(rows, axis=1)
            for batch in draws[:, : recipe.batch_size]:
                optimiser.zero_grad()
                functional.cross_entropy(model(inputs[batch]), labels[batch], reduction=recipe.reduction).backward()
                optimiser.step()
            for name, value in model.state_dict().items():
                total[name] += value.double() * len(labels) / examples
        model.load_state_dict({name: value.float() for name, value in total.items()})
    return model.state_dict()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_training_is_fedavg_weighted_by_data_size(reduction):
    rng = np.random.default_rng(0)
    clients = {
        f"user-{size}": (rng.normal(size=(size, 8)).astype(np.float32), rng.integers(0, 3, size))
        for size in (3, 20, 50)
    }
    federation = Federation.build("uneven", clients, (np.zeros((1, 8), np.float32), np.array([0])), num_labels=3)
    recipe = Recipe(rounds=4, local_steps=3, learning_rate=0.05, batch_size=10, reduction=reduction, seed=5)
    trained = train_group(federation, GroupTask((0, 1, 2), recipe))[4]
    expected = naive_fedavg(federation, (0, 1, 2), recipe, seed=5)
    for name, value in expected.items():
        np.testing.assert_allclose(trained[name], value.numpy(), rtol=1e-4, atol=1e-6)


def test_sum_and_mean_differ():
    task = GroupTask((0, 1), Recipe(rounds=1))
    summed = replace(task, recipe=Recipe(rounds=1, reduction="sum"))
    mean, total = train_group(FEDERATION, task)[1], train_group(FEDERATION, summed)[1]
    assert not np.array_equal(mean["layers.1.weight"], total["layers.1.weight"])


def test_the_first_rounds_of_a_long_training_are_the_whole_of_a_short_one():
    long = train_group(FEDERATION, GroupTask((1, 4), Recipe(rounds=6, evaluate_at=(2, 4))))
    short = train_group(FEDERATION, GroupTask((1, 4), Recipe(rounds=4)))
    assert sorted(long) == [2, 4, 6]
    for name, value in short[4].items():
        assert np.array_equal(long[4][name], value)
        assert not np.array_equal(long[2][name], value)


def test_evaluation_points_are_stored_and_shared_with_shorter_runs(store):
    grouping = hashed(FEDERATION.ids, 4)
    first = train(FEDERATION, grouping, Recipe(rounds=4, evaluate_at=(2,)), store=store)
    again = train(FEDERATION, grouping, Recipe(rounds=2), store=store)
    assert first.trained > 0
    assert (again.trained, again.reused) == (0, first.trained)


def test_training_learns():
    federation = load("digits", num_clients=20)
    recipe = Recipe(rounds=20)
    module = models.build(recipe.model, federation.input_shape, 10, seed=0)
    arrays = train_group(federation, GroupTask(tuple(range(20)), recipe))[20]
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    predicted = module(torch.from_numpy(federation.test_inputs)).argmax(1).numpy()
    assert (predicted == federation.test_labels).mean() > 0.9


def test_participation_picks_a_share_of_the_clients_at_least_one_and_others_each_round():
    picked = [participants(40, 0.1, seed=0, round_number=number) for number in range(60)]
    assert {len(chosen) for chosen in picked} == {4}
    assert len({tuple(chosen) for chosen in picked}) > 50
    assert set().union(*picked) == set(range(40))
    assert [len(participants(3, 0.01, 0, number)) for number in range(5)] == [1] * 5
    assert participants(7, 1.0, 0, 1) == list(range(7))


def test_seeds_are_shared_or_derived_for_each_group():
    assert {Recipe(seed=3).of_group(group).seed for group in range(5)} == {3}
    assert len({Recipe(seed=3, seeds="per-group").of_group(group).seed for group in range(5)}) == 5


def test_groups_may_use_different_algorithms_and_seeds(store):
    recipe = Recipe(rounds=1, variants=[{"aggregator": "median"}, {"seed": 9, "local_steps": 2}, {}])
    used = [recipe.of_group(group) for group in range(6)]
    assert [one.aggregator.name for one in used] == ["median", "fedavg", "fedavg"] * 2
    assert [one.seed for one in used] == [0, 9, 0] * 2
    grouping = hashed(FEDERATION.ids, 6)
    ensemble = train(FEDERATION, grouping, recipe, store=store)
    for group, keys in ensemble.model_keys().items():
        alone = train_group(FEDERATION, GroupTask(tuple(grouping.members[group].tolist()), used[group]))[1]
        assert all(np.array_equal(alone[name], value) for name, value in ensemble.load(keys).items())


def test_dropout_is_seeded_for_each_client_and_round():
    """One example and one step: nothing but dropout can tell clients and rounds apart."""

    def trained(user, rounds=1, rate=0.5):
        example = (np.ones((1, 8), np.float32), np.array([0]))
        federation = Federation.build("one", {user: example}, example)
        model = Choice(name="tests.unit.test_training:dropping", options={"rate": rate})
        recipe = Recipe(model=model, rounds=rounds, local_steps=1, learning_rate=1e-3, evaluate_at=range(1, rounds + 1))
        return train_group(federation, GroupTask((0,), recipe, recipe_sources(recipe)))

    assert np.array_equal(trained("ann")[1]["1.weight"], trained("ann")[1]["1.weight"])
    assert not np.array_equal(trained("ann")[1]["1.weight"], trained("bob")[1]["1.weight"])
    assert np.array_equal(trained("ann", rate=0.0)[1]["1.weight"], trained("bob", rate=0.0)[1]["1.weight"])
    start = models.build(Choice(name="tests.unit.test_training:dropping"), (8,), 2, seed=0).state_dict()["1.weight"]
    rounds = trained("ann", rounds=2)
    first, second = rounds[1]["1.weight"] - start.numpy(), rounds[2]["1.weight"] - rounds[1]["1.weight"]
    assert not np.array_equal(first == 0, second == 0)  # other inputs were dropped


def dropping(input_shape, num_labels, rate=0.5):
    return torch.nn.Sequential(torch.nn.Dropout(rate), torch.nn.Linear(input_shape[0], num_labels))


def test_sampled_groups_must_all_train_alike(store):
    """Theorem 1 speaks of one model for each set of clients; a seed for each draw would make several."""
    grouping = sampled(FEDERATION.ids, 5, 2)
    for recipe in (Recipe(seeds="per-group"), Recipe(variants=[{"seed": 1}, {}])):
        with pytest.raises(InputError, match="groups that are drawn at random must all train alike"):
            train(FEDERATION, grouping, recipe, store=store)


def test_a_grouping_of_other_clients_is_refused(store):
    with pytest.raises(InputError, match="the grouping is of 3 clients, the data of 30"):
        train(FEDERATION, hashed(FEDERATION.ids[:3], 2), Recipe(), store=store)


def test_the_same_group_drawn_twice_is_trained_once(store):
    grouping = sampled(FEDERATION.ids[:3], 10, 2)
    federation = load("digits", num_clients=3)
    ensemble = train(federation, grouping, Recipe(rounds=1), store=store)
    assert ensemble.trained == len({tuple(group.tolist()) for group in grouping.members}) < 10
    assert len(ensemble.model_keys()) == 10


@pytest.mark.parametrize(("name", "last"), [("linear", "layers.1"), ("mlp", "layers.3")])
def test_the_last_layer_may_start_at_zero(name, last):
    plain, zero = (
        models.build(Choice(name=name, options=options), (8, 8), 10, seed=3).state_dict()
        for options in ({}, {"zero": True})
    )
    assert all(plain[one].any() for one in plain)
    assert [one for one in zero if not zero[one].any()] == [f"{last}.weight", f"{last}.bias"]
    assert all(torch.equal(plain[one], zero[one]) for one in zero if not one.startswith(last))


def keys_after(federation=FEDERATION, task=None, **recipe):
    changed = Recipe(rounds=3).model_copy(update=recipe)
    task = task or GroupTask((0, 1), changed, recipe_sources(changed))
    digests = {position: federation.client_digest(position) for position in task.members}
    return model_entry(federation, task, digests, rounds=task.recipe.rounds).key


def attacked(choice=Choice(name="zero"), malicious=frozenset({0}), seed=0):  # noqa: B008 (frozen)
    recipe, plan = Recipe(rounds=3), AttackPlan(choice, malicious, seed)
    return GroupTask((0, 1), recipe, recipe_sources(recipe, plan), plan)


def test_the_key_covers_whatever_the_model_depends_on(monkeypatch):
    inputs = FEDERATION.inputs.copy()
    inputs[0, 0] += 1
    changed = [
        keys_after(),
        keys_after(task=GroupTask((0, 2), Recipe(rounds=3))),
        keys_after(task=GroupTask((1, 0), Recipe(rounds=3))),
        keys_after(task=GroupTask((0, 1), Recipe(rounds=3, seed=1))),
        keys_after(replace(FEDERATION, inputs=inputs)),
        keys_after(replace(FEDERATION, ids=("renamed", *FEDERATION.ids[1:]))),
        keys_after(replace(FEDERATION, num_labels=11)),
        keys_after(rounds=4),
        keys_after(local_steps=6),
        keys_after(learning_rate=0.4),
        keys_after(batch_size=8),
        keys_after(reduction="sum"),
        keys_after(participation=0.5),
        keys_after(smoothing=Smoothing()),
        keys_after(gradient_clip=1.0),
        keys_after(task=attacked()),
        keys_after(task=attacked(malicious=frozenset({1}))),
        keys_after(task=attacked(seed=1)),
        keys_after(task=attacked(choice=Choice(name="mpaf"))),
        keys_after(task=attacked(choice=Choice(name="mpaf", options={"scale": 3.0}))),
        keys_after(model=Choice(name="mlp", options={"hidden": [8]})),
        keys_after(aggregator=Choice(name="tests.saboteur:aggregator")),
    ]
    monkeypatch.setattr("flcert.training.keys.TRAINING_VERSION", 0)
    changed.append(keys_after())
    for library in (torch, np):
        monkeypatch.setattr(library, "__version__", "0")
        changed.append(keys_after())
    assert len(set(changed)) == len(changed)
    assert keys_after(evaluate_at=(1,)) == keys_after()


NET = """
from flcert.models.mlp import MLP
from helping import *

def net(input_shape, num_labels):
    return MLP(input_shape, num_labels, ({},))
"""


def test_an_edited_module_of_the_user_s_own_is_not_confused_with_its_older_text(tmp_path, monkeypatch, store):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    recipe = Recipe(rounds=1, model=Choice(name="users_net:net"))
    for width in (8, 9):
        (tmp_path / "users_net.py").write_text(NET.format("WIDTH"))
        (tmp_path / "helping.py").write_text(f"WIDTH = {width}")  # what the module imports counts too
        monkeypatch.delitem(sys.modules, "helping", raising=False)
        monkeypatch.setattr(plugins, "_digests", {})  # as in a process that starts now
        monkeypatch.delitem(sys.modules, "users_net", raising=False)
        ensemble = train(FEDERATION, hashed(FEDERATION.ids, 2), recipe, store=store)
        assert ensemble.trained == 2
        key = next(iter(ensemble.model_keys().values()))
        assert ensemble.load(key)["layers.1.weight"].shape == (width, 64)


TRIGGER = """
def stamp():
    return lambda inputs: inputs * 0 + {}
"""


def test_edited_triggers_and_packages_without_init_files_are_noticed_too(tmp_path, monkeypatch, store):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "spread_out").mkdir()
    grouping = hashed(FEDERATION.ids, 2)
    choice = Choice(name="backdoor", options={"trigger": "users_trigger:stamp"})
    for edit in (1, 2):
        (tmp_path / "users_trigger.py").write_text(TRIGGER.format(edit))
        (tmp_path / "spread_out" / "net.py").write_text(f"from flcert.models.mlp import MLP as Net  # {edit}")
        monkeypatch.setattr(plugins, "_digests", {})  # as in a process that starts now
        for name in ("users_trigger", "spread_out", "spread_out.net"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        plan = attacks.plan(choice, 1, FEDERATION.ids)
        with Workers(Inline(), FEDERATION) as workers:
            plain = train_groups(
                Context(workers, store), grouping, Recipe(rounds=1, model=Choice(name="spread_out.net:Net"))
            )
            harmed = train_groups(Context(workers, store), grouping, Recipe(rounds=1), plan)
        assert plain.trained == 2
        assert harmed.trained == (2 if edit == 1 else 1)


def test_a_worker_that_would_attack_with_another_text_refuses(tmp_path, monkeypatch, store):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_trigger.py").write_text(TRIGGER.format(1))
    choice = Choice(name="backdoor", options={"trigger": "late_trigger:stamp"})
    plan = attacks.plan(choice, 1, FEDERATION.ids)
    attacks.build(choice)
    (tmp_path / "late_trigger.py").write_text(TRIGGER.format(2))
    with Workers(Processes(1), FEDERATION) as workers:
        ensemble = train_groups(Context(workers, store), hashed(FEDERATION.ids, 2), Recipe(rounds=1), plan)
    assert len(ensemble.failures) == 1
    assert "was edited after it was imported" in next(iter(ensemble.failures.values()))


def test_an_option_that_only_looks_like_an_import_path_is_left_alone():
    choice = Choice(name="mlp", options={"note": "no_such_module:attribute", "more": ["12:30", "a:b"]})
    assert plugins.choice_sources(choice) == ""


def test_the_gradient_is_clipped_to_its_norm():
    """One full batch and one step: the model moves by the learning rate times the clipped gradient."""
    settings = {"rounds": 1, "local_steps": 1, "learning_rate": 0.5, "batch_size": 1000}

    def movement(**changes):
        recipe = Recipe(**settings, **changes)
        start = models.build(recipe.model, FEDERATION.input_shape, 10, seed=0).state_dict()
        end = train_group(FEDERATION, GroupTask((0,), recipe))[1]
        return np.concatenate([(end[name] - start[name].numpy()).reshape(-1) for name in end])

    free, clipped = movement(), movement(gradient_clip=0.01)
    assert np.linalg.norm(free) > 0.5 * 0.02
    assert np.linalg.norm(clipped) == pytest.approx(0.5 * 0.01, rel=1e-3)
    cosine = free @ clipped / (np.linalg.norm(free) * np.linalg.norm(clipped))
    assert cosine == pytest.approx(1, abs=1e-4)
    assert np.array_equal(movement(gradient_clip=1e6), free)


def test_a_worker_that_would_import_another_text_refuses(tmp_path, monkeypatch, store):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helping.py").write_text("WIDTH = 3")
    (tmp_path / "late_net.py").write_text(NET.format(8))
    recipe = Recipe(rounds=1, model=Choice(name="late_net:net"))
    models.build(recipe.model, FEDERATION.input_shape, 10, seed=0)
    (tmp_path / "late_net.py").write_text(NET.format(99))
    ensemble = train(FEDERATION, hashed(FEDERATION.ids, 2), recipe, engine=Processes(1), store=store)
    assert set(ensemble.failures) == {0, 1}
    assert "was edited after it was imported" in ensemble.failures[0]


def test_votes_of_the_ensemble_are_those_of_its_models(federation, grouping, recipe, store):
    ensemble = train(federation, grouping, recipe, store=store)
    votes = ensemble.votes(federation.test_inputs)
    for group, keys in enumerate(ensemble.keys):
        if keys is None:
            assert set(votes[group]) == {-1}
            continue
        module = ensemble.module(group)
        assert np.array_equal(votes[group], module(torch.from_numpy(federation.test_inputs)).argmax(1).numpy())


CHECKPOINT = """
from pathlib import Path

from flcert.models.mlp import MLP


def net(input_shape, num_labels):
    module = MLP(input_shape, num_labels, (8,))
    for parameter in module.parameters():
        parameter.data.fill_(float(Path(__file__).with_name("weights.txt").read_text()))
    return module
"""


def test_the_weights_that_a_user_s_model_starts_from_belong_to_its_key(tmp_path, monkeypatch, store):
    """A factory may load a checkpoint: replacing that file must not give the models of the older one."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "from_checkpoint.py").write_text(CHECKPOINT)
    recipe, grouping = Recipe(rounds=1, model=Choice(name="from_checkpoint:net")), hashed(FEDERATION.ids, 2)
    models_of = {}
    for weight in (0.0, 0.1, 0.0):
        (tmp_path / "weights.txt").write_text(str(weight))
        ensemble = train(FEDERATION, grouping, recipe, store=store)
        assert ensemble.trained == (0 if weight in models_of else 2)
        models_of[weight] = [ensemble.load(key) for key in ensemble.model_keys().values()]
    assert not np.array_equal(models_of[0.0][0]["layers.1.bias"], models_of[0.1][0]["layers.1.bias"])


def test_a_worker_that_would_start_from_other_weights_refuses(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_checkpoint.py").write_text(CHECKPOINT)
    (tmp_path / "weights.txt").write_text("0.0")
    recipe = Recipe(rounds=1, model=Choice(name="late_checkpoint:net"))
    start = initial_digest(recipe, FEDERATION.input_shape, FEDERATION.num_labels)
    task = GroupTask((0,), recipe, recipe_sources(recipe), initial=start)
    assert train_group(FEDERATION, task)
    (tmp_path / "weights.txt").write_text("0.1")
    with pytest.raises(RunError, match="does not start from the weights that it had at first"):
        train_group(FEDERATION, task)


CELL = """
from torch import nn


class Net(nn.Module):
    def __init__(self, input_shape, num_labels):
        super().__init__()
        self.dense = nn.Linear(64, num_labels)

    def forward(self, inputs):
        return self.dense(inputs) * {}
"""


def test_a_class_of_a_notebook_is_known_by_its_code(monkeypatch, store):
    """Its module has no file; the initial weights of both texts are the same, and what they compute is not."""
    notebook = ModuleType("notebook_without_file")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    recipe = Recipe(rounds=1, model=Choice(name=f"{notebook.__name__}:Net"))
    for factor, trained in ((1, 2), (2, 2), (1, 0), ("1  # the same, said again", 0)):
        exec(CELL.format(factor), vars(notebook))
        assert train(FEDERATION, hashed(FEDERATION.ids, 2), recipe, store=store).trained == trained
