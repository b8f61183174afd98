"""Public functions of a user's own, most of them wrong in one way."""

import numpy as np
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


class Sticky(nn.Module):
    """A network that remembers in a plain attribute whether it has ever seen a large input."""

    def __init__(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        self.dense = nn.Linear(torch.Size(input_shape).numel(), 8)
        self.last = nn.Linear(8, num_labels)
        self.seen = 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.abs().max() > 50:
            self.seen = 1.0
        return self.last((self.dense(inputs.flatten(1)) + self.seen).relu())


class Hidden(nn.Module):
    """A function, or a model, that holds numbers from a file outside its state."""

    def __init__(self, input_shape: tuple[int, ...], path: str, how: str, num_labels: int = 8) -> None:
        super().__init__()
        self.last = nn.Linear(torch.Size(input_shape).numel(), num_labels)
        numbers = torch.tensor(np.load(path))
        if how == "buffer":
            self.register_buffer("numbers", numbers, persistent=False)
        else:
            self.numbers = {"list": [numbers], "dict": {"it": numbers}}.get(how, numbers)

    def forward(self, inputs: Tensor) -> Tensor:
        held = self.numbers
        numbers = held[0] if isinstance(held, list) else held["it"] if isinstance(held, dict) else held
        return self.last(inputs.flatten(1)) * numbers.sum()
