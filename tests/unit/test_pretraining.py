"""Digits as ink, their variations, and plans of public models."""

import numpy as np
import pytest
import torch

from flcert.core.settings import Choice
from flcert.datasets import load
from flcert.errors import RunError
from flcert.pretraining import Fit, of_data, of_digits
from flcert.pretraining import plan as module
from flcert.pretraining.changes import Changes, varied
from flcert.pretraining.digits import ADDITIONS, Drawn, scikit_learn
from flcert.pretraining.fit import accuracy, fit
from flcert.pretraining.ink import BOX, SIDE, ink
from flcert.training.device import tensor


def bar(height, width):
    bitmap = np.zeros((200, 300), dtype=bool)
    bitmap[20 : 20 + height, 100 : 100 + width] = True
    return bitmap


def test_strokes_fill_the_box_and_keep_their_proportions():
    pictures = ink([bar(120, 24), bar(24, 120), bar(60, 60)], [1, 1, 0]).pictures()
    assert pictures.shape == (3, SIDE, SIDE)
    for picture, (height, width) in zip(pictures, [(BOX, 4), (4, BOX), (BOX, BOX)], strict=True):
        assert picture.sum() == pytest.approx(height * width, rel=0.1)
        assert abs((picture.max(axis=1) > 0.5).sum() - height) <= 1
        assert abs((picture.max(axis=0) > 0.5).sum() - width) <= 1


def test_the_centre_of_mass_is_the_middle_of_the_picture():
    pictures = scikit_learn().ink.pictures()
    places = np.arange(SIDE) + 0.5
    for axis in (1, 2):
        middles = pictures.sum(axis=axis) @ places / pictures.sum(axis=(1, 2))
        assert np.abs(middles - SIDE / 2).mean() < 0.25


def test_the_width_of_strokes_is_measured_and_can_be_set():
    strokes = ink([bar(150, 15)], [1])
    assert strokes.widths == pytest.approx([1.0], abs=0.1)  # 150 pixels become 20
    still = {"rotation": 0, "scale": 0, "shear": 0, "shift": 0, "bend": 0, "softness": (1, 1), "brightness": (1, 1)}
    distances, widths = tensor(strokes.distances), tensor(strokes.widths)
    for half in (1.0, 1.5, 2.0):
        drawn = varied(Changes(**still, width=(half, half)), distances, widths, torch.Generator())
        assert float(drawn[0, SIDE // 2].sum()) == pytest.approx(2 * half, abs=0.35)


def test_variations_come_from_the_generator_alone():
    strokes = scikit_learn().ink
    distances, widths = tensor(strokes.distances[:20]), tensor(strokes.widths[:20])

    def seeded(seed):
        return varied(Changes(), distances, widths, torch.Generator().manual_seed(seed))

    assert torch.equal(seeded(1), seeded(1))
    assert not torch.equal(seeded(1), seeded(2))
    assert float(seeded(1).min()) >= 0
    assert float(seeded(1).max()) <= 1


@pytest.fixture
def sources(monkeypatch):
    """Two sources of 60 and 30 digits in bundles of ten, in place of those that are downloaded."""
    digits = scikit_learn().ink
    drawn = [
        Drawn("many", "many", "none", digits[np.arange(60)], together=10),
        Drawn("few", "few", "none", digits[np.arange(60, 90)], together=10),
    ]
    monkeypatch.setattr(module, "_drawn", lambda *_: (drawn, {}))
    return drawn


def planned(**settings):
    return of_digits(tuple(ADDITIONS), Choice(name="cnn"), Fit(batch_size=20, **settings), None, lambda *_: None)


def test_every_source_has_the_same_share_of_a_batch(sources, monkeypatch):
    monkeypatch.setattr(module, "varied", lambda *given: given[2])
    widths = planned().batch(0)[0].numpy()
    many = [width in sources[0].ink.widths for width in widths]
    assert many == [True] * 10 + [False] * 10


def test_what_belongs_together_is_held_out_together_and_never_trained_on(sources, monkeypatch):
    monkeypatch.setattr(module, "varied", lambda *given: given[1])
    plan = planned()
    seen = {row.tobytes() for step in range(60) for row in plan.batch(step)[0].numpy()}
    parts = [sources[0].ink.distances.reshape(6, 10, -1), sources[1].ink.distances.reshape(3, 10, -1)]
    for part in parts:
        trained = [sum(row.tobytes() in seen for row in bundle) for bundle in part]
        assert trained.count(0) == 1
        assert sorted(trained)[1] >= 9
    assert (plan.card.held_out, len(plan.inputs)) == (20, 70)


def test_a_batch_depends_on_its_step_and_the_seed_alone(sources):
    first, second = planned(), planned()
    second.batch(7)
    for one, other in zip(first.batch(3), second.batch(3), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first.batch(3)[0], first.batch(4)[0])
    assert not torch.equal(first.batch(3)[0], planned(seed=1).batch(3)[0])


def test_a_user_s_data_are_pooled_and_its_test_set_is_held_out():
    federation = load("digits", num_clients=20, num_test=100)
    settings = Fit(steps=150, batch_size=32)
    plan = of_data(Choice(name="digits"), federation, Choice(name="mlp"), settings)
    assert (len(plan.inputs), plan.card.held_out, plan.card.sources[0].examples) == (1697, 100, 1797)
    assert "public" in plan.card.sources[0].title
    module = torch.nn.Linear(64, 10)
    fit(module, plan.batch, settings, lambda *_: None)
    assert accuracy(module, *plan.held_out) > 0.8


def test_weights_that_are_not_finite_are_refused():
    federation = load("digits", num_clients=20)
    settings = Fit(steps=3, learning_rate=1e38)
    plan = of_data(Choice(name="digits"), federation, Choice(name="mlp"), settings)
    with pytest.raises(RunError, match=r"NaN or infinite; is learning_rate=1e\+38 too high\?"):
        fit(torch.nn.Linear(64, 10), plan.batch, settings, lambda *_: None)
