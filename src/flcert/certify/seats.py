"""Who sits in which group."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from flcert.errors import InputError


def share_a_client(groups: Sequence[ArrayLike]) -> bool:
    """Whether some client is in two groups, from the positions of each group's clients.

    >>> share_a_client([[0, 1], [2]]), share_a_client([[0, 1], [1]])
    (False, True)
    """
    seats = [client for group in groups for client in set(np.asarray(group).tolist())]
    return len(seats) > len(set(seats))


def seats_of(groups: Sequence[ArrayLike], num_clients: int) -> csr_array:
    """(kinds of clients x groups), 1 if the kind is in the group; clients in the same groups are of one kind."""
    members = [np.unique(np.asarray(group, dtype=np.int64)) for group in groups]
    for number, group in enumerate(members):
        if len(group) and not 0 <= group[0] <= group[-1] < num_clients:
            raise InputError(f"clients of group {number} must be in [0, num_clients - 1={num_clients - 1}]")
    kinds: dict[tuple[int, ...], None] = {}
    of_client: list[list[int]] = [[] for _ in range(num_clients)]
    for number, group in enumerate(members):
        for client in group:
            of_client[client].append(number)
    for served in of_client:
        if served:
            kinds[tuple(served)] = None
    columns = [number for kind in kinds for number in kind]
    offsets = np.cumsum([0, *map(len, kinds)])
    ones = np.ones(len(columns), dtype=np.int64)
    return csr_array((ones, columns, offsets), shape=(len(kinds), len(groups)))
