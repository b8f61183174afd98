"""Local augmentation: seeded, bounded, and no other group's business."""

import numpy as np
import pytest
import torch

from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation, load
from flcert.engines import Processes
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.runs.config import load_config
from flcert.training import Recipe, augmentation, train
from flcert.training.group import GroupTask, recipe_sources, train_group


def change(inputs, seed=0, **options):
    rule = augmentation.build(Choice(name="affine", options=options))
    return rule(inputs, torch.Generator().manual_seed(seed))


NOTHING = {"rotation": 0.0, "scale": 0.0, "shear": 0.0, "shift": 0.0}
IMAGES = torch.rand(5, 28, 28, generator=torch.Generator().manual_seed(3))


def test_without_any_reach_pictures_stay_as_they_are():
    torch.testing.assert_close(change(IMAGES, **NOTHING), IMAGES, atol=1e-5, rtol=0)


def test_it_follows_its_stream_and_changes_each_picture_by_itself():
    assert torch.equal(change(IMAGES), change(IMAGES))
    assert not torch.equal(change(IMAGES, seed=1), change(IMAGES))
    same = IMAGES[:1].repeat(2, 1, 1)
    first, second = change(same)
    assert not torch.equal(first, second)
    colour = torch.rand(4, 3, 16, 16)
    assert change(colour).shape == colour.shape


@pytest.mark.parametrize(("axis", "option"), [(0, "shift"), (1, "shift")])
def test_a_shift_moves_by_at_most_so_many_pixels(axis, option):
    dot = torch.zeros(200, 21, 21)
    dot[:, 10, 10] = 1
    moved = change(dot, **{**NOTHING, option: 3.0})
    places = torch.arange(21.0) - 10
    marginal = moved.sum(dim=2 if axis == 0 else 1)
    centre = (marginal * places).sum(dim=1) / marginal.sum(dim=1)
    assert centre.abs().max() <= 3.01
    assert centre.abs().max() > 2
    assert abs(float(centre.mean())) < 0.5


def test_a_rotation_keeps_the_middle_and_turns_the_rest():
    cross = torch.zeros(300, 21, 21)
    cross[:, 10, 18] = 1
    turned = change(cross, **{**NOTHING, "rotation": 15.0})
    rows, columns = torch.meshgrid(torch.arange(21.0) - 10, torch.arange(21.0) - 10, indexing="ij")
    weight = turned.sum(dim=(1, 2))
    angle = torch.atan2((turned * rows).sum(dim=(1, 2)) / weight, (turned * columns).sum(dim=(1, 2)) / weight)
    assert angle.abs().max() <= np.radians(15.5)
    assert angle.abs().max() > np.radians(12)


def pictures(victim=None):
    rng = np.random.default_rng(0)
    clients = {f"user-{i}": (rng.random((12, 10, 10), dtype=np.float32), rng.integers(0, 3, 12)) for i in range(6)}
    if victim:
        clients[victim] = (np.zeros((5, 10, 10), dtype=np.float32), np.zeros(5, dtype=int))
    return Federation.build("pictures", clients, (rng.random((4, 10, 10), dtype=np.float32), np.array([0, 1, 2, 0])))


RECIPE = Recipe(rounds=3, augmentation=Choice(name="affine"))


def models(federation, recipe, directory, engine=None):
    """The arrays of every group's model, trained anew."""
    ensemble = train(federation, GROUPING, recipe, store=Store(directory), engine=engine)
    assert not ensemble.failures
    return {group: ensemble.load(key) for group, key in ensemble.model_keys().items()}


GROUPING = hashed(pictures().ids, 3)
OWN = RECIPE.model_copy(update={"augmentation": Choice(name="tests.unit.test_augmentation:hoarding")})


@pytest.mark.parametrize("recipe", [RECIPE, OWN], ids=["affine", "with a memory"])
def test_training_with_it_is_reproducible_and_isolated(recipe, tmp_path):
    first = models(pictures(), recipe, tmp_path / "first")
    again = models(pictures(), recipe, tmp_path / "again", Processes(2))
    corrupted = models(pictures(victim="user-2"), recipe, tmp_path / "corrupted")
    for group, members in enumerate(GROUPING.members):
        same = {name: np.array_equal(array, corrupted[group][name]) for name, array in first[group].items()}
        assert all(same.values()) == (2 not in members)
        assert all(np.array_equal(again[group][name], array) for name, array in first[group].items())


def hoarding():
    """One that remembers what it has seen, which may reach nobody else."""
    seen = []

    def change(inputs, _):
        seen.append(float(inputs.mean()))
        return inputs + sum(seen)

    return change


def test_it_is_part_of_the_key(store):
    assert train(pictures(), GROUPING, RECIPE, store=store).trained == 3
    assert train(pictures(), GROUPING, Recipe(rounds=3), store=store).trained == 3


def test_clients_and_rounds_have_streams_of_their_own(monkeypatch):
    seen = []
    recipe = Recipe(rounds=2, local_steps=1, batch_size=12, augmentation=Choice(name="affine"))

    def recorded(self, images, generator):
        seen.append(generator.initial_seed())
        return maps(self, images, generator)

    maps = augmentation._Reach.maps
    monkeypatch.setattr(augmentation._Reach, "maps", recorded)
    train_group(pictures(), GroupTask((0, 1), recipe, recipe_sources(recipe)))
    assert len(set(seen)) == len(seen) == 4


def test_a_callable_of_one_s_own_is_named_by_import_path(store):
    recipe = RECIPE.model_copy(update={"augmentation": Choice(name="tests.unit.test_augmentation:doubled")})
    ensemble = train(pictures(), hashed(pictures().ids, 2), recipe, store=store)
    assert not ensemble.failures


def doubled():
    return lambda inputs, _: inputs * 2


def cut():
    return lambda inputs, _: inputs[:, :5]


@pytest.mark.parametrize(
    ("federation", "choice", "message"),
    [
        (None, Choice(name="afine"), "unknown augmentation 'afine'; did you mean 'affine'"),
        (None, Choice(name="affine", options={"rotation": -1}), "option 'rotation' of augmentation 'affine' must be"),
        ("digits", Choice(name="affine"), r"augmentation 'affine' needs pictures, got inputs of shape \(64,\)"),
        (None, Choice(name="tests.unit.test_augmentation:cut"), r"must give torch.float32 of shape \(2, 10, 10\), got"),
    ],
)
def test_one_that_does_not_fit_is_refused_before_training(federation, choice, message, store):
    data = load("digits", num_clients=6) if federation else pictures()
    with pytest.raises(InputError, match=message):
        train(data, hashed(data.ids, 2), Recipe(augmentation=choice), store=store)


def test_the_preset_is_what_was_measured():
    preset = load_config(preset="mnist-0.1-augmented").recipe
    assert preset.augmentation.options == {"rotation": 15.0, "scale": 0.15, "shear": 0.2, "shift": 2.0}
    assert (preset.learning_rate, preset.reduction, preset.rounds) == (0.1, "mean", 200)
