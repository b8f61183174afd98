"""An aggregator that turns on one group when told so by the environment, which is no part of a group's key."""

import os
from dataclasses import replace

import torch
from torch import Tensor

from flcert.aggregators import Aggregator, Round
from flcert.aggregators.fedavg import fedavg

MODE = "FLCERT_TEST_SABOTAGE"
VICTIM_SIZE = 77  # a group that holds a client with this many examples is the victim


def aggregator() -> Aggregator:
    return sabotaged


def sabotaged(given: Round) -> Tensor:
    if torch.get_num_threads() != 1:
        raise RuntimeError("more than one thread")
    mode = os.environ.get(MODE)
    if mode and VICTIM_SIZE in given.sizes.tolist():
        if mode == "crash":
            os._exit(9)
        if mode == "raise":
            raise RuntimeError("sabotage")
        given = replace(given, updates=torch.full_like(given.updates, float(mode)))
    return fedavg()(given)
