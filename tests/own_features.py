"""Public functions of a user's own, most of them wrong in one way."""

import torch
from torch import Tensor, nn


class Doubled(nn.Module):
    """A fair one: eight features of an input, with weights of its own. It refuses inputs beyond 1,000."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.dense = nn.Linear(torch.Size(input_shape).numel(), 8)

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.abs().max() > 1000:
            raise ValueError("too large")
        return 2 * self.dense(inputs.flatten(1))


class Wrong(nn.Module):
    """What must be refused, by name."""

    def __init__(self, input_shape: tuple[int, ...], how: str) -> None:  # noqa: ARG002 (as a factory is called)
        super().__init__()
        self.how, self.calls = how, 0

    def forward(self, inputs: Tensor) -> Tensor:
        rows, self.calls = inputs.flatten(1)[:, :5], self.calls + 1
        return {
            "rows": rows[:1],
            "nan": rows * float("nan"),
            "calls": rows + self.calls,
            "neighbours": rows - rows.mean(dim=0),
            "float64": rows.double(),
            "shape": rows[0],
        }[self.how]


def no_module(input_shape: tuple[int, ...]) -> str:
    return f"features of {input_shape}"


def jitter(width: float = 0.1):
    """An augmentation for rows of numbers."""

    def change(inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs + width * torch.rand(inputs.shape, generator=generator)

    return change
