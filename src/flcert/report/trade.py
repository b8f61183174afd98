"""What trusted votes would gain and cost in a finished run: a table for several numbers of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flcert.certify import trade
from flcert.report.points import chosen_levels
from flcert.runs.directory import RunDirectory

SHARES = (0.0, 0.2, 0.4, 0.8)  # numbers of trusted votes to show, as shares of the number of groups


@dataclass(frozen=True)
class Trade:
    """Certified accuracy with several numbers of trusted votes, from the same votes of the groups.

    Args:
        model: whose votes they are.
        curves: CA@m at index m, zero beyond, by the number of trusted votes.
    """

    model: str
    curves: Mapping[int, NDArray[np.float64]]

    @property
    def levels(self) -> list[int]:
        """The numbers of malicious clients worth a row."""
        length = max(map(len, self.curves.values()))
        padded = [np.pad(curve, (0, length - len(curve))) for curve in self.curves.values()]
        return chosen_levels(np.max(padded, axis=0))

    def at(self, votes: int, m: int) -> float:
        """CA@m with this number of trusted votes."""
        curve = self.curves[votes]
        return float(curve[m]) if m < len(curve) else 0.0


def trade_of_run(directory: RunDirectory) -> Trade | None:
    """The trade of a run that has a trusted or a public model, if its certificate takes trusted votes."""
    guarantee = directory.guarantee()
    facts = directory.manifest().public
    if facts is None or not guarantee.takes_trusted or guarantee.probabilistic:
        return None
    evidence, name = directory.evidence(guarantee.needs), "the trusted model"
    if evidence.trusted is None:
        if not (directory.path / "public.npy").exists():
            return None
        evidence, name = replace(evidence, trusted=directory.array("public").astype(np.int64)), f"{facts.name!r}"
    groups = len(directory.manifest().groups)
    numbers = sorted({round(share * groups) for share in SHARES} | {guarantee.trusted})
    return Trade(name, trade(guarantee, evidence, directory.truth(), numbers))
