"""A client's part of a round: optimisers, schedules and the other settings against what a user would write."""

from math import cos, pi

import numpy as np
import pytest
import torch
from torch.nn import functional

from flcert import models
from flcert.attacks import AttackPlan
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation, load
from flcert.engines import Processes
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.runs.config import load_config
from flcert.training import Recipe, local, schedules, train
from flcert.training.group import train_group
from flcert.training.keys import model_entry, recipe_sources
from flcert.training.local import Client
from flcert.training.tasks import GroupTask

FEDERATION = load("digits", num_clients=30, num_test=60)
OPTIMISERS = {
    None: torch.optim.SGD,
    "sgd": torch.optim.SGD,
    "adamw": torch.optim.AdamW,
    "torch.optim:RMSprop": torch.optim.RMSprop,
}


def batches(size, recipe, user, number):
    """The rows of each batch of a round."""
    drawn = stream(recipe.seed, "batches", user, number)
    if recipe.local_epochs is None:
        rows = np.tile(np.arange(size), (recipe.local_steps, 1))
        return list(drawn.permuted(rows, axis=1)[:, : recipe.batch_size])
    epochs = drawn.permuted(np.tile(np.arange(size), (recipe.local_epochs, 1)), axis=1)
    return [epoch[first : first + recipe.batch_size] for epoch in epochs for first in range(0, size, recipe.batch_size)]


def naive(recipe, federation=FEDERATION, factor=lambda _: 1.0, **options):
    """The training of a group of one client, with the optimiser and the loss that a user would write."""
    model = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    inputs, labels = (torch.tensor(array) for array in federation.client(0))
    for number in range(1, recipe.rounds + 1):
        start = [parameter.detach().clone() for parameter in model.parameters()]
        name = recipe.optimiser.name if recipe.optimiser else None
        optimiser = OPTIMISERS[name](model.parameters(), lr=recipe.learning_rate, **options)
        drawn = batches(len(labels), recipe, federation.ids[0], number)
        for step, batch in enumerate(drawn):
            progress = (number - 1 + step / len(drawn)) / recipe.rounds
            optimiser.param_groups[0]["lr"] = recipe.learning_rate * factor(progress)
            smoothing = recipe.label_smoothing or 0.0
            losses = functional.cross_entropy(
                model(inputs[batch]), labels[batch], reduction="none", label_smoothing=smoothing
            )
            counts = [1.0 if recipe.label_weights is None else (labels == label).sum() for label in labels[batch]]
            weights = 1 / torch.tensor(counts)
            loss = (weights * losses).sum() / weights.sum() * (len(batch) if recipe.reduction == "sum" else 1)
            for parameter, first in zip(model.parameters(), start, strict=True):
                loss = loss + (recipe.proximal or 0) / 2 * (parameter - first).square().sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {name: value.numpy() for name, value in model.state_dict().items()}


def trained(recipe, federation=FEDERATION, members=(0,), attack=None):
    task = GroupTask(members, recipe, recipe_sources(recipe, attack), attack)
    return train_group(federation, task)[recipe.rounds]


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


