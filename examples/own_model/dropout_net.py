"""A model of one's own: anything that takes the input shape and the number of labels, and returns an nn.Module."""

from math import prod

from torch import Tensor, nn


class DropoutNet(nn.Module):
    """One hidden layer with dropout; its randomness is seeded for each client and round by flcert."""

    def __init__(self, input_shape: tuple[int, ...], num_labels: int, hidden: int = 64, rate: float = 0.2) -> None:
        super().__init__()
        self.hidden = nn.Linear(prod(input_shape), hidden)
        self.dropout = nn.Dropout(rate)
        self.scores = nn.Linear(hidden, num_labels)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        hidden = self.hidden(inputs.flatten(1)).relu()
        scores: Tensor = self.scores(self.dropout(hidden))
        return scores
