"""What the Byzantine-robust rules share: they drop updates that are not finite, and need a minimum of the rest."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flcert.aggregators.protocol import Round


@dataclass(frozen=True)
class Robust:
    """A rule over finite updates, each with the same weight.

    A round with fewer finite updates than the rule needs is aggregated by the coordinate-wise median instead, which
    needs only one; a round with none leaves the model as it is.

    Args:
        rule: (clients x values) to (values).
        least: how many updates the rule needs.
    """

    rule: Callable[[Tensor], Tensor]
    least: int

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
        finite = given.updates[given.updates.isfinite().all(dim=1)]
        if len(finite) == 0:
            return torch.zeros_like(given.updates[0])
        return self.rule(finite) if len(finite) >= self.least else middle(finite)

    def substitute(self, num_updates: int) -> str | None:
        """The rule that replaces this one for this few updates."""
        return "median" if num_updates < self.least else None


def middle(updates: Tensor) -> Tensor:
    """The median of each coordinate; the mean of the two middle values when their number is even."""
    ordered = updates.sort(dim=0).values
    upper = len(updates) // 2
    return ordered[upper] if len(updates) % 2 else (ordered[upper - 1] + ordered[upper]) / 2
