"""Who the nodes are: a stable user id for each, or an error. Node ids change at every start and identify nobody."""

import hashlib
from collections.abc import Callable, Mapping

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from flcert.flower.replies import readable

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


def by_query(key: str = "user-id", timeout: float = 60.0) -> Users:
    """The ids that clients report when queried (``@app.query()``): a ConfigRecord with the id under ``key``.

    Without node authentication this is the only stable id, but clients choose it themselves: whoever starts ten nodes
    counts as ten clients.

    Args:
        key: the key in the ConfigRecord.
        timeout: seconds to wait for the answers.
    """

    def ask(grid: Grid) -> dict[int, str]:
        nodes = list(grid.get_node_ids())
        questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        answers = grid.send_and_receive(questions, timeout=timeout)
        told = {answer.metadata.src_node_id: _told(answer, key) for answer in answers}
        return {node: told.get(node, "") for node in nodes}

    return ask


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest() if key else ""


def _told(answer: Message, key: str) -> str:
    """The id in an answer, or an empty string: a client may answer anything."""
    if answer.has_error():
        return ""
    told = next((record[key] for record in answer.content.config_records.values() if key in record), "")
    return readable(told) if isinstance(told, str) else ""
