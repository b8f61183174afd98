"""Multi-Krum (Blanchard et al.): the mean of the updates that lie closest to their nearest neighbours."""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from flcert.aggregators.krum import krum_scores, squared_distances
from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.robust import Robust


def multi_krum(
    assumed_malicious: Annotated[int, Field(ge=0)] = 1, kept: Annotated[int, Field(ge=1)] | None = None
) -> Aggregator:
    """The rule: the mean of the updates with the smallest Krum scores, the first ones on a tie.

    Args:
        assumed_malicious: f of Krum; at least f + 3 updates are needed.
        kept: how many updates the mean is taken over, by default all but f. At least f must be left out, so at least
            kept + f updates are needed.
    """

    def mean_of_nearest(updates: Tensor) -> Tensor:
        scores = krum_scores(squared_distances(updates), assumed_malicious)
        return updates[scores.argsort(stable=True)[: kept or len(updates) - assumed_malicious]].mean(dim=0)

    return Robust(mean_of_nearest, least=max(3, kept or 0) + assumed_malicious)
