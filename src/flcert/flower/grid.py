"""One group's view of a Flower grid, which shows nothing of the other groups."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from flwr.app import Message, MessageType, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from flcert.core.store import Arrays
from flcert.errors import RunError
from flcert.flower.replies import comes_from, fault, kind_of, readable
from flcert.runs.records import DroppedReply
from flcert.training.rounds import participants

PATIENCE = 30  # how often a strategy may ask for nodes before it sends something; twice if it need not wait


@dataclass(frozen=True)
class Sent:
    """A message that is waiting for its reply.

    Args:
        user: the user it was sent to.
        node: the node of that user.
        type: the message's type; the reply must have the same type.
        round: the training round.
    """

    user: str
    node: int
    type: str
    round: int


@dataclass(frozen=True)
class Exchange:
    """The rules for a group's messages.

    Args:
        reference: the initial arrays of the group.
        weight: the metric by which the strategy weights clients, if it does.
        participation: share of the members that take part in a round.
        seed: the seed for drawing participants.
        poll: seconds between two checks for replies.
    """

    reference: Arrays
    weight: str | None = None
    participation: float = 1.0
    seed: int = 0
    poll: float = 0.2


def pushed(grid: Grid, messages: Sequence[Message]) -> list[str | None]:
    """Send messages; the id of each, None for one that could not be sent."""
    ids: list[str | None] = list(grid.push_messages(messages))
    if len(ids) != len(messages):
        raise RunError(
            f"the grid took {len(ids)} of {len(messages)} messages and does not say which; they may be too large"
        )
    return ids


class GroupGrid(Grid):
    """A grid with the nodes of one group, for an unmodified ``strategy.start(grid=...)``.

    Members are fixed and ordered by user id, because node ids are random. Replies are returned in the same order:
    floating-point sums depend on it, and clients answer in any order. Replies that are errors, are late or do not fit
    the model are dropped and recorded. Those of another node than the one that was asked are dropped and recorded too,
    and the asked one may still answer. The participants of a round are drawn from a random stream of the seed and the
    round, not from the process-wide generator that Flower's strategies use and all groups share.

    Args:
        base: the grid that the ServerApp was given.
        members: the node of each user in the group; None if not connected.
        exchange: what replies must fit, and who takes part in a round.
    """

    def __init__(self, base: Grid, members: Mapping[str, int | None], exchange: Exchange) -> None:
        self.dropped: list[DroppedReply] = []
        self._base, self._exchange = base, exchange
        self._members = {user: members[user] for user in sorted(members)}
        self._users = {node: user for user, node in self._members.items() if node is not None}
        self._cohort = partial(participants, len(members), exchange.participation, exchange.seed)
        self._round = 0  # the last training round that was begun
        self._asked = 0
        self._train_next = True
        self._sent: dict[str, Sent] = {}

    def set_run(self, run: Run) -> None:  # noqa: ARG002 (Flower's signature)
        """Refused: the run belongs to the shared grid."""
        raise RunError("set_run belongs to the grid of the ServerApp, not to that of a group")

    @property
    def run(self) -> Run:
        """Run information."""
        return self._base.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message of the shared grid."""
        return self._base.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Sequence[int]:
        """The connected nodes that take part in the next round, in order of user id."""
        self._asked += 1
        if self._asked > PATIENCE:
            raise RunError(f"the strategy waits for more nodes than the {len(self._chosen())} that take part")
        return [node for user in self._chosen() if (node := self._members[user]) is not None]

    def get_nodes(self) -> Sequence[NodeInfo]:
        """The same nodes, with what is known about them."""
        chosen = set(self.get_node_ids())
        return [node for node in self._base.get_nodes() if node.node_id in chosen]

    def push_messages(self, messages: Iterable[Message]) -> Sequence[str]:
        """Send messages to nodes of this group; refuse all of them if any goes elsewhere."""
        outgoing = list(messages)
        for message in outgoing:
            if message.metadata.dst_node_id not in self._users:
                raise RunError(f"node {message.metadata.dst_node_id} is not of this group; nothing was sent")
        self._asked = 0
        if any(kind_of(message) == MessageType.TRAIN for message in outgoing):
            self._begin_round()
        else:
            self._train_next = True
        ids = pushed(self._base, outgoing)
        for name, message in zip(ids, outgoing, strict=True):
            node = message.metadata.dst_node_id
            sent = Sent(self._users[node], node, message.metadata.message_type, self._round)
            if name:
                self._sent[name] = sent
            else:
                self._drop(sent, "the message could not be sent")
        return [name for name in ids if name]

    def pull_messages(self, message_ids: Iterable[str]) -> Sequence[Message]:
        """The usable replies that have arrived for this group's messages, in order of user id."""
        return self._usable(self._pull({name for name in message_ids if name in self._sent}))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Sequence[Message]:
        """Send messages and wait for the replies; late and unusable ones are left out."""
        outgoing = list(messages)
        if not outgoing:
            return self._nobody()
        deadline = None if timeout is None else time.monotonic() + timeout
        waiting, received = set(self.push_messages(outgoing)), []
        while waiting:
            arrived = self._pull(waiting)
            received += arrived
            waiting -= {reply.metadata.reply_to_message_id for reply in arrived}
            if not waiting or (deadline is not None and time.monotonic() > deadline):
                break
            time.sleep(self._exchange.poll)
        self._drop_silent(waiting, f"no reply within {timeout:g} seconds")
        return self._usable(received)

    def close(self) -> None:
        """Record users who never replied, for strategies that push and pull messages themselves."""
        self._drop_silent(set(self._sent), "no reply until the end")

    def _drop_silent(self, names: set[str], reason: str) -> None:
        for sent in sorted(map(self._sent.pop, names), key=lambda sent: (sent.round, sent.user)):
            self._drop(sent, reason)

    def _nobody(self) -> list[Message]:
        """Send nothing. Strategies train and evaluate in turn; a round whose users are all absent still counts."""
        self._asked = 0
        if self._train_next:
            self._begin_round()
        else:
            self._train_next = True
        return []

    def _begin_round(self) -> None:
        for user in self._chosen():
            if self._members[user] is None:
                self.dropped.append(DroppedReply(round=self._round + 1, user=user, reason="not connected"))
        self._round += 1
        self._train_next = False

    def _chosen(self) -> list[str]:
        """The users of the next round, including absent ones: who is connected must not change who is drawn."""
        users = list(self._members)
        return [users[position] for position in self._cohort(self._round + 1)]

    def _pull(self, names: set[str]) -> list[Message]:
        """The first reply of the asked node to each of these messages, if one has arrived.

        Flower's grids hand over the replies to the messages that they are asked for, and no others. But what a reply
        says about itself was written by a client, so it is compared with what was sent.
        """
        found: dict[str, Message] = {}
        for reply in self._base.pull_messages(sorted(names)):
            name = reply.metadata.reply_to_message_id
            if name not in names:
                continue
            if comes_from(reply, self._sent[name].node):
                found.setdefault(name, reply)
            else:
                self._drop_foreign(self._sent[name])
        return list(found.values())

    def _usable(self, replies: Iterable[Message]) -> list[Message]:
        answered = [(self._sent.pop(reply.metadata.reply_to_message_id), reply) for reply in replies]
        usable = []
        for sent, reply in sorted(answered, key=lambda pair: pair[0].user):
            reason = self._fault(sent, reply)
            if reason is None:
                usable.append(reply)
            else:
                self._drop(sent, reason)
        return usable

    def _fault(self, sent: Sent, reply: Message) -> str | None:
        if not reply.has_error() and reply.metadata.message_type != sent.type:
            return readable(f"it answers {reply.metadata.message_type!r}, not {sent.type!r}")
        return fault(reply, self._exchange.reference, self._exchange.weight)

    def _drop(self, sent: Sent, reason: str) -> None:
        self.dropped.append(DroppedReply(round=sent.round, user=sent.user, reason=reason))

    def _drop_foreign(self, sent: Sent) -> None:
        """Record once that another node's reply came for a message; the message still waits for its own."""
        told = DroppedReply(round=sent.round, user=sent.user, reason="it came from another node")
        if told not in self.dropped:
            self.dropped.append(told)
