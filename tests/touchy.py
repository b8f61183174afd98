"""A model that raises on some weights, or on some inputs with some weights, as a user's may."""

import torch
from torch import nn

from flcert.models.mlp import MLP


class Touchy(nn.Module):
    """A linear model that raises if a weight is huge, and also on bright inputs if it is large.

    Args:
        input_shape: of an input.
        num_labels: L.
    """

    def __init__(self, input_shape, num_labels):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], num_labels)

    def forward(self, inputs):
        largest = self.layer.weight.abs().max()
        if not self.training and (largest > 1e6 or (largest > 1e3 and (inputs.mean(dim=1) > 0.5).any())):
            raise ValueError("weights beyond\nall measure")
        return self.layer(inputs)


def boosted(factor):
    """An aggregator that blows up the models of groups of two."""

    def aggregate(given):
        mean = given.updates.mean(0)
        return mean * factor if len(given.sizes) == 2 else mean

    return aggregate


class TouchyMLP(MLP):
    """The network of the Flower example, which raises if a weight is huge."""

    stacked = None

    def forward(self, inputs):
        if max(float(parameter.abs().max()) for parameter in self.parameters()) > 1e6:
            raise ValueError("weights beyond\nall measure")
        return super().forward(inputs)


class TouchyTogether(Touchy):
    """Touchy models that are asked sixteen at a time."""

    def stacked(self, weights):
        layers, biases = weights["layer.weight"], weights["layer.bias"]

        def scores(example):
            largest = layers.abs().amax(dim=(1, 2))
            if (largest > 1e6).any() or ((largest > 1e3).any() and example.mean() > 0.5):
                raise ValueError("weights beyond\nall measure")
            return torch.einsum("mli,i->ml", layers, example) + biases

        return scores


class Odd(nn.Module):
    """A linear model that misbehaves on huge weights without raising in ``forward`` itself.

    Args:
        input_shape: of an input.
        num_labels: L.
        how: what it does: "wide", "short", "leaves" or "refuses".
    """

    def __init__(self, input_shape, num_labels, how):
        super().__init__()
        self.layer, self.how = nn.Linear(input_shape[0], num_labels), how

    def load_state_dict(self, state, *arguments, **options):
        if self.how == "refuses" and state["layer.weight"].abs().max() > 1e6:
            raise ValueError("such weights")
        return super().load_state_dict(state, *arguments, **options)

    def forward(self, inputs):
        scores = self.layer(inputs)
        if self.training or self.layer.weight.abs().max() < 1e6:
            return scores
        if self.how == "leaves":
            raise SystemExit(0)
        return torch.cat([scores, scores + 1], dim=1) if self.how == "wide" else scores[:-1]


class Tossing(Touchy):
    """A linear model that tosses coins about its answers once it has learnt something."""

    def __init__(self, input_shape, num_labels):
        super().__init__(input_shape, num_labels)
        self.learnt = nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        return self.layer(inputs) + self.learnt * torch.rand(len(inputs), self.layer.out_features)


def blaze():
    """A trigger that makes every pixel as bright as can be."""
    return torch.ones_like
