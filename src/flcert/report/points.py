"""Which points of a certified-accuracy curve to show and to speak of."""

import numpy as np
from numpy.typing import NDArray

from flcert.guarantee import Guarantee

Curve = NDArray[np.float64]


def chosen_levels(curve: Curve) -> list[int]:
    """A few numbers of malicious clients worth a row: 0, round ones, and the last with a certified input.

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
    """The m to speak of in one sentence: the largest chosen one that keeps at least three quarters of CA@0."""
    return max(m for m in chosen_levels(curve) if curve[m] >= 0.75 * curve[0])


def proof_sentence(guarantee: Guarantee, curve: Curve, num_inputs: int, *, right: bool) -> str:
    """One sentence that says what the curve proves, at the point that tells most."""
    m = telling_level(curve)
    return guarantee.sentence(m, round(curve[m] * num_inputs), num_inputs, right=right)
