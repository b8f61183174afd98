"""A Flower grid that runs a ClientApp in this process: no network, milliseconds."""

import copy
import random
import threading
import uuid

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    """One node for each partition. Replies can be made to arrive in another order, or never.

    Args:
        app: the ClientApp.
        run_config: of the Flower run.
        node_configs: one for each node; node ids are drawn from ``seed``, as Flower's are random.
        seed: of node ids and of the order in which replies arrive.
        silent: partitions that never answer when they shall train.
    """

    def __init__(self, app, run_config, node_configs, *, seed=0, silent=()):
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # what Message() asks for
        self.random = random.Random(seed)
        self.app, self.lock = app, threading.Lock()
        ids = self.random.sample(range(2**40, 2**50), len(node_configs))
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config=dict(config), state=RecordDict(), run_config=run_config)
            for node, config in zip(ids, node_configs, strict=True)
        }
        self.silent = {node for node, config in zip(ids, node_configs, strict=True) if config["partition-id"] in silent}
        self.keys = {node: f"key of {self.contexts[node].node_config['partition-id']}".encode() for node in ids}
        self.names = {node: self.contexts[node].node_config.get("name", "") for node in ids}
        self.waiting, self.log = {}, []

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        return None

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return list(self.contexts)

    def get_nodes(self):
        return [NodeInfo(node_id=node, public_key=self.keys[node], name=self.names[node]) for node in self.contexts]

    def push_messages(self, messages):
        return [self._answer(message) for message in messages]

    def _answer(self, message):
        name, node = uuid.uuid4().hex, message.metadata.dst_node_id
        message = copy.deepcopy(message)  # what a client does to its copy of the model stays with it
        message.metadata.__dict__["_message_id"] = name
        with self.lock:  # clients seed torch's process-wide generator
            self.log.append((self.contexts[node].node_config["partition-id"], message.metadata.message_type))
            try:
                reply = self.app(message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        if node not in self.silent or message.metadata.message_type != "train":
            self.waiting[name] = reply
        return name

    def pull_messages(self, message_ids):
        found = [self.waiting.pop(name) for name in list(message_ids) if name in self.waiting]
        self.random.shuffle(found)
        return found

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002
        return self.pull_messages(self.push_messages(messages))


class MisdeliveringGrid(LocalGrid):
    """A grid that hands over more than it was asked for: replies of other nodes, and replies to other messages.

    Args:
        foreign: when another node's reply to this very message comes: "before" or "after" the right one, or "earlier",
            in a fetch of its own. It is the right reply with all arrays reversed, from a node that was not asked.
        given: as for LocalGrid.
        options: as for LocalGrid.
    """

    def __init__(self, *given, foreign, **options):
        super().__init__(*given, **options)
        self.foreign, self.warned, self.delivered = foreign, set(), []

    def pull_messages(self, message_ids):
        """The replies to these messages, with the foreign ones, and all replies that were handed over before."""
        names = list(message_ids)
        ready = [self.waiting[name] for name in names if name in self.waiting]
        strays = [self._stray(reply) for reply in ready]
        if self.foreign == "earlier":
            new = [reply for reply in strays if reply.metadata.reply_to_message_id not in self.warned]
            self.warned.update(reply.metadata.reply_to_message_id for reply in new)
            if new:
                return new
        right, others = super().pull_messages(names), list(self.delivered)
        self.delivered += right
        return {"before": others + strays + right, "after": right + strays + others, "earlier": others + right}[
            self.foreign
        ]

    def _stray(self, reply):
        stray = copy.deepcopy(reply)
        nodes = list(self.contexts)
        place = nodes.index(reply.metadata.src_node_id)
        stray.metadata.__dict__["_src_node_id"] = nodes[place - 1]
        if not stray.has_error() and "arrays" in stray.content:
            arrays = {name: -array.numpy() for name, array in stray.content["arrays"].items()}
            stray.content["arrays"] = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        for record in stray.content.config_records.values():
            if "user-id" in record:
                record["user-id"] = "mallory"
        return stray
