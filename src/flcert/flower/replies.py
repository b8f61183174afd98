"""What is wrong with a reply, if anything: checked against the arrays that training started from."""

from math import isfinite
from typing import Any

import numpy as np
from flwr.app import Array, Message, MessageType, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID

from flcert.core.store import Arrays
from flcert.errors import one_line

LONGEST = 200  # most characters of a reason that came from a client


def fault(reply: Message, reference: Arrays, weight: str | None) -> str | None:
    """Why a reply cannot be used, or None.

    Args:
        reply: a reply of any type; one to training must hold arrays and metrics, one to evaluation metrics.
        reference: the initial arrays; a reply's arrays must match them in names, order, shapes and types.
        weight: the metric by which the strategy weights clients, if it does.
    """
    if reply.has_error():
        return readable(one_line(f"error {reply.error.code}: {reply.error.reason}"))
    try:
        if kind_of(reply) == MessageType.TRAIN:
            return _arrays_fault(reply.content, reference) or _metrics_fault(reply.content, weight)
        return _metrics_fault(reply.content, weight) if kind_of(reply) == MessageType.EVALUATE else None
    except Exception as error:  # a reply may hold anything
        return readable(one_line(f"cannot be read: {type(error).__name__}: {error}"))


def comes_from(reply: Message, node: int) -> bool:
    """Whether a reply comes from a node, or is the superlink's word that the node cannot answer any more."""
    source = reply.metadata.src_node_id
    return bool(source == node or (source == SUPERLINK_NODE_ID and reply.has_error()))


def readable(text: str) -> str:
    """Text from a client, shortened and without control characters.

    >>> readable("a" * 300)[-3:], readable("no" + chr(7))
    ('...', 'no?')
    """
    clean = "".join(sign if sign.isprintable() else "?" for sign in text[: LONGEST + 1])
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."


def kind_of(message: Message) -> str:
    """The type of a message, without a user's own suffix as in "train.first_half"."""
    kind: str = message.metadata.message_type.partition(".")[0]
    return kind


def _arrays_fault(content: RecordDict, reference: Arrays) -> str | None:
    records = list(content.array_records.values())
    if len(records) != 1:
        return f"must hold one ArrayRecord, got {len(records)}"
    if list(records[0]) != list(reference):
        return "the names of its arrays are not those of the model, in order"
    for name, expected in reference.items():
        found = _array_fault(records[0][name], expected)
        if found:
            return f"array {name!r} {found}"
    return None


def _array_fault(array: Array, expected: np.ndarray[Any, Any]) -> str | None:
    values = array.numpy()
    if values.shape != expected.shape or values.dtype != expected.dtype:
        return f"must be {expected.dtype} of shape {expected.shape}, got {values.dtype} of shape {values.shape}"
    return None if np.isfinite(values).all() else "is not finite"


def _metrics_fault(content: RecordDict, weight: str | None) -> str | None:
    records = list(content.metric_records.values())
    if len(records) != 1:
        return f"must hold one MetricRecord, got {len(records)}"
    for name, value in records[0].items():
        if not all(isfinite(one) for one in (value if isinstance(value, list) else [value])):
            return readable(f"metric {name!r} is not finite")
    if weight is None:
        return None
    found = records[0].get(weight)
    if not isinstance(found, int | float) or found <= 0:
        return readable(f"metric {weight!r} must be a positive number, got {found}")
    return None
