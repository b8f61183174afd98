"""A two-layer LSTM for next-word prediction whose input and output embeddings are one matrix (Inan et al.)."""

from torch import Tensor, nn

from flcert.errors import InputError


class LSTM(nn.Module):
    """Embedding, LSTM layers with dropout, and a score for each word of the vocabulary with tied weights.

    Args:
        input_shape: (context,), the number of tokens before the word.
        num_labels: the size of the vocabulary; tokens are in [0, num_labels).
        width: size of embedding and hidden state.
        layers: number of LSTM layers.
        dropout: share of values dropped after the embedding, between layers and before the scores.
    """

    def __init__(
        self, input_shape: tuple[int, ...], num_labels: int, width: int = 200, layers: int = 2, dropout: float = 0.2
    ) -> None:
        super().__init__()
        if len(input_shape) != 1:
            raise InputError(f"model 'lstm' needs inputs of shape (context,), got {input_shape}")
        self.embedding = nn.Embedding(num_labels, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.bias = nn.Parameter(self.embedding.weight.new_zeros(num_labels))

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x words)."""
        if inputs.is_floating_point():
            raise InputError("model 'lstm' reads words (whole numbers), not features")
        hidden, _ = self.lstm(self.dropout(self.embedding(inputs)))
        return nn.functional.linear(self.dropout(hidden[:, -1]), self.embedding.weight, self.bias)
