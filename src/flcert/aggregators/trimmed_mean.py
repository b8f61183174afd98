"""Trimmed mean (Yin et al.): per coordinate, the mean without the largest and smallest values."""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.robust import Robust


def trimmed_mean(assumed_malicious: Annotated[int, Field(ge=0)] = 1) -> Aggregator:
    """The rule.

    Args:
        assumed_malicious: b, how many values are left out at each end; more than 2b updates are needed.
    """

    def trimmed(updates: Tensor) -> Tensor:
        return updates.sort(dim=0).values[assumed_malicious : len(updates) - assumed_malicious].mean(dim=0)

    return Robust(trimmed, least=2 * assumed_malicious + 1)
