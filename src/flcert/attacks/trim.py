"""Fang et al.'s full-knowledge attack on coordinate-wise rules: just outside the benign values, on the wrong side."""

from collections.abc import Callable
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from flcert.aggregators import Round
from flcert.attacks.protocol import Attack, Scene


class TrimAttack(Attack):
    """For trimmed mean, median and FLTrust.

    Where the benign aggregate grows, malicious clients send values below the benign minimum, and elsewhere above the
    maximum: the extreme times r or 1/r, with r uniform in [1, reach], whichever lies further in the wrong direction.

    Args:
        reach: the largest r.
    """

    def __init__(self, reach: Annotated[float, Field(gt=1)] = 2.0) -> None:
        self.reach = reach

    def forge(self, scene: Scene) -> Round:
        """The round with values beyond the benign ones."""
        benign, direction = scene.benign.updates, scene.honest_direction()
        generator = torch.Generator().manual_seed(scene.seed)
        factor = 1 + (self.reach - 1) * torch.rand(scene.num_malicious, benign.shape[1], generator=generator)
        below = _outside(benign.min(dim=0).values, factor, torch.minimum)
        above = _outside(benign.max(dim=0).values, factor, torch.maximum)
        return scene.forged(torch.where(direction > 0, below, above))


def _outside(extreme: Tensor, factor: Tensor, further: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return further(extreme * factor, extreme / factor)
