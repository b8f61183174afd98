"""Who the nodes are: a stable user id for each, or an error. Node ids are new at every start and name nobody."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from flcert.errors import InputError, RunError
from flcert.flower.replies import readable

Users = Callable[[Grid], Mapping[int, str]]  # the user id of each node, "" where it has none


def by_public_key(grid: Grid) -> dict[int, str]:
    """The SHA-256 digest of each node's public key: stable with node authentication, and nobody can take another's."""
    return {node.node_id: _fingerprint(node.public_key) for node in grid.get_nodes()}


def by_name(names: Mapping[str, str] | None = None) -> Users:
    """The names under which the administrator registered the nodes.

    Args:
        names: user ids by the SHA-256 digest of the node's public key, as 64 hexadecimal digits; by default the
            names of ``flwr supernode register --name``.
    """
    if names is None:
        return lambda grid: {node.node_id: node.name for node in grid.get_nodes()}
    return lambda grid: {node: names.get(digest, "") for node, digest in by_public_key(grid).items()}


def by_query(key: str = "user-id", timeout: float = 60.0) -> Users:
    """What each client answers to a query (``@app.query()``): a ConfigRecord with the id under ``key``.

    Without node authentication this is the only stable id, and it is the client's own word: whoever starts ten nodes
    is ten clients.

    Args:
        key: of the ConfigRecord.
        timeout: seconds to wait for the answers.
    """

    def ask(grid: Grid) -> dict[int, str]:
        nodes = list(grid.get_node_ids())
        questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        answers = grid.send_and_receive(questions, timeout=timeout)
        told = {answer.metadata.src_node_id: _told(answer, key) for answer in answers}
        return {node: told.get(node, "") for node in nodes}

    return ask


def connected(
    grid: Grid,
    users: Users,
    clients: int | Collection[str],
    *,
    absent: int = 0,
    wait: float = 60.0,
    poll: float = 1.0,
) -> dict[str, int | None]:
    """The node of every client, in order of user id; None for those of a given list who may be absent.

    Fails closed: a node without an id, an id that two nodes have, too few nodes, or too many end the run before
    anybody trains. With a list, nodes that are not on it are left out instead.

    Args:
        grid: that the ServerApp was given.
        users: where ids come from.
        clients: how many clients there are, or the ids of all that are registered.
        absent: how many of a list may be missing. They stay in their groups as clients that send nothing.
        wait: seconds until all must be there.
        poll: seconds between two looks.
    """
    registered = None if isinstance(clients, int) else _checked_list(clients, absent)
    expected = clients if isinstance(clients, int) else len(clients)
    if expected < 1:
        raise InputError(f"clients must be at least 1, got {expected}")
    if registered is None and absent:
        raise InputError(f"absent={absent} needs the list of all clients' ids, to know who is missing")
    deadline, seen, found = time.monotonic() + wait, None, {}
    while True:
        late, nodes = time.monotonic() >= deadline, frozenset(grid.get_node_ids())
        if nodes != seen and (late or _enough(len(nodes), expected, registered)):  # asking costs each a message
            seen, found = nodes, dict(users(grid))
        if late or _complete(found, expected, registered):
            break
        time.sleep(poll)
    if registered is None:
        return _all_of(found, expected)
    return _listed(found, registered, absent)


def _enough(number: int, expected: int, registered: Collection[str] | None) -> bool:
    """Whether all may be there; a node that was started again counts twice until Flower forgets the old one."""
    return number == expected if registered is None else number >= expected


def _complete(found: Mapping[int, str], expected: int, registered: Collection[str] | None) -> bool:
    """Whether all are there; strangers do not count in place of those on a list."""
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


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest() if key else ""


def _told(answer: Message, key: str) -> str:
    """The id in an answer, or nothing: a client may answer anything."""
    if answer.has_error():
        return ""
    told = next((record[key] for record in answer.content.config_records.values() if key in record), "")
    return readable(told) if isinstance(told, str) else ""