MOMENTUM = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
CASES = {
    "momentum": ({"optimiser": Choice(name="sgd", options=MOMENTUM)}, MOMENTUM),
    "adamw": (
        {"optimiser": {"name": "adamw", "options": {"beta1": 0.8, "beta2": 0.99, "epsilon": 0.1, "weight_decay": 0.2}}},
        {"betas": (0.8, 0.99), "eps": 0.1, "weight_decay": 0.2},
    ),
    "one of torch's": ({"optimiser": {"name": "torch.optim:RMSprop", "options": {"alpha": 0.5}}}, {"alpha": 0.5}),
    "schedule": ({"schedule": "linear"}, {"factor": lambda progress: 1 - progress}),
    "schedule of an optimiser": (
        {"schedule": "linear", "optimiser": {"name": "sgd", "options": {"momentum": 0.5}}},
        {"factor": lambda progress: 1 - progress, "momentum": 0.5},
    ),
    "proximal": ({"proximal": 2.0}, {}),
    "label smoothing": ({"label_smoothing": 0.3}, {}),
    "label weights": ({"label_weights": "equal", "batch_size": 5}, {}),
    "label weights in a sum": ({"label_weights": "equal", "batch_size": 5, "reduction": "sum"}, {}),
    "epochs": ({"local_epochs": 2}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_is_what_a_user_would_write(case):
    changes, options = CASES[case]
    recipe = Recipe(**{"rounds": 3, "learning_rate": 0.05, "batch_size": 16, "seed": 4, **changes})
    found, expected, plain = trained(recipe), naive(recipe, **options), trained(Recipe(rounds=3, learning_rate=0.05))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    assert not np.allclose(found["layers.1.weight"], plain["layers.1.weight"], rtol=1e-3, atol=1e-4)


def test_what_changes_nothing_gives_the_same_bytes():
    plain = trained(Recipe(rounds=2))
    assert same(plain, trained(Recipe(rounds=2, optimiser="sgd")))
    assert same(plain, trained(Recipe(rounds=2, schedule="constant")))


def test_a_label_with_one_example_weighs_as_much_as_one_with_three():
    labels = torch.tensor([7, 7, 7, 2])
    rarity = local._rarity(labels)
    assert rarity.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    scores = torch.tensor([[0.0, 0, 0, 0, 0, 0, 0, 1], [0.0, 0, 1, 0, 0, 0, 0, 0]]).repeat_interleave(2, dim=0)
    own = functional.cross_entropy(scores, labels, reduction="none").tolist()
    mean = local._loss(scores, labels, Recipe(label_weights="equal"), rarity)
    assert float(mean) == pytest.approx((sum(own[:3]) / 3 + own[3]) / 2)


def test_an_epoch_sees_every_example_once_and_keeps_the_smaller_last_batch():
    client = Client("ann", torch.zeros(37, 2), torch.zeros(37, dtype=torch.int64), 37)
    drawn = local._batches(client, Recipe(local_epochs=2, batch_size=16), seed=0, round_number=1)
    assert [len(batch) for batch in drawn] == [16, 16, 5] * 2
    for epoch in (drawn[:3], drawn[3:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(37))
    assert not torch.equal(drawn[0], drawn[3])


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("constant", {}, {0: 1, 0.99: 1}),
        ("linear", {}, {0: 1, 0.25: 0.75, 1: 0}),
        ("linear", {"final": 0.2}, {0: 1, 0.5: 0.6, 1: 0.2}),
        ("cosine", {}, {0: 1, 0.25: (1 + cos(pi / 4)) / 2, 0.5: 0.5, 1: 0}),
        ("cosine", {"final": 0.5}, {0: 1, 0.5: 0.75, 1: 0.5}),
        ("one-cycle", {"warmup": 0.2, "start": 0.1}, {0: 0.1, 0.1: 0.55, 0.2: 1, 0.6: 0.5, 1: 0}),
        ("one-cycle", {"final": 0.4}, {0: 0.04, 0.3: 1, 0.65: 0.7, 1: 0.4}),
        ("steps", {"at": [0.29, 0.5], "factor": 0.5}, {0: 1, 0.28: 1, 29 / 100: 0.5, 0.49: 0.5, 0.5: 0.25, 1: 0.25}),
    ],
)
def test_a_schedule_gives_these_shares_of_the_rate(name, options, expected):
    factor = schedules.build(Choice(name=name, options=options))
    assert {progress: factor(progress) for progress in expected} == pytest.approx(expected)


def test_one_round_of_many_steps_has_a_schedule_too():
    short = {"rounds": 1, "local_steps": 40, "learning_rate": 0.2}
    recipe = Recipe(schedule="linear", **short)
    np.testing.assert_allclose(
        trained(recipe)["layers.1.weight"], naive(recipe, factor=lambda x: 1 - x)["layers.1.weight"], atol=1e-5
    )


def key(recipe, rounds=3, members=(0, 1)):
    task = GroupTask(members, recipe, recipe_sources(recipe))
    digests = {position: FEDERATION.client_digest(position) for position in members}
    return model_entry(FEDERATION, task, digests, rounds).key


SETTINGS = [
    {"optimiser": "sgd"},
    {"optimiser": {"name": "sgd", "options": {"momentum": 0.9}}},
    {"optimiser": "adamw"},
    {"schedule": "linear"},
    {"schedule": "cosine"},
    {"proximal": 0.1},
    {"proximal": 0.2},
    {"label_smoothing": 0.1},
    {"label_weights": "equal"},
    {"local_epochs": 1},
    {"local_epochs": 2},
]


def test_each_setting_is_in_the_key_and_none_of_them_leaves_it_as_it_was(monkeypatch):
    keys = {key(Recipe(rounds=3, **changes)) for changes in ({}, *SETTINGS)}
    assert len(keys) == len(SETTINGS) + 1
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    monkeypatch.setattr(np, "__version__", "2.4.6")
    assert key(Recipe(rounds=3)) == "84a5a1bb1fb8d2148432158732e24836d490b48f5284f137"


def test_with_a_schedule_the_key_covers_how_many_rounds_there_will_be(store):
    """A round of a long training has another rate than the same round of a short one."""
    assert key(Recipe(rounds=4), rounds=2) == key(Recipe(rounds=2), rounds=2)
    long, short = Recipe(rounds=4, evaluate_at=(2,), schedule="linear"), Recipe(rounds=2, schedule="linear")
    assert key(long, rounds=2) != key(short, rounds=2)
    grouping = hashed(FEDERATION.ids, 2)
    assert train(FEDERATION, grouping, long, store=store).trained == 2
    assert train(FEDERATION, grouping, short, store=store).trained == 2
    assert train(FEDERATION, grouping, long, store=store).trained == 0


def test_a_user_s_own_source_is_in_the_key():
    for field, own in (("optimiser", "tests.unit.test_local:Signs"), ("schedule", "tests.unit.test_local:halves")):
        assert recipe_sources(Recipe())[2:] == ()
        assert len(recipe_sources(Recipe(**{field: own}))[2]) == 32


class Signs:
    """Steps by the signs of the gradients."""

    def __init__(self, size: float = 1.0):
        self.size = size

    def step(self, parameters, gradients, learning_rate):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= learning_rate * self.size * gradient.sign()


class Halved(torch.optim.SGD):
    """A user's own class of torch's family."""

    def __init__(self, params, lr, share: float = 0.5):
        super().__init__(params, lr=lr * share)

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] *= 0.5
        return super().step(closure)


