"""Word vectors as a frozen function of a text."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from flcert.datasets.word_vectors import public_vectors
from flcert.errors import InputError, check_range


class WordVectors(nn.Module):
    """The vectors of the last words of a text, one after the other.

    Args:
        words: how many.
    """

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = words
        self.register_buffer("vectors", torch.tensor(public_vectors()))

    def forward(self, inputs: Tensor) -> Tensor:
        """Features, (inputs x 50 for each word)."""
        if inputs.is_floating_point():
            raise InputError("features 'word-vectors' read words (whole numbers)")
        table: Tensor = self.get_buffer("vectors")
        return table[inputs[:, -self.words :]].flatten(1)


def word_vectors(input_shape: tuple[int, ...], words: Annotated[int, Field(gt=0)] = 3) -> nn.Module:
    """The public function; its vocabulary is that of ``flcert data get words``.

    Args:
        input_shape: (context,), the number of words before the one to predict.
        words: how many of the last words count.
    """
    if len(input_shape) != 1:
        raise InputError(f"features 'word-vectors' need inputs of shape (context,), got {input_shape}")
    check_range("words", words, 1, input_shape[0], "context")
    return WordVectors(words)
