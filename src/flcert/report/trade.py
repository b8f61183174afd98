"""What trusted votes would gain and cost in a finished run: a table for several numbers of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flcert.certify import trade
from flcert.errors import InputError
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


def trade_of_run(directory: RunDirectory) -> Trade:
    """The trade of a run.

    Raises:
        InputError: there is none; the message says why.
    """
    if reason := why_no_trade(directory):
        raise InputError(reason)
    guarantee = directory.guarantee()
    evidence, name = directory.evidence(guarantee.needs), "the trusted model"
    if evidence.trusted is None:
        labels, facts = directory.array("public").astype(np.int64), directory.manifest().public
        evidence, name = replace(evidence, trusted=labels), f"{facts.name if facts else None!r}"
    groups = len(directory.manifest().groups)
    numbers = sorted({round(share * groups) for share in SHARES} | {guarantee.trusted})
    return Trade(name, trade(guarantee, evidence, directory.truth(), numbers))


def why_no_trade(directory: RunDirectory) -> str:
    """Why a run has no trade to show; empty if it has one."""
    guarantee = directory.guarantee()
    if not any((directory.path / f"{model}.npy").exists() for model in ("trusted", "public")):
        return (
            f"{directory.path} has no public or trusted model whose votes could be counted beside those of the groups"
        )
    if not guarantee.takes_trusted:
        return f"{directory.path} has certificate {guarantee.kind!r}, which cannot take trusted votes"
    if guarantee.probabilistic:
        return (
            f"{directory.path} has certificate {guarantee.kind!r}, which is probabilistic: its curves for several "
            "numbers of trusted votes would not hold together"
        )
    return ""
