"""Who the nodes are: a stable user id for each, or an error. Node ids change at every start and identify nobody."""

import hashlib
import time
from collections.abc import Callable, Mapping

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from flcert.flower.grid import pushed
from flcert.flower.replies import comes_from, readable

Users = Callable[[Grid], Mapping[int, str]]  # the user id of each node, "" if it has none


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


def by_query(key: str = "user-id", timeout: float = 60.0, poll: float = 0.5) -> Users:
    """The ids that clients report when queried (``@app.query()``): a ConfigRecord with the id under ``key``.

    Without node authentication this is the only stable id, but clients choose it themselves: whoever starts ten nodes
    counts as ten clients. A node can answer for itself only.

    Args:
        key: the key in the ConfigRecord.
        timeout: seconds to wait for the answers.
        poll: seconds between two checks for them.
    """

    def ask(grid: Grid) -> dict[int, str]:
        nodes, deadline = list(grid.get_node_ids()), time.monotonic() + timeout
        names = pushed(grid, [Message(RecordDict(), node, MessageType.QUERY) for node in nodes])
        waiting = {name: node for name, node in zip(names, nodes, strict=True) if name}
        told = dict.fromkeys(nodes, "")
        while waiting:
            for name, node in list(waiting.items()):
                if (answer := _answer(grid, name, node)) is not None:
                    told[waiting.pop(name)] = _told(answer, key)
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(poll)
        return told

    return ask


def _answer(grid: Grid, name: str, node: int) -> Message | None:
    """The node's answer to one question, if it has arrived.

    It is fetched alone: the superlink checks who answered which question, but the source and the question that a
    message names when it arrives here were written by the client that sent it.
    """
    arrived = grid.pull_messages([name])
    mine = (one for one in arrived if one.metadata.reply_to_message_id == name and comes_from(one, node))
    return next(mine, None)


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest() if key else ""


def _told(answer: Message, key: str) -> str:
    """The id in an answer, or an empty string: a client may answer anything."""
    if answer.has_error():
        return ""
    told = next((record[key] for record in answer.content.config_records.values() if key in record), "")
    return readable(told) if isinstance(told, str) else ""
