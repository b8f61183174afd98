"""An ordinary ClientApp. All that flcert asks for is the answer to the query, and that only without authentication."""

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import federation, recipe
from flcert import models
from flcert.core.determinism import one_thread
from flcert.training.local import Client, Replica, train_locally

app = ClientApp()


@app.query()
def who(message: Message, context: Context) -> Message:
    """The id under which this client was registered."""
    return Message(RecordDict({"config": ConfigRecord({"user-id": client(context).id})}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """A few steps of SGD from the model that was sent, by the same function as ``flcert run``."""
    settings, data = recipe(context.run_config), federation(int(context.run_config["num-clients"]))
    owned, told = client(context), message.content["config"]
    module = models.build(settings.model, data.input_shape, data.num_labels, settings.seed)
    replica = Replica(module)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with one_thread():
        train_locally(replica, owned, settings, told["flcert-seed"], told["server-round"])
    content = {
        "arrays": ArrayRecord(module.state_dict()),
        "metrics": MetricRecord({"num-examples": len(owned)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Accuracy on the client's own examples; some strategies ask for it."""
    settings, data = recipe(context.run_config), federation(int(context.run_config["num-clients"]))
    owned = client(context)
    module = models.build(settings.model, data.input_shape, data.num_labels, settings.seed)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with one_thread(), torch.inference_mode():
        right = (module.eval()(owned.inputs).argmax(dim=1) == owned.labels).float().mean()
    metrics = MetricRecord({"num-examples": len(owned), "accuracy": float(right)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def client(context: Context) -> Client:
    """This node's share of the data."""
    data, position = federation(int(context.run_config["num-clients"])), int(context.node_config["partition-id"])
    inputs, labels = (torch.tensor(np.array(array)) for array in data.client(position))
    return Client(data.ids[position], inputs, labels, len(labels))
