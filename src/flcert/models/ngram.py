"""A model of text that counts how often each word follows the words before it."""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from flcert.datasets.word_pairs import public_pairs
from flcert.errors import InputError, check_range

BACK_OFF = 10.0
"""How many examples the estimate from the shorter run is worth; so many are the public pairs of a first word."""

DISCOUNT = 0.5
"""What is taken from each count of three words or more: such a run, seen once, is weak evidence."""

FRACTION = 256
"""Public counts are multiples of 1 / FRACTION, so sums of counts are exact and their order does not matter."""

PUBLIC_WORDS = 100
"""How many examples the public frequencies of single words are worth."""

_FACTOR = 0x2545F4914F6CDD1D  # of the hash; odd


class NGram(nn.Module):
    """Counts of words and of runs of words; longer runs are counted too seldom, so shorter ones back them.

    Let c be how often word w followed the last k words of an input, C the sum of c over all candidates, b the
    back-off, d the discount and D the sum of what it takes. After k words, w has the probability

        p_k(w) = (max(c - d, 0) + (D + b) p_(k-1)(w)) / (C + b)

    where p_0(w) is the share of w among all words, and d = 0 for k = 1. Only the first words of the vocabulary, which
    are the most frequent, are candidates; for all others c = 0.

    Pairs have a table of their own. Each longer length shares one of fixed size: the counts after the same words begin
    at a hash of these words. Runs may meet there, but none counts for more than its own last words do.

    It learns by counting (``Counting``): use one round and the aggregator ``fedsum``.

    Args:
        input_shape: (context,), the number of words before the one to predict.
        num_labels: the size of the vocabulary; words are in [0, num_labels).
        order: the length of the longest runs, the predicted word included.
        candidates: how many words can follow a run.
        places: the size of the table for each length from 3.
        public: "word-pairs" starts from public frequencies of word pairs (``flcert data get word-pairs``), which are
            for the default vocabulary.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_labels: int,
        order: int = 4,
        candidates: Annotated[int, Field(gt=0)] = 512,
        places: int = 2**19,
        public: Literal["word-pairs"] | None = None,
    ) -> None:
        super().__init__()
        if len(input_shape) != 1:
            raise InputError(f"model 'ngram' needs inputs of shape (context,), got {input_shape}")
        self.candidates = min(candidates, num_labels)
        check_range("order", order, 2, input_shape[0] + 1, "context and one")
        check_range("places", places, self.candidates, 2**31, "2^31")
        self.words = nn.Parameter(torch.zeros(num_labels))
        self.pairs = nn.Parameter(torch.zeros(num_labels, self.candidates))
        self.runs = nn.Parameter(torch.zeros(order - 2, places))
        if public:
            self._start(*public_pairs(num_labels))

    def forward(self, inputs: Tensor) -> Tensor:
        """The probability of each word, (inputs x words)."""
        likely = (self.words + BACK_OFF / len(self.words)) / (self.words.sum() + BACK_OFF)
        near, far = likely[: self.candidates], likely[self.candidates :]
        counts = torch.tensor(torch.inf)
        for words, (table, starts) in enumerate(self._tables(inputs), start=1):
            counts = torch.minimum(table.unfold(0, self.candidates, 1)[starts], counts)
            kept = (counts - DISCOUNT).clamp_min(0) if words > 1 else counts
            total = counts.sum(1, keepdim=True)
            left = (total - kept.sum(1, keepdim=True) + BACK_OFF) / (total + BACK_OFF)
            near, far = kept / (total + BACK_OFF) + left * near, left * far
        return torch.cat([near, far], dim=1)

    @torch.no_grad()
    def count_examples(self, inputs: Tensor, labels: Tensor) -> None:
        """Add examples to the counts, see ``models.Counting``."""
        _add(self.words, labels)
        follows = labels < self.candidates
        for table, starts in self._tables(inputs[follows]):
            _add(table, starts + labels[follows])

    def _tables(self, inputs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The table for each length, shortest first, and where in it the counts of each input's candidates start."""
        if inputs.is_floating_point():
            raise InputError("model 'ngram' reads words (whole numbers), not features")
        outside = inputs[(inputs < 0) | (inputs >= len(self.words))].tolist()
        if outside:
            raise InputError(f"words must be in [0, {len(self.words) - 1}], got {outside[0]}")
        yield self.pairs.view(-1), inputs[:, -1] * self.candidates
        mixed = inputs[:, -1] * _FACTOR
        for back, table in enumerate(self.runs, start=2):
            mixed = ((mixed ^ (mixed >> 29)) + inputs[:, -back]) * _FACTOR
            yield table, (mixed >> 20) % (len(table) - self.candidates + 1)

    @torch.no_grad()
    def _start(self, pairs: NDArray[np.int64], frequencies: NDArray[np.float64]) -> None:
        """Start from public pairs of words."""
        of_first, of_second = (np.bincount(column, frequencies, len(self.words)) for column in pairs.T)
        self.words.copy_(torch.tensor(np.rint(PUBLIC_WORDS * of_second / of_second.sum())))
        counts = np.rint(FRACTION * BACK_OFF * frequencies / of_first[pairs[:, 0]]) / FRACTION
        follows = pairs[:, 1] < self.candidates
        first, second = torch.tensor(pairs[follows]).T
        self.pairs[first, second] = torch.tensor(counts[follows], dtype=torch.float32)


def _add(table: Tensor, places: Tensor) -> None:
    """Count one more in each of these places of a table."""
    table.index_add_(0, places, torch.ones_like(places, dtype=table.dtype))
