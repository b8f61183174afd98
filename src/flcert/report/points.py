"""Which points of certified-accuracy curves to show and to mention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Guarantee
from flcert.runs.records import OverlapFacts, PublicFigures, Summary

Curve = NDArray[np.float64]


@dataclass(frozen=True)
class Also:
    """The curve of a further certificate of the same models.

    Args:
        kind: the kind of certificate.
        title: what people call it.
        values: the share of inputs by m.
        complete: whether the share is zero at all other m; if not, it was not computed there.
        flat: the share at every m, for a model that no client can change.
        same_labels: whether it has no labels of its own, but is about those that the run's certificate is about.
    """

    kind: str
    title: str
    values: Mapping[int, float]
    complete: bool
    flat: float | None = None
    same_labels: bool = False

    def at(self, m: int) -> float | None:
        """The share at m, or None if it is not known."""
        if self.flat is not None:
            return self.flat
        return self.values.get(m, 0.0 if self.complete else None)

    def proved_at(self, m: int, own: Curve) -> float:
        """The largest share that is proved for m, also where none was computed for this m.

        Whoever controls m clients could also control more and do nothing with them, so what holds against m' clients
        holds against any m < m'. And if both certificates are about the same labels, certified accuracy is a lower
        bound of this share, too, and the better of the two counts.

        Args:
            m: the number of malicious clients.
            own: the run's certified accuracy by m.

        >>> sparse = Also("whole", "whole", {0: 0.9, 4: 0.5}, complete=False, same_labels=True)
        >>> [sparse.proved_at(m, np.array([0.9, 0.6, 0.4, 0.3, 0.2, 0.1])) for m in range(6)]
        [0.9, 0.6, 0.5, 0.5, 0.5, 0.1]
        """
        later = [share for other, share in self.values.items() if other >= m and not self.complete]
        plain = float(own[m]) if self.same_labels and m < len(own) else 0.0
        return max([self.at(m) or 0.0, plain, *later])


def also_curves(summary: Summary) -> list[Also]:
    """Curves of further certificates of the same models, and the line of the public model, from a run's summary."""
    curves, num_inputs = [], summary.inputs
    for kind, found in summary.also.items():
        if found.certified_accuracy is not None:
            curves.append(Also(kind, found.title, dict(enumerate(found.certified_accuracy)), complete=True))
        else:
            shares = {m: inputs / num_inputs for m, inputs in (found.inputs or {}).items()}
            same = found.accuracy is None
            curves.append(Also(kind, found.title, shares, complete=False, same_labels=same))
    if summary.public:
        curves.append(Also("public", "public model alone", {}, complete=True, flat=summary.public.accuracy))
    return curves


def overlap_sentence(facts: OverlapFacts) -> str:
    """How many inputs the public model had seen."""
    told = []
    for found, whose in ((facts.test_inputs, "test inputs"), (facts.clients, "inputs of clients")):
        if found is None:
            continue
        examined, matches = found
        if matches is None:
            return "Whether the public model was trained on these inputs could not be checked."
        told.append(f"{matches:,} of {examined:,} {whose}")
    unknown = "" if facts.clients else "; the inputs of clients are not known to the server"
    return f"Near-duplicates of what the public model was trained on: {' and '.join(told)}{unknown}."


def excluded_sentence(number: int | None) -> str:
    """How clients with unusable data are counted; nothing if there are none.

    >>> excluded_sentence(1).partition(": ")[2]
    'beside a federation of honest clients it is one of the m malicious ones.'
    """
    if not number:
        return ""
    if number == 1:
        left_out, they_are = "1 client's file was unusable and left out", "it is one of the m malicious ones"
    else:
        left_out = f"{number:,} clients' files were unusable and left out"
        they_are = f"they are {number:,} of the m malicious ones, so read m = {number:,} and above"
    return f"{left_out}: beside a federation of honest clients {they_are}."


def public_sentence(figures: PublicFigures, num_inputs: int) -> str:
    """What the public model reaches alone, and how far the certified accuracy is above it."""
    right = f"{round(figures.accuracy * num_inputs):,} of them ({figures.accuracy:.1%})"
    alone = f"The public model {figures.name!r} alone gets {right} right, whatever any number of clients do;"
    if figures.above_until is None:
        return f"{alone} the certified accuracy is never above that."
    return f"{alone} the certified accuracy is above that up to m = {figures.above_until:,}."


def widened(curve: Curve, also: Sequence[Also]) -> Curve:
    """The curve, padded with zeros as far as further certificates reach.

    >>> widened(np.array([0.5, 0.0]), [Also("a", "A", {0: 0.9, 1: 0.8, 2: 0.7, 3: 0.0}, complete=True)])
    array([0.5, 0. , 0. , 0. ])
    """
    reach = [m + 2 for one in also for m, share in one.values.items() if share > 0]
    return np.pad(curve, (0, max([len(curve), *reach]) - len(curve)))


def levels_of_all(curve: Curve, also: Sequence[Also]) -> list[int]:
    """Levels worth a row when several certificates are shown."""
    falling = [one for one in also if one.flat is None]
    shares = [[own, *(one.at(m) or 0.0 for one in falling)] for m, own in enumerate(widened(curve, also))]
    return chosen_levels(np.max(shares, axis=1))


def chosen_levels(curve: Curve) -> list[int]:
    """A few numbers of malicious clients worth a row: 0, round ones, and the last one with a certified input.

    >>> chosen_levels(np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.0]))
    [0, 1, 2, 5, 7]
    """
    last = last_level(curve)
    round_ones = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    return [0, *(m for m in round_ones if m < last), *([last] if last else [])]


def last_level(curve: Curve) -> int:
    """The largest m at which the curve is above zero."""
    above = np.flatnonzero(curve)
    return int(above[-1]) if len(above) else 0


def telling_level(curve: Curve) -> int:
    """The m to mention in a summary: the largest chosen one that keeps three quarters of CA@0, or else 1.

    >>> telling_level(np.array([0.9, 0.8, 0.7, 0.6])), telling_level(np.array([0.9, 0.1])), telling_level(np.zeros(2))
    (2, 1, 0)
    """
    return max(m for m in chosen_levels(curve) if curve[m] >= 0.75 * curve[0] or m <= 1)


def sentences(guarantee: Guarantee, curve: Curve, num_inputs: int) -> list[str]:
    """What each point of a curve of certified accuracy proves, at index m."""
    return [guarantee.sentence(m, round(share * num_inputs), num_inputs, right=True) for m, share in enumerate(curve)]


def proof_sentence(guarantee: Guarantee, curve: Curve, num_inputs: int, *, right: bool) -> str:
    """One sentence that says what the curve proves, at its most telling point."""
    m = telling_level(curve)
    return guarantee.sentence(m, round(curve[m] * num_inputs), num_inputs, right=right)