def halves():
    return lambda _: 0.5


def test_one_s_own_optimiser_and_schedule_are_used(store):
    half = trained(Recipe(rounds=1, learning_rate=0.25))
    assert same(half, trained(Recipe(rounds=1, learning_rate=0.5, schedule=halves)))
    assert same(half, trained(Recipe(rounds=1, learning_rate=0.5, optimiser=Halved)))
    settings = {"rounds": 1, "local_steps": 1, "learning_rate": 0.125}
    recipe = Recipe(optimiser=Choice(name=Signs, options={"size": 2}), **settings)
    moved = (
        trained(recipe)["layers.3.bias"]
        - models.build(recipe.model, (64,), 10, 0).state_dict()["layers.3.bias"].numpy()
    )
    np.testing.assert_allclose(np.abs(moved), 0.25, rtol=1e-5)
    assert train(FEDERATION, hashed(FEDERATION.ids, 2), recipe, store=store).trained == 2


EVERYTHING = Recipe(
    rounds=3,
    local_epochs=1,
    learning_rate=0.05,
    optimiser={"name": "sgd", "options": {"momentum": 0.9}},
    schedule="one-cycle",
    proximal=0.1,
    label_smoothing=0.1,
    label_weights="equal",
    gradient_clip=1.0,
)


def test_all_of_it_at_once_is_the_same_anywhere_and_stays_in_its_group(tmp_path):
    inputs = FEDERATION.inputs.copy()
    inputs[: len(FEDERATION.client(0)[1])] = 0
    spoilt = Federation(**{**vars(FEDERATION), "inputs": inputs})
    grouping, found = hashed(FEDERATION.ids, 3), []
    for place, (data, engine) in enumerate([(FEDERATION, None), (FEDERATION, Processes(1)), (spoilt, None)]):
        ensemble = train(data, grouping, EVERYTHING, store=Store(tmp_path / str(place)), engine=engine)
        found.append({group: ensemble.load(one) for group, one in ensemble.model_keys().items()})
    here, there, corrupted = found
    for group, members in enumerate(grouping.members):
        assert same(here[group], there[group])
        assert same(here[group], corrupted[group]) == (0 not in members)


def test_malicious_clients_train_in_the_same_way():
    plan = AttackPlan(Choice(name="label-flip"), frozenset({0}), 0)
    flipped = [trained(recipe, members=(0, 1), attack=plan) for recipe in (EVERYTHING, EVERYTHING, Recipe(rounds=3))]
    assert same(flipped[0], flipped[1])
    assert not same(flipped[0], flipped[2])
    assert not same(flipped[0], trained(EVERYTHING, members=(0, 1)))


