"""Heads for public features that need no training: they are made of the classifier that was published with them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from flcert.core.digest import digest_arrays
from flcert.core.settings import Choice
from flcert.features.efficientnet import CIFAR10_CLASSES, FILE, SHA256, efficientnet_lite0_head
from flcert.public import Card, PublicModel, SourceFacts
from flcert.training.device import array


@dataclass(frozen=True)
class Head:
    """A linear head that no client has touched.

    Args:
        title: what it is made of.
        weights: makes its weights, (labels x features), with rows of length 1.
        scale: the length of its rows; the longer they are, the surer the head is of its labels at first.
        source: where the published classifier comes from, without a digest of what is made of it.
        recipe: how the weights are made, for the card.
    """

    title: str
    weights: Callable[[], Tensor]
    scale: float
    source: SourceFacts
    recipe: dict[str, object]


HEADS: dict[str, Head] = {
    "cifar10-imagenet": Head(
        title="the ImageNet classifier of efficientnet-lite0, its classes joined to CIFAR-10's labels by their names",
        weights=lambda: efficientnet_lite0_head(CIFAR10_CLASSES),
        scale=10.0,
        source=SourceFacts(
            name="imagenet",
            title="the ImageNet classifier of EfficientNet-Lite0",
            licence="Apache-2.0",
            examples=1_281_167,
            digest=SHA256,
            files={FILE.name: SHA256},
        ),
        recipe={"features": "efficientnet-lite0", "classes": CIFAR10_CLASSES},
    )
}
"""The heads by name."""


def head(name: str) -> PublicModel:
    """A head of the catalogue, for the model ``linear``; its biases are zero."""
    made = HEADS[name]
    weights = array(made.scale * made.weights())
    labels, width = weights.shape
    card = Card(
        name=name,
        model=Choice(name="linear"),
        input_shape=(width,),
        num_labels=labels,
        sources=(made.source,),
        training={**made.recipe, "scale": made.scale, "digest": digest_arrays(weights)},
        held_out=0,
    )
    return PublicModel(name, {"layers.1.weight": weights, "layers.1.bias": np.zeros(labels, np.float32)}, card)
