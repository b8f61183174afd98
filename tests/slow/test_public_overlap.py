"""A public picture that is a copy of MNIST: Debian's opencv-doc has 5,000 of its training digits, made smaller."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flcert.datasets import load, source
from flcert.datasets.fetch import _apt, read_members
from flcert.datasets.sources import present
from flcert.errors import RunError
from flcert.public import PublicModel
from flcert.public.overlap import fingerprints, overlap

PICTURE = "./usr/share/doc/opencv-doc/examples/data/digits.png"


@pytest.mark.slow
def test_a_picture_made_of_mnist_is_recognised(tmp_path):
    place = os.environ.get("FLCERT_DATA")
    if not place or not present(source("mnist"), Path(place)):
        pytest.skip("needs MNIST in $FLCERT_DATA")
    try:
        package = _apt("opencv-doc", tmp_path, lambda *_: None)
    except RunError as error:
        pytest.skip(f"needs Debian's package opencv-doc: {error}")
    ((_, content),) = read_members(package, {PICTURE: "digits.png"})
    (tmp_path / "digits.png").write_bytes(content)
    pixels = np.asarray(Image.open(tmp_path / "digits.png").convert("L"), dtype=np.float32) / 255
    digits = pixels.reshape(50, 20, 100, 20).swapaxes(1, 2).reshape(5000, 20, 20)
    model, federation = PublicModel("copied", {}, None, fingerprints(digits)), load("mnist")
    clients, tested = overlap(model, federation.inputs), overlap(model, federation.test_inputs)
    assert 4500 < clients.matches < 5100
    assert clients.too_much
    assert tested.matches < 20
    assert not tested.too_much
