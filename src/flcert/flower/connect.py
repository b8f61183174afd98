"""Wait until every client is connected: find the node of each user id, or fail before anybody trains."""

import time
from collections import Counter
from collections.abc import Collection, Mapping

from flwr.serverapp import Grid

from flcert.errors import InputError, RunError
from flcert.flower.options import Clients


def connected(grid: Grid, clients: Clients, *, wait: float = 60.0, poll: float = 1.0) -> dict[str, int | None]:
    """Find the node of every client, in order of user id; None for absent clients on a given list.

    Fails closed: a node without an id, an id that two nodes share, or too few or too many nodes end the run before
    anybody trains. With a list, nodes that are not on it are ignored instead. An absent client stays in its group as
    one that sends nothing.

    Args:
        grid: the grid that the ServerApp was given.
        clients: who takes part, and where ids come from.
        wait: seconds until all must be connected.
        poll: seconds between two checks.
    """
    given, users, absent = clients.registered, clients.users, clients.absent
    registered = None if isinstance(given, int) else _checked_list(given, absent)
    expected = given if isinstance(given, int) else len(given)
    if expected < 1:
        raise InputError(f"clients must be at least 1, got {expected}")
    if registered is None and absent:
        raise InputError(f"absent={absent} needs the list of all clients' ids, to know who is missing")
    deadline, seen, found = time.monotonic() + wait, None, {}
    while True:
        late, nodes = time.monotonic() >= deadline, frozenset(grid.get_node_ids())
        if nodes != seen and (late or _enough(len(nodes), expected, registered)):  # asking sends each a message
            seen, found = nodes, dict(users(grid))
        if late or _complete(found, expected, registered):
            break
        time.sleep(poll)
    if registered is None:
        return _all_of(found, expected)
    return _listed(found, registered, absent)


def _enough(number: int, expected: int, registered: Collection[str] | None) -> bool:
    """Whether all may be connected; a restarted node counts twice until Flower forgets the old one."""
    return number == expected if registered is None else number >= expected


def _complete(found: Mapping[int, str], expected: int, registered: Collection[str] | None) -> bool:
    """Whether all are connected; with a list, strangers do not count."""
    return len(found) == expected if registered is None else set(registered) <= set(found.values())


def _all_of(found: Mapping[int, str], expected: int) -> dict[str, int | None]:
    unnamed = [node for node, user in found.items() if not user]
    if unnamed:
        raise RunError(f"node {unnamed[0]} has no user id ({len(unnamed)} of {len(found)} nodes)")
    if len(found) != expected:
        raise RunError(f"{expected} clients are expected, but {len(found)} nodes are connected")
    _refuse_doubled(found.values())
    return {user: node for node, user in sorted(found.items(), key=lambda pair: pair[1])}


def _listed(found: Mapping[int, str], registered: Collection[str], absent: int) -> dict[str, int | None]:
    known = {node: user for node, user in found.items() if user in registered}
    _refuse_doubled(known.values())
    nodes = {user: node for node, user in known.items()}
    missing = sorted(user for user in registered if user not in nodes)
    if len(missing) > absent:
        raise RunError(f"{len(missing)} of {len(registered)} clients are not connected, such as {missing[0]!r}")
    return {user: nodes.get(user) for user in sorted(registered)}


def _checked_list(clients: Collection[str], absent: int) -> frozenset[str]:
    for user in clients:
        if not isinstance(user, str) or not user:
            raise InputError(f"user ids must be strings that are not empty, got {user!r}")
    doubled = [user for user, times in Counter(clients).items() if times > 1]
    if doubled:
        raise InputError(f"user ids must be unique, got {doubled[0]!r} more than once")
    if not 0 <= absent < max(1, len(clients)):
        raise InputError(f"absent must be in [0, clients - 1={len(clients) - 1}], got {absent}")
    return frozenset(clients)


def _refuse_doubled(users: Collection[str]) -> None:
    doubled = [user for user, times in Counter(users).items() if times > 1]
    if doubled:
        raise RunError(f"user id {doubled[0]!r} belongs to more than one node")
