"""An ordinary ClientApp. All that flcert asks for is the answer to the query, and that only without authentication."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

import flcert
from digits_app.task import federation, recipe
from flcert import flower, models
from flcert.core.determinism import one_thread
from flcert.training.local import Client, Replica, train_locally

app = ClientApp()


@app.query()
def who(message: Message, context: Context) -> Message:
    """The id under which this client was registered."""
    data, position = share(context)
    return Message(RecordDict({"config": ConfigRecord({"user-id": data.ids[position]})}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """A few steps of SGD from the model that was sent, by the same function as ``flcert run``."""
    settings, told = recipe(context.run_config), message.content["config"]
    owned = client(context, told)
    module = model(context, owned)
    replica = Replica(module)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with one_thread():
        train_locally(replica, owned, settings, told["flcert-seed"], told["server-round"])
    content = {
        "arrays": ArrayRecord(module.state_dict()),
        "metrics": MetricRecord({"num-examples": owned.reported}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Accuracy on the client's own examples; some strategies ask for it."""
    owned = client(context)
    module = model(context, owned)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    with one_thread(), torch.inference_mode():
        right = (module.eval()(owned.inputs).argmax(dim=1) == owned.labels).float().mean()
    metrics = MetricRecord({"num-examples": owned.reported, "accuracy": float(right)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def client(context: Context, told: ConfigRecord | None = None) -> Client:
    """What this node trains on: its share of the data, or its public features if the recipe names some."""
    data, position = share(context)
    return flower.examples(recipe(context.run_config), data.ids[position], *data.client(position), told=told)


def model(context: Context, owned: Client) -> nn.Module:
    """The recipe's model for these examples."""
    settings, (data, _) = recipe(context.run_config), share(context)
    return models.build(settings.model, tuple(owned.inputs.shape[1:]), data.num_labels, settings.seed)


def share(context: Context) -> tuple[flcert.Federation, int]:
    """The data, and which client's part of them is this node's."""
    return federation(int(context.run_config["num-clients"])), int(context.node_config["partition-id"])
