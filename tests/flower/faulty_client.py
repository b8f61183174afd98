"""The example's ClientApp, on some nodes a malicious one: ``fault`` in a configuration says what it does."""

import os
import time
from pathlib import Path

import numpy as np
from digits_app import client_app
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
app.query()(client_app.who)
app.evaluate()(client_app.evaluate)


def changed(reply, change):
    """The reply with other arrays."""
    arrays = {name: array.numpy() for name, array in reply.content["arrays"].items()}
    reply.content["arrays"] = ArrayRecord({name: Array(np.asarray(array)) for name, array in change(arrays).items()})
    return reply


def with_content(reply, **records):
    reply.content = RecordDict({name: record for name, record in records.items() if record is not None})
    return reply


def as_answer_to(kind, reply):
    reply.metadata.message_type = kind
    return reply


def metrics(**values):
    return MetricRecord({name.replace("_", "-"): value for name, value in values.items()})


def times(factor):
    return lambda reply: changed(reply, lambda arrays: {name: array * factor for name, array in arrays.items()})


FAULTS = {
    "nan": times(np.float32("nan")),
    "infinite": times(np.float32("inf")),
    "scaled": times(np.float32(1e30)),
    "reversed": times(np.float32(-1)),
    "wrong shape": lambda reply: changed(reply, lambda arrays: {name: array[:1] for name, array in arrays.items()}),
    "wrong type": lambda reply: changed(reply, lambda arrays: {n: a.astype(np.float64) for n, a in arrays.items()}),
    "wrong names": lambda reply: changed(reply, lambda arrays: {f"x{name}": array for name, array in arrays.items()}),
    "wrong order": lambda reply: changed(reply, lambda arrays: dict(reversed(arrays.items()))),
    "no arrays": lambda reply: with_content(reply, metrics=reply.content["metrics"]),
    "two records": lambda reply: with_content(
        reply, arrays=reply.content["arrays"], more=reply.content["arrays"], metrics=reply.content["metrics"]
    ),
    "no metrics": lambda reply: with_content(reply, arrays=reply.content["arrays"]),
    "no weight": lambda reply: with_content(reply, arrays=reply.content["arrays"], metrics=metrics(accuracy=1.0)),
    "negative weight": lambda reply: with_content(
        reply, arrays=reply.content["arrays"], metrics=metrics(num_examples=-5)
    ),
    "weight not finite": lambda reply: with_content(
        reply, arrays=reply.content["arrays"], metrics=metrics(num_examples=float("nan"))
    ),
    "huge weight": lambda reply: with_content(
        reply, arrays=reply.content["arrays"], metrics=metrics(num_examples=2**62)
    ),
    "other metrics": lambda reply: with_content(
        reply, arrays=reply.content["arrays"], metrics=metrics(num_examples=5, surprise=1.0)
    ),
    "other type": lambda reply: as_answer_to("query", times(np.float32("nan"))(reply)),
    "hangs": lambda _: time.sleep(3600),
    "exits": lambda _: os._exit(1),
}


@app.train()
def train(message, context):
    """What the honest client does, then what the fault does to it."""
    fault = str(context.node_config.get("fault", ""))
    if context.run_config.get("faulty") == context.node_config["partition-id"]:  # in a deployment
        fault = str(context.run_config["fault"])
        if context.run_config["marker"]:
            Path(str(context.run_config["marker"])).touch()
    if fault == "raises":
        raise RuntimeError("sabotage")
    reply = client_app.train(message, context)
    return FAULTS[fault](reply) if fault else reply
