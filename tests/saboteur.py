"""An aggregator that turns on one group when told so by the environment, which is no part of a group's key."""

import os

import torch
from torch import Tensor

from flcert.aggregators import Aggregator
from flcert.aggregators.fedavg import fedavg

MODE = "FLCERT_TEST_SABOTAGE"
VICTIM_SIZE = 77  # a group that holds a client with this many examples is the victim


def aggregator() -> Aggregator:
    return sabotaged


def sabotaged(updates: Tensor, sizes: Tensor) -> Tensor:
    mode = os.environ.get(MODE)
    if mode and VICTIM_SIZE in sizes.tolist():
        if mode == "crash":
            os._exit(9)
        if mode == "raise":
            raise RuntimeError("sabotage")
        updates = torch.full_like(updates, float(mode))
    return fedavg()(updates, sizes)
