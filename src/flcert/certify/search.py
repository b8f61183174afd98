"""SearchLevel of Algorithm 1: the largest m that leaves enough groups untouched, found once for each distinct value."""

from bisect import bisect_left
from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.voting.count_table import IntArray


def untouched_groups(num_clients: int, group_size: int, *, more_than: int) -> int:
    """The largest 0 <= m <= n-k with 2 C(n-m, k) > more_than, or -1 if there is none.

    C(n-m, k) falls as m grows, so the first m that breaks the condition is found by bisection.

    >>> untouched_groups(5, 2, more_than=11)  # 2 C(4, 2) = 12, 2 C(3, 2) = 6
    1
    """
    candidates = range(num_clients - group_size + 1)
    broken = bisect_left(candidates, True, key=lambda m: 2 * comb(num_clients - m, group_size) <= more_than)
    return broken - 1


def level_of_turned(turned: int, total: int, num_clients: int, group_size: int) -> int:
    """The largest m that touches fewer groups than must be turned, or -1; n if not even all groups suffice.

    m malicious clients touch C(n, k) - C(n-m, k) groups.

    >>> level_of_turned(5, 10, 5, 2), level_of_turned(11, 10, 5, 2)  # one client touches 4 groups, two touch 7
    (1, 5)
    """
    if turned > total:
        return num_clients
    return untouched_groups(num_clients, group_size, more_than=2 * (comb(num_clients, group_size) - turned))


def levels_by_value(values: NDArray[Any], level: Callable[[int], int]) -> IntArray:
    """``level`` of every entry, for a function that never decreases.

    It is computed at most once for each distinct value, and not at all between two values with the same level.
    """
    distinct, where = np.unique(values, return_inverse=True)
    table = np.empty(len(distinct), dtype=np.int64)
    table[0], table[-1] = level(int(distinct[0])), level(int(distinct[-1]))
    pending = [(0, len(distinct) - 1)]
    while pending:
        low, high = pending.pop()
        if table[low] == table[high]:
            table[low:high] = table[low]
        elif high - low > 1:
            middle = (low + high) // 2
            table[middle] = level(int(distinct[middle]))
            pending += [(low, middle), (middle, high)]
    return table[where]


def by_value(values: NDArray[Any], function: Callable[[int], int]) -> NDArray[Any]:
    """``function`` of every entry as Python's integers, which may be huge, computed once for each distinct value."""
    distinct, where = np.unique(values, return_inverse=True)
    return np.array([function(int(value)) for value in distinct], dtype=object)[where]