def test_groups_may_differ_in_them():
    variants = [{"optimiser": "adamw"}, {"local_steps": 2}, {"local_epochs": 3}, {}]
    recipe = Recipe(local_epochs=1, variants=variants)
    used = [recipe.of_group(group) for group in range(4)]
    assert [one.optimiser and one.optimiser.name for one in used] == ["adamw", None, None, None]
    assert [(one.local_epochs, one.local_steps) for one in used] == [(1, 5), (None, 2), (3, 5), (1, 5)]
    steps = Recipe(local_steps=9, variants=[{"local_epochs": 2}])
    assert steps.of_group(0).local_steps == Recipe().local_steps


def stuck():
    return lambda progress: float("nan") if progress else 1.0


def broken():
    return lambda progress: 1 / progress


def nothing():
    return None


OWN = "tests.unit.test_local"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["recipe.optimizer=sgd"], "unknown setting 'recipe.optimizer'; did you mean 'recipe.optimiser'"),
        (["recipe.proximal=0"], "recipe.proximal must be greater than 0, got 0"),
        (["recipe.label_smoothing=1"], "recipe.label_smoothing must be less than 1, got 1"),
        (["recipe.label_weights=even"], "recipe.label_weights must be 'equal', got 'even'"),
        (["recipe.local_epochs=0"], "recipe.local_epochs must be greater than 0, got 0"),
        (
            ["recipe.local_epochs=2", "recipe.local_steps=7"],
            "local_epochs takes the place of local_steps: .* got 2 and 7",
        ),
        (
            ["recipe.variants=[{local_epochs=2, local_steps=5}]"],
            "local_epochs takes the place of local_steps: .* 2 and 5",
        ),
        (["recipe.optimiser=adamv"], "unknown optimiser 'adamv'; did you mean 'adamw'"),
        (["recipe.variants=[{optimiser='adamv'}]"], "unknown optimiser 'adamv'; did you mean 'adamw'"),
        (["recipe.optimiser=sgd", "recipe.optimiser.options.moment=1"], "unknown option of optimiser 'sgd': 'moment'"),
        (["recipe.optimiser=sgd", "recipe.optimiser.option.a=1"], "did you mean 'recipe.optimiser.options'"),
        (
            ["recipe.optimiser=sgd", "recipe.optimiser.options.nesterov=true"],
            "option 'momentum' of optimiser 'sgd' must be above 0 with nesterov=true, got 0$",
        ),
        (["recipe.optimiser=adamw", "recipe.optimiser.options.beta1=1"], "option 'beta1' of optimiser 'adamw' must be"),
        (["recipe.optimiser=torch.optim:LBFGS"], "optimiser 'torch.optim:LBFGS' raised TypeError"),
        (["recipe.optimiser=torch.optim:RMSprop", "recipe.optimiser.options.a=1"], "unknown option of optimiser"),
        ([f"recipe.optimiser={OWN}:nothing"], "must have a method 'step', got NoneType"),
        (["recipe.schedule=liner"], "unknown schedule 'liner'; did you mean 'linear'"),
        (
            ["recipe.schedule=steps", "recipe.schedule.options.at=[30]"],
            "option 'at.0' of schedule 'steps' must be less",
        ),
        (
            ["recipe.schedule=steps", "recipe.schedule.options.at=[]"],
            r"option 'at' of schedule 'steps' must not be empty, got \[\]$",
        ),
        (
            ["recipe.schedule=steps", "recipe.schedule.options.at=[0.9, 0.1]"],
            r"option 'at' of schedule 'steps' must rise from point to point, got \[0.9, 0.1\]$",
        ),
        (["recipe.initial="], "recipe.initial must not be empty, got ''"),
        (["recipe.features.name=front", "recipe.features.weights="], "recipe.features.weights must not be empty"),
        (["voting.trusted.model=", "voting.trusted.votes=1"], "voting.trusted.model must not be empty, got ''"),
        ([f"recipe.schedule={OWN}:stuck"], "must give numbers from 0, got nan"),
        ([f"recipe.schedule={OWN}:broken"], f"schedule '{OWN}:broken' raised ZeroDivisionError"),
        ([f"recipe.schedule={OWN}:nothing"], f"schedule '{OWN}:nothing' raised TypeError"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_does_not_fit_is_refused_before_training(settings, message, store):
    with pytest.raises(InputError, match=message):
        train(FEDERATION, hashed(FEDERATION.ids, 2), load_config(overrides=settings).recipe, store=store)
