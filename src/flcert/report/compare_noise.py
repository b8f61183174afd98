"""Whether two settings differ by more than the noise of their seeds."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95
LEAST_REPEATS = 3
"""With two repeats the spread is known so badly that no difference is called noise or more than noise."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The difference of two means, with an interval.

    Args:
        mean: the first minus the second.
        half: half the width of the interval around it.
    """

    mean: float
    half: float

    @property
    def within_noise(self) -> bool:
        """Whether the interval contains zero."""
        return abs(self.mean) <= self.half


def difference(first: Values, second: Values) -> Difference | None:
    """Welch's 95 % interval for the difference of two means; None with fewer than three repeats on either side.

    It takes the repeats of the two settings as independent of each other and roughly normal. Where settings share
    their groups and seeds, results tend to go up and down together, and the interval tends to be too wide.

    >>> difference(np.array([0.90, 0.91, 0.92]), np.array([0.80, 0.81, 0.82])).within_noise
    False
    >>> difference(np.array([0.90, 0.91, 0.92]), np.array([0.89, 0.91, 0.90])).within_noise
    True
    """
    if min(len(first), len(second)) < LEAST_REPEATS:
        return None
    parts = [float(values.var(ddof=1)) / len(values) for values in (first, second)]
    mean, total = float(first.mean() - second.mean()), sum(parts)
    if total == 0:
        return Difference(mean, 0.0)
    freedom = total**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True))
    return Difference(mean, float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * sqrt(total))
