"""How many clients of a group take part in a round, and how often a client does."""

from math import floor

import numpy as np

TAIL = 1e-15  # a negligible probability
MANY = 10**6


def num_participants(num_clients: int, participation: float) -> int:
    """How many clients of a group take part in a round: a share of them, rounded, at least one."""
    return max(1, floor(participation * num_clients + 0.5))


def share_of_rounds(group_size: int, participation: float) -> float:
    """The share of rounds in which a client of a group takes part: beta_e, up to rounding to whole clients."""
    return num_participants(group_size, participation) / group_size


def expected_share(num_clients: int, probability: float, participation: float) -> float:
    """The average share for a client whose group contains each other client with this probability.

    In small groups it is more than beta_e, because at least one client takes part in a round.

    >>> expected_share(1000, 1 / 500, 0.1)  # groups of two on average, and one of them in each round
    0.43...
    """
    if participation == 1:
        return 1.0
    from scipy.stats import binom  # slow to import, so only where it is needed

    others = binom(num_clients - 1, probability)
    least, most = (int(end) for end in others.ppf([TAIL, 1 - TAIL]))
    if most - least > MANY:
        return participation  # groups are so large that rounding does not matter
    numbers = np.arange(least, most + 1)
    shares = [share_of_rounds(1 + number, participation) for number in numbers.tolist()]
    return float(sum(others.pmf(numbers) * shares))
