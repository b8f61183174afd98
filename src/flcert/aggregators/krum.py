"""Krum (Blanchard et al.): the one update that lies closest to its nearest neighbours."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.robust import Robust


def krum(assumed_malicious: Annotated[int, Field(ge=0)] = 1) -> Aggregator:
    """The rule: the update with the smallest score, the first on a tie.

    Args:
        assumed_malicious: f; an update's score is the sum of its squared distances to its n - f - 2 nearest
            neighbours, so at least f + 3 updates are needed.
    """

    def nearest(updates: Tensor) -> Tensor:
        return updates[int(krum_scores(squared_distances(updates), assumed_malicious).argmin())]

    return Robust(nearest, least=assumed_malicious + 3)


def squared_distances(updates: Tensor) -> Tensor:
    """The squared distance between every two updates, infinite between an update and itself.

    Distances are computed pair by pair in float64: the shortcut with inner products loses digits for close updates.
    """
    exact = updates.double()
    squared = torch.stack([(exact - one).square().sum(dim=1) for one in exact])
    return squared.fill_diagonal_(float("inf"))


def krum_scores(squared: Tensor, assumed_malicious: int) -> Tensor:
    """Each update's sum of squared distances to its n - f - 2 nearest neighbours, at least one.

    Args:
        squared: the squared distances, as ``squared_distances`` returns them.
        assumed_malicious: f.
    """
    neighbours = max(1, len(squared) - assumed_malicious - 2)
    return squared.sort(dim=1).values[:, :neighbours].sum(dim=1)
