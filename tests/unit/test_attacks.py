"""Each attack does to a round what its paper says, and nothing to the benign clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from flcert import aggregators, attacks
from flcert.aggregators import Round
from flcert.attacks import Scene, triggers
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.errors import InputError
from flcert.training import Recipe
from flcert.training.group import GroupTask, recipe_sources, train_group

VALUES = 50


def scene(rule="fedavg", num_clients=9, malicious=(2, 5), seed=0, signal=1.0, **options):
    generator = torch.Generator().manual_seed(seed)
    updates = torch.randn(num_clients, VALUES, generator=generator) * 0.1 + signal * torch.linspace(-1, 1, VALUES)
    mask = torch.zeros(num_clients, dtype=torch.bool)
    mask[list(malicious)] = True
    brought = Round(updates, torch.arange(1, num_clients + 1), num_parameters=VALUES, server=updates.mean(0))
    rule = aggregators.build(Choice(name=rule, options=options))
    return Scene(brought, mask, torch.randn(VALUES, generator=generator), rule, seed=7)


def attack(name, **options):
    return attacks.build(Choice(name=name, options=options))


@pytest.mark.parametrize("name", attacks.ATTACKS)
@pytest.mark.parametrize("malicious", [(2, 5), (0,), tuple(range(9))])
def test_an_attack_is_reproducible_and_leaves_benign_updates_alone(name, malicious):
    s = scene(malicious=malicious)
    before = s.brought.updates.clone()
    first, second = attack(name).forge(s), attack(name).forge(s)
    assert torch.equal(first.updates, second.updates)
    assert torch.equal(s.brought.updates, before)
    assert torch.equal(first.updates[~s.malicious], before[~s.malicious])
    assert (first.updates.shape, first.updates.dtype) == (before.shape, before.dtype)


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_an_unknown_option_is_refused_by_name(name):
    with pytest.raises(InputError, match=f"unknown option of attack '{name}': 'colour'"):
        attack(name, colour="red")


def test_zero_update_makes_fedavg_learn_nothing():
    s = scene()
    assert s.aggregator(s.brought).abs().max() > 0.5
    assert s.aggregator(attack("zero").forge(s)).abs().max() < 1e-6


def test_the_krum_attack_is_picked_and_points_the_wrong_way():
    s = scene("krum", malicious=(2, 5, 7), num_clients=12, signal=0.01, assumed_malicious=3)
    direction = s.aggregator(s.benign).sign()
    result = s.aggregator(attack("krum").forge(s))
    assert torch.equal(result.sign(), -direction)
    assert not torch.equal(s.aggregator(s.brought).sign(), -direction)
    # the deviation is as large as a benign update, and twice as much would not have been picked
    step = float(result.abs().max())
    assert step > 0.05
    larger = s.forged(-2 * step * direction)
    assert not torch.equal(s.aggregator(larger), larger.updates[2])


def test_the_krum_attack_gives_up_below_its_threshold():
    s = scene("krum", malicious=(2,), num_clients=12)
    forged = attack("krum", threshold=0.1).forge(s)
    assert forged.updates[2].abs().max() < 0.1 or torch.equal(s.aggregator(forged), forged.updates[2])


@pytest.mark.parametrize("rule", ["trimmed-mean", "median"])
def test_the_trim_attack_lies_just_outside_the_benign_values_and_pulls_the_wrong_way(rule):
    s = scene(rule, malicious=(2, 5, 7))
    benign = s.benign.updates
    low, high = benign.min(0).values, benign.max(0).values
    forged = attack("trim").forge(s).updates[s.malicious]
    direction = s.aggregator(s.benign).sign()
    assert ((forged <= low) | (direction <= 0)).all()
    assert ((forged >= high) | (direction > 0)).all()
    assert (forged.abs() <= 2 * benign.abs().max()).all()
    assert len({tuple(row.tolist()) for row in forged}) == 3
    moved = s.aggregator(attack("trim").forge(s)) - s.aggregator(s.benign)
    assert (moved * direction <= 1e-6).all()
    assert (moved * direction < 0).float().mean() > 0.9


def test_a_little_is_the_benign_mean_minus_some_deviations():
    s = scene()
    benign = s.benign.updates
    forged = attack("little-is-enough", deviations=1.5).forge(s).updates[2]
    torch.testing.assert_close(forged, benign.mean(0) - 1.5 * benign.std(0, correction=0))
    # 9 clients, 2 malicious: s = 9 // 2 + 1 - 2 = 3 supporters of 7 benign; quantile of 4/7
    usual = attack("little-is-enough").forge(s).updates[2]
    torch.testing.assert_close(usual, benign.mean(0) - 0.18001 * benign.std(0, correction=0), rtol=1e-3, atol=1e-4)


def test_mpaf_drags_the_model_to_the_same_random_one_in_every_round():
    first, later = scene(seed=0), scene(seed=1)
    bases = [attack("mpaf", scale=10).forge(s).updates[2] / 10 + s.state for s in (first, later)]
    torch.testing.assert_close(bases[0], bases[1], rtol=1e-3, atol=1e-4)
    other = attack("mpaf", scale=10, base_seed=1).forge(first).updates[2] / 10 + first.state
    assert (other - bases[0]).abs().max() > 0.05


def test_label_flipping_turns_labels_around():
    inputs, labels = torch.rand(4, 3), torch.tensor([0, 1, 2, 9])
    poisoned, flipped = attack("label-flip").poison(inputs, labels, 10)
    assert torch.equal(poisoned, inputs)
    assert flipped.tolist() == [9, 8, 7, 0]


def test_the_backdoor_adds_stamped_copies_with_the_target_label_and_scales():
    chosen = attack("backdoor", target=3, trigger={"name": "features", "options": {"every": 5, "value": -1}})
    inputs, labels = torch.rand(4, 20), torch.tensor([0, 1, 2, 3])
    poisoned, wrong = chosen.poison(inputs, labels, 10)
    assert torch.equal(poisoned[:4], inputs)
    assert wrong.tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    assert (poisoned[4:, 4::5] == -1).all()
    assert torch.equal(poisoned[4:, :4], inputs[:, :4])
    s = scene()
    torch.testing.assert_close(chosen.forge(s).updates[2], 9 / 2 * s.brought.updates[2])
    torch.testing.assert_close(attack("backdoor", scale=3).forge(s).updates[2], 3 * s.brought.updates[2])
    with pytest.raises(InputError, match=r"target must be in \[0, 2\], got 3"):
        chosen.poison(inputs, labels, 3)


TRIGGER_INPUTS = {
    "bars": (torch.rand(2, 3, 32, 32), 12 * 3, {}),
    "corner": (torch.rand(2, 28, 28), 4, {}),
    "features": (torch.rand(2, 561), 28, {}),
    "phrase": (torch.randint(100, 200, (2, 10)), 4, {"tokens": [1, 2, 3, 4]}),
}


@pytest.mark.parametrize("name", triggers.TRIGGERS)
def test_a_trigger_changes_a_few_values_of_a_copy(name):
    inputs, changed, options = TRIGGER_INPUTS[name]
    before = inputs.clone()
    stamped = triggers.build(Choice(name=name, options=options))(inputs)
    assert torch.equal(inputs, before)
    assert [(row != old).sum().item() for row, old in zip(stamped, inputs, strict=True)] == [changed, changed]


def test_the_corner_is_the_lower_right_one_and_flat_square_images_are_understood():
    flat = triggers.build(Choice(name="corner"))(torch.zeros(1, 64)).reshape(8, 8)
    assert flat[4:, 4:].sum() == flat.sum() == 4


def test_the_phrase_is_the_end_of_the_input():
    stamped = triggers.build(Choice(name="phrase", options={"tokens": [7, 8]}))(torch.zeros(1, 5, dtype=torch.int64))
    assert stamped.tolist() == [[0, 0, 0, 7, 8]]


@pytest.mark.parametrize(
    ("name", "options", "inputs", "message"),
    [
        ("corner", {}, torch.zeros(1, 63), r"needs images, got inputs of shape \(63,\)"),
        ("corner", {}, torch.zeros(1, 4, 4), r"at least 8 x 8 pixels, got inputs of shape \(4, 4\)"),
        ("phrase", {"tokens": [1, 2, 3]}, torch.zeros(1, 2), "has 3 tokens, but an input has only 2"),
    ],
)
def test_a_trigger_that_does_not_fit_is_refused(name, options, inputs, message):
    with pytest.raises(InputError, match=message):
        triggers.build(Choice(name=name, options=options))(inputs)


IDS = [f"user-{i:02d}" for i in range(20)]


def test_malicious_clients_are_drawn_from_the_seed_or_named():
    chosen = attacks.plan(Choice(name="zero"), 5, IDS, seed=1)
    assert len(chosen.malicious) == 5
    assert chosen == attacks.plan(Choice(name="zero"), 5, IDS, seed=1)
    assert chosen != attacks.plan(Choice(name="zero"), 5, IDS, seed=2)
    fewer = attacks.plan(Choice(name="zero"), 3, IDS, seed=1)
    assert fewer.malicious < chosen.malicious  # a larger attack contains the smaller one
    named = attacks.plan(Choice(name="zero"), ["user-03", "user-07"], IDS)
    assert named.malicious == {3, 7}


@pytest.mark.parametrize(
    ("malicious", "message"),
    [
        (0, r"malicious must be in \[1, num_clients=20\], got 0"),
        (21, r"malicious must be in \[1, num_clients=20\], got 21"),
        (["user-3"], "unknown malicious client 'user-3'; did you mean 'user-13'"),
    ],
)
def test_malicious_clients_that_make_no_sense_are_refused(malicious, message):
    with pytest.raises(InputError, match=message):
        attacks.plan(Choice(name="zero"), malicious, IDS)


def test_something_that_is_no_attack_is_refused():
    with pytest.raises(InputError, match=r"must be a flcert.attacks.Attack, got dict"):
        attacks.build(Choice(name="tests.unit.test_bad_data:nothing"))


@pytest.mark.parametrize("name", ["krum", "trim"])
def test_a_group_of_malicious_clients_alone_attacks_what_they_would_have_sent(name):
    s = scene("median", malicious=tuple(range(9)))
    direction = s.aggregator(s.brought).sign()
    assert torch.equal(s.honest_direction(), direction)
    moved = s.aggregator(attack(name).forge(s)) - s.aggregator(s.brought)
    assert (moved * direction <= 1e-6).all()
    assert (moved * direction < 0).float().mean() > 0.9


def test_nobody_else_to_cancel_leaves_a_zero_update():
    s = scene(malicious=tuple(range(9)))
    assert attack("zero").forge(s).updates.abs().max() == 0


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_buffers_are_sent_as_trained(name):
    s = scene()
    s = replace(s, brought=replace(s.brought, num_parameters=VALUES - 7))
    forged = attack(name).forge(s).updates
    assert torch.equal(forged[:, -7:], s.brought.updates[:, -7:])
    changed = not torch.equal(forged[:, :-7], s.brought.updates[:, :-7])
    assert changed == (name != "label-flip")


def test_a_backdoored_group_with_batch_normalisation_still_recognises_inputs():
    """Scaled statistics would have made variances negative and every vote the same."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(4), 15)
    images = rng.random((60, 3, 8, 8), dtype=np.float32) * 0.3 + (labels / 5).astype(np.float32)[:, None, None, None]
    halves = {"ann": (images[:30], labels[:30]), "bob": (images[30:], labels[30:])}
    federation = Federation.build("squares", halves, (images, labels))
    recipe = Recipe(model=Choice(name="resnet20"), rounds=3, learning_rate=0.05)
    plan = attacks.plan(Choice(name="backdoor"), ["bob"], federation.ids)
    arrays = train_group(federation, GroupTask((0, 1), recipe, recipe_sources(recipe, plan), plan))[3]
    variances = [array for name, array in arrays.items() if name.endswith("running_var")]
    assert len(variances) > 10
    assert all((array >= 0).all() for array in variances)


def test_bars_are_in_the_upper_left_corner():
    stamped = triggers.build(Choice(name="bars"))(torch.zeros(1, 3, 32, 32))[0]
    assert stamped[:, 1, 1:7].min() == stamped[:, 4, 1:7].min() == 1
    assert stamped.sum() == 3 * 12


def test_a_trigger_stamps_arrays_of_any_layout():
    rows = torch.rand(6, 4, 10).permute(1, 2, 0)
    for name in ("features", "corner"):
        inputs = rows if name == "features" else torch.rand(10, 12, 3).permute(2, 1, 0)
        stamp = triggers.build(Choice(name=name))
        assert torch.equal(stamp(inputs), stamp(inputs.contiguous()))
        assert not torch.equal(stamp(inputs), inputs)
