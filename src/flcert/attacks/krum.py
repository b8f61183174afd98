"""Fang et al.'s full-knowledge attack on Krum: Krum picks a malicious update that points the wrong way."""

from math import sqrt
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from flcert.aggregators import Round
from flcert.attacks.protocol import Attack, Scene


class KrumAttack(Attack):
    """All malicious clients send -lambda times the direction of the benign Krum update.

    lambda starts from the bound of Fang et al. (from the distances among benign updates and their norms) and is halved
    until the rule picks the malicious update, or lambda falls below the threshold.

    Args:
        threshold: the smallest lambda to try.
    """

    def __init__(self, threshold: Annotated[float, Field(gt=0)] = 1e-5) -> None:
        self.threshold = threshold

    def forge(self, scene: Scene) -> Round:
        """The round with the largest deviation that Krum still picks."""
        direction, step = scene.honest_direction(), self._bound(scene)
        while step >= self.threshold:
            forged = scene.forged(-step * direction)
            picked = scene.aggregator(forged)
            if any(torch.equal(picked, row) for row in forged.updates[scene.malicious]):
                return forged
            step /= 2
        return scene.forged(-step * direction)

    def _bound(self, scene: Scene) -> float:
        benign = scene.benign.updates.double()
        size, neighbours = benign.shape[1], max(1, len(scene.malicious) - 2 * scene.num_malicious - 1)
        spread = min(_sum_of_nearest(benign, one, neighbours) for one in benign)
        farthest = float(benign.norm(dim=1).max())
        return sqrt(spread / (neighbours * size)) + farthest / sqrt(size)


def _sum_of_nearest(updates: Tensor, one: Tensor, count: int) -> float:
    squared = (updates - one).square().sum(dim=1).sort().values
    return float(squared[: count + 1].sum())
