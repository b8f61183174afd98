"""Dealing labelled examples out to clients with a degree of non-iid (Fang et al., USENIX Security 2020)."""

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError, check_range

Indices = NDArray[np.int64]


def by_degree(
    labels: NDArray[np.integer], num_clients: int, degree: float, num_labels: int, generator: np.random.Generator
) -> list[Indices]:
    """Deal examples so that label group y holds a share q of the examples with label y.

    The clients form L label groups. An example with label y goes to label group y with probability q and to each other
    group with probability (1 - q) / (L - 1), then to a uniformly random client of that group. q = 1/L is iid.
    If L does not divide n, label group g has the clients floor(g n / L) to floor((g + 1) n / L) - 1, so that the
    sizes of label groups differ by at most one.

    Args:
        labels: the label y of each example, in [0, L).
        num_clients: n, at least L.
        degree: q, in [1/L, 1]; less than 1/L would be further from iid, not nearer.
        num_labels: L, at least 2.
        generator: draws everything.

    Returns:
        For each client the indices of its examples, ascending; every example is dealt to one client.

    Raises:
        InputError: an argument is out of range, or a client would hold nothing.
    """
    check_range("num_labels", num_labels, 2, max(2, num_clients), "num_clients")
    if not 1 / num_labels <= degree <= 1:
        raise InputError(f"degree must be in [1/num_labels={1 / num_labels:.4g}, 1], got {degree}")
    groups = _label_groups(np.asarray(labels), degree, num_labels, generator)
    edges = np.arange(num_labels + 1) * num_clients // num_labels
    clients = edges[groups] + generator.integers(0, np.diff(edges)[groups])
    return _shares(clients, num_clients)


def _label_groups(
    labels: NDArray[np.integer], degree: float, num_labels: int, generator: np.random.Generator
) -> Indices:
    """The label group of each example."""
    own = generator.random(len(labels)) < degree
    other = generator.integers(0, num_labels - 1, len(labels))
    other += other >= labels  # uniform over the groups that are not the label's own
    return np.where(own, labels, other)


def _shares(clients: Indices, num_clients: int) -> list[Indices]:
    """The examples of each client, from the client of each example."""
    sizes = np.bincount(clients, minlength=num_clients)
    if (sizes == 0).any():
        empty = int((sizes == 0).sum())
        raise InputError(
            f"{empty} of num_clients={num_clients} clients would hold none of {len(clients)} examples;"
            " use fewer clients or more examples"
        )
    return np.split(np.argsort(clients, kind="stable"), np.cumsum(sizes)[:-1])
