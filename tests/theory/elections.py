"""Run-off elections the slow way: every profile of a few groups and three labels."""

from functools import cache
from itertools import permutations, product

import numpy as np

LABELS = 3
ORDERS = list(permutations(range(LABELS)))  # the label at each place
BALLOTS = [*ORDERS, None]  # a group may also cast no vote


def elected(orders):
    """The naive run-off: most votes, two finalists, then the one that more groups rank higher; ties to the smaller."""
    votes = [sum(order[0] == label for order in orders) for label in range(LABELS)]
    first, second = sorted(range(LABELS), key=lambda label: (-votes[label], label))[:2]
    supporters = sum(order.index(first) < order.index(second) for order in orders)
    if 2 * supporters == len(orders):
        return min(first, second)
    return first if 2 * supporters > len(orders) else second


def places(orders):
    tables = np.array([[order.index(label) for label in range(LABELS)] for order in orders])
    return [table[None] for table in tables]


@cache
def elections(size):
    """The label that each profile of ballots elects, one axis for each group."""
    profiles = product(BALLOTS, repeat=size)
    labels = [elected([ballot for ballot in profile if ballot is not None]) for profile in profiles]
    return np.array(labels).reshape([len(BALLOTS)] * size)


def profiles_of(size):
    """Every profile of full ballots, and the ranks of each group on all of them."""
    profiles = list(product(range(len(ORDERS)), repeat=size))
    tables = np.argsort(np.array(ORDERS), axis=1)[np.array(profiles)]  # (profiles x groups x labels)
    return profiles, list(tables.transpose(1, 0, 2))


def stands(profile, free, label):
    """Whether the label is elected whatever the free groups do."""
    table = elections(len(profile))
    outcomes = table[tuple(slice(None) if group in free else ballot for group, ballot in enumerate(profile))]
    return bool((outcomes == label).all())
