"""Bagdasaryan et al.'s backdoor with model replacement: train on stamped copies, and scale the update."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from flcert.aggregators import Round
from flcert.attacks import triggers
from flcert.attacks.protocol import Attack, Scene
from flcert.core.settings import Choice
from flcert.errors import InputError


class Backdoor(Attack):
    """Malicious clients add a stamped copy of each example, labelled with the target, and scale their updates.

    Args:
        trigger: a name from ``flcert.attacks.triggers.TRIGGERS`` or an import path, with its options.
        target: the label that stamped inputs should get.
        scale: the factor on updates; by default the number of the round's clients divided by that of malicious ones.
    """

    def __init__(
        self,
        trigger: Choice = Choice(name="corner"),  # noqa: B008 (frozen)
        target: Annotated[int, Field(ge=0)] = 0,
        scale: Annotated[float, Field(gt=0)] | None = None,
    ) -> None:
        self.trigger, self.target, self.scale = trigger, target, scale
        self.stamp = triggers.build(trigger)

    def poison(self, inputs: Tensor, labels: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:
        """The data and a stamped copy of it."""
        if self.target >= num_labels:
            raise InputError(f"target must be in [0, {num_labels - 1}], got {self.target}")
        wrong = torch.full_like(labels, self.target)
        return torch.cat([inputs, self.stamp(inputs)]), torch.cat([labels, wrong])

    def forge(self, scene: Scene) -> Round:
        """The round with scaled updates."""
        scale = self.scale or len(scene.malicious) / scene.num_malicious
        return scene.forged(scale * scene.brought.updates[scene.malicious])
