"""A public table of word pairs: how often one word follows another on the web.

It was counted long before any federation, and no client can change it, so every group may start from it.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.sources import read_files
from flcert.datasets.words import WORDS, read_vocabulary
from flcert.errors import InputError

WORD_PAIRS = Source(
    name="word-pairs",
    title="286,358 English word pairs with their frequencies, a public start for models of text (from wordsegment)",
    licence="Apache-2.0",
    files={"bigrams.txt": {"3bd156ba9477842930c5609fc7113864e3c093a97880736fba522c7edb4ba799": ""}},
    origins=(Origin("pip", "wordsegment==1.3.1", "wordsegment/{name}"),),
    needs=(WORDS,),
)


def public_pairs(num_words: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The pairs of words of the default vocabulary: indices of first and second word, (pairs x 2), and frequencies.

    Args:
        num_words: entries of the vocabulary, index 0 included.
    """
    return _pairs(read_files(WORD_PAIRS)[0]["bigrams.txt"], read_files(WORDS)[0]["words.txt"], num_words)


@lru_cache(maxsize=1)
def _pairs(table: bytes, words: bytes, num_words: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    index = read_vocabulary(words, "words.txt", num_words)
    rows = (line.split() for line in table.decode().splitlines())
    found = {(index[a], index[b]): float(frequency) for a, b, frequency in rows if a in index and b in index}
    if not found:
        raise InputError(f"the public word pairs hold none of the first {num_words - 1} words of the vocabulary")
    return np.array(list(found), dtype=np.int64), np.array(list(found.values()))
