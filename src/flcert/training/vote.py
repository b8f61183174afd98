"""Votes on a federation's test inputs, as a worker's task, and the keys under which they are stored."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from flcert.attacks import triggers
from flcert.datasets import Federation
from flcert.registry import Choice, choice_sources
from flcert.store import Arrays
from flcert.training.panel import Voter, panel
from flcert.training.smoothing import Smoothing

VOTING_VERSION = 2  # raise it whenever the same model and inputs could give other votes


@dataclass(frozen=True)
class VoteTask:
    """Models that vote on the test inputs, stamped with a trigger if there is one.

    Args:
        voters: the models.
        trigger: the stamp.
    """

    voters: tuple[Voter, ...]
    trigger: Choice | None = None


def vote_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """The votes of each model on the federation's test inputs."""
    inputs = federation.test_inputs
    if task.trigger:
        inputs = triggers.build(task.trigger)(torch.from_numpy(np.array(inputs))).numpy()
    together = panel(task.voters, federation.input_shape, federation.num_labels)
    return {seat: {"votes": votes} for seat, votes in enumerate(together.votes(inputs))}


def rank_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """The order in which each model puts all labels on each of the federation's test inputs."""
    together = panel(task.voters, federation.input_shape, federation.num_labels)
    return {seat: {"ranks": ranks} for seat, ranks in enumerate(together.ranks(federation.test_inputs))}


def votes_key(
    model_key: str,
    inputs_digest: str,
    smoothing: Smoothing | None = None,
    trigger: Choice | None = None,
    what: str = "votes",
) -> str:
    """The key of one model's votes (or ranks) on a set of inputs, stamped with a trigger if there is one."""
    smoothed = smoothing.model_dump_json() if smoothing else ""
    stamp = f" {trigger.model_dump_json()} {choice_sources(trigger)}" if trigger else ""
    text = f"{what} {VOTING_VERSION} {model_key} {inputs_digest} {smoothed}{stamp}"
    return hashlib.blake2b(text.encode(), digest_size=24).hexdigest()
