"""Copies of a public model's training inputs are recognised, and honest data are not taken for copies."""

import io

import numpy as np
import pytest
from PIL import Image

from flcert.core.seeding import stream
from flcert.pretraining.digits import scikit_learn
from flcert.public import PublicModel
from flcert.public import overlap as module
from flcert.public.overlap import Overlap, fingerprints, overlap
from flcert.report.points import overlap_sentence
from flcert.runs.records import OverlapFacts


def trained_on(inputs):
    return PublicModel("tested", {}, None, fingerprints(inputs))


@pytest.fixture(scope="module")
def digits():
    return scikit_learn().ink.pictures()


def redone(pictures, change):
    """Pictures that went through a change of 8-bit images."""
    changed = [change(Image.fromarray(np.rint(255 * picture).astype(np.uint8))) for picture in pictures]
    return np.stack([np.asarray(image, dtype=np.float32) / 255 for image in changed])


def compressed(image):
    content = io.BytesIO()
    image.save(content, "JPEG", quality=75)
    return Image.open(content)


COPIES = {
    "the same": lambda pictures: pictures,
    "shifted": lambda pictures: np.roll(pictures, (1, -1), axis=(1, 2)),
    "darker": lambda pictures: pictures / 2,
    "smaller": lambda pictures: redone(pictures, lambda image: image.resize((20, 20), Image.Resampling.BICUBIC)),
    "larger": lambda pictures: redone(pictures, lambda image: image.resize((56, 56), Image.Resampling.BICUBIC)),
    "compressed": lambda pictures: redone(pictures, compressed),
}


@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_found(copied, digits):
    found = overlap(trained_on(digits[:800]), COPIES[copied](digits[:100]))
    assert found.examined == 100
    assert found.matches >= 85
    assert found.too_much


def test_digits_of_other_people_are_not_taken_for_copies(digits):
    found = overlap(trained_on(digits[:900]), digits[900:])
    assert not found.too_much


def test_a_source_that_holds_an_example_four_times_does_not_hide_it(digits):
    shifts = [(0, 0), (0, 1), (1, 0), (1, 1)]
    four = np.concatenate([np.roll(digits[:200], shift, axis=(1, 2)) for shift in shifts])
    smaller = COPIES["smaller"](digits[:50])
    assert overlap(trained_on(four), smaller).matches >= 40


def test_colour_pictures_and_rows_of_numbers_are_compared_too():
    draw = stream(0, "overlap").random
    for shape in ((3, 32, 32), (64,), (561,)):
        inputs = draw((300, *shape)).astype(np.float32)
        model = trained_on(inputs[:200])
        assert overlap(model, inputs[100:200] + np.float32(0.002)).matches == 100
        assert overlap(model, inputs[200:]).matches == 0


def test_words_and_few_numbers_match_only_if_they_are_equal():
    words = np.arange(60).reshape(6, 10)
    assert overlap(trained_on(words), np.vstack([words[2:4], words[:2] + 1])) == Overlap(4, 2)
    few = stream(0, "overlap").random((6, 4)).astype(np.float32)
    assert overlap(trained_on(few), np.vstack([few[2:4], few[:2] + np.float32(1e-3)])) == Overlap(4, 2)


def test_what_cannot_be_compared_is_not_called_free_of_overlap(digits):
    foreign = PublicModel("foreign", {})
    for model, inputs in ((foreign, digits), (trained_on(digits), np.zeros((3, 50), np.float32))):
        found = overlap(model, inputs)
        assert (found.matches, found.share, found.too_much) == (None, None, False)


def test_pictures_without_anything_on_them_match_nothing(digits):
    assert overlap(trained_on(digits[:100]), np.zeros((5, 28, 28), np.float32)).matches == 0
    assert overlap(trained_on(np.zeros((100, 28, 28), np.float32)), digits[:5]).matches == 0


def test_more_than_one_match_in_a_hundred_is_too_much():
    assert not Overlap(1000, 10).too_much
    assert Overlap(1000, 11).too_much
    assert Overlap(1000, 11).share == 0.011


def test_of_very_many_inputs_evenly_spaced_ones_are_kept(digits, monkeypatch):
    monkeypatch.setattr(module, "MOST", 40)
    kept = fingerprints(digits[:100])
    monkeypatch.undo()
    assert len(kept) == 34
    assert (kept == fingerprints(digits[:100:3])).all()


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"test_inputs": (60, 1), "clients": (9000, 2)}, "1 of 60 test inputs and 2 of 9,000 inputs of clients."),
        ({"test_inputs": (60, 1)}, "1 of 60 test inputs; the inputs of clients are not known to the server."),
        ({"test_inputs": (60, None)}, "could not be checked."),
    ],
)
def test_people_read_what_was_counted_and_what_was_not(facts, sentence):
    assert overlap_sentence(OverlapFacts(**facts)).endswith(sentence)
