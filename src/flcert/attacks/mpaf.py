"""MPAF (Cao and Gong): fake clients drag the model towards a random one, in every round, with amplified updates."""

from typing import Annotated

import torch
from pydantic import Field

from flcert.aggregators import Round
from flcert.attacks.protocol import Attack, Scene
from flcert.core.seeding import derive


class MPAF(Attack):
    """Malicious clients send scale * (base model - global model); the base model is random and the same in all rounds.

    Args:
        scale: the amplification lambda.
        spread: standard deviation of the base model's values.
        base_seed: the seed of the base model, which the attacker chooses.
    """

    def __init__(
        self,
        scale: Annotated[float, Field(gt=0)] = 1e6,
        spread: Annotated[float, Field(gt=0)] = 0.1,
        base_seed: Annotated[int, Field(ge=0)] = 0,
    ) -> None:
        self.scale, self.spread, self.base_seed = scale, spread, base_seed

    def forge(self, scene: Scene) -> Round:
        """The round with amplified updates."""
        generator = torch.Generator().manual_seed(derive(self.base_seed, "base model"))
        base = self.spread * torch.randn(len(scene.state), generator=generator)
        return scene.forged(self.scale * (base - scene.state))
