"""Bulyan (El Mhamdi et al.): Krum selects updates one by one; then each coordinate is a mean near their median."""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from flcert.aggregators.krum import krum_scores, squared_distances
from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.robust import Robust, middle


def bulyan(assumed_malicious: Annotated[int, Field(ge=0)] = 1) -> Aggregator:
    """The rule: per coordinate, the mean of the n - 4f values nearest to the median of n - 2f selected updates.

    The smaller value wins if two are equally near. Differs from the paper: the last updates are selected among so few
    that Krum has no n - f - 2 neighbours to look at; there the nearest one counts.

    Args:
        assumed_malicious: f; at least 4f + 3 updates are needed.
    """

    def mean_near_median(updates: Tensor) -> Tensor:
        selected = updates[_selected(updates, assumed_malicious)].sort(dim=0).values
        distances = (selected - middle(selected)).abs()
        nearest = distances.argsort(dim=0, stable=True)[: len(updates) - 4 * assumed_malicious]
        return selected.gather(0, nearest).mean(dim=0)

    return Robust(mean_near_median, least=4 * assumed_malicious + 3)


def _selected(updates: Tensor, assumed_malicious: int) -> list[int]:
    """Positions of the n - 2f updates that Krum picks one after the other, each among those that are left."""
    squared, left, selected = squared_distances(updates), list(range(len(updates))), list[int]()
    while len(selected) < len(updates) - 2 * assumed_malicious:
        scores = krum_scores(squared[left][:, left], assumed_malicious)
        selected.append(left.pop(int(scores.argmin())))
    return selected
