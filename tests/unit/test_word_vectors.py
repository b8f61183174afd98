"""Word vectors as public features, on a small table in place of the published one."""

import numpy as np
import pytest
import torch

from flcert.core.settings import Choice
from flcert.datasets import word_vectors
from flcert.errors import InputError
from flcert.features import PublicFunction
from tests import tinydata

CHOICE = Choice(name="word-vectors", options={"words": 2})
INPUTS = np.array([[0, 4, 2], [1, 0, 3]])


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Vectors of some words of the small vocabulary, in another order; returns them by word."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra words")
    from pyarrow import parquet

    names = ["cake", "zebra", "you", "tea", "like"]
    vectors = np.random.default_rng(0).random((5, 50), dtype=np.float32)
    for name in ("word-vectors", "words"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "word-vectors" / word_vectors.VECTORS, vectors)
    parquet.write_table(pyarrow.table({"index": names}), tmp_path / "word-vectors" / word_vectors.INDEX)
    tinydata.write_words(tmp_path / "words" / "words.txt")
    for name in ("word-vectors", "words"):
        tinydata.publish(monkeypatch, name, tmp_path / name)
    monkeypatch.setenv("FLCERT_DATA", str(tmp_path))
    return dict(zip(names, vectors, strict=True))


def test_the_last_words_give_their_vectors_and_unknown_ones_zeros(table):
    function = PublicFunction.of(CHOICE, INPUTS, None)
    assert function.width == 100
    words = [None, *tinydata.VOCABULARY]
    zeros = np.zeros(50, np.float32)
    expected = [np.concatenate([table.get(words[one], zeros) for one in row[1:]]) for row in INPUTS]
    found = function.module()(torch.tensor(INPUTS)).numpy()
    assert np.array_equal(found, expected)
    assert found.any()


def test_what_does_not_fit_is_refused(table, tmp_path):
    for choice, inputs, rule in (
        (Choice(name="word-vectors", options={"words": 4}), INPUTS, r"words must be in \[1, context=3\], got 4"),
        (CHOICE, INPUTS.astype(np.float32), "read words"),
        (CHOICE, INPUTS[:, :, None], r"need inputs of shape \(context,\)"),
    ):
        with pytest.raises(InputError, match=rule):
            PublicFunction.of(choice, inputs, None)
    (tmp_path / "word-vectors" / word_vectors.INDEX).unlink()
    with pytest.raises(InputError, match="run: flcert data get word-vectors"):
        PublicFunction.of(CHOICE, INPUTS, None)
