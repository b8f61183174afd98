"""Votes and ranks of all groups on the test inputs: from the store, or computed by workers if it lacks them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcert.attacks import triggers
from flcert.certify import Evidence, RankCounts, count_ranks
from flcert.core.settings import Choice
from flcert.core.store import Arrays, Entry, Store, derived
from flcert.datasets import Federation
from flcert.errors import IntegrityError, RunError
from flcert.training.context import Context
from flcert.training.device import array, tensor
from flcert.training.ensemble import Ensemble
from flcert.training.fill import Job, fill
from flcert.training.keys import votes_entry
from flcert.training.panel import Votes, chunks, panel
from flcert.training.tasks import VoteTask
from flcert.voting import NO_VOTE


@dataclass(frozen=True)
class Question:
    """What models are asked about the test inputs.

    Args:
        what: the label that they vote for, or how they rank all labels.
        rounds: after which round of ``recipe.snapshots``; by default the last.
        trigger: stamped on the inputs, if given.
    """

    what: Literal["votes", "ranks"] = "votes"
    rounds: int | None = None
    trigger: Choice | None = None


VOTES, RANKS = Question(), Question("ranks")


def evidence_on_test_set(
    context: Context, ensemble: Ensemble, question: Question = VOTES, ranks: RankCounts | None = None
) -> Evidence:
    """The votes of every group on the test inputs, counted, with the members of each group."""
    votes = votes_on_test_set(context, ensemble, question)
    return Evidence.of_votes(votes, ensemble.num_labels, ensemble.grouping.members, ranks)


def votes_on_test_set(context: Context, ensemble: Ensemble, question: Question = VOTES) -> Votes:
    """The votes of every group on the test inputs, (groups x inputs), -1 for a group without a model.

    Equal to ``ensemble.votes(federation.test_inputs)``, but computed in parallel, or read from the store.
    """
    table = np.full((len(ensemble.keys), len(context.federation.test_labels)), NO_VOTE, dtype=np.int32)
    for group, votes in _answers(context, ensemble, question).items():
        table[group] = votes
    return table


def ranks_on_test_set(context: Context, ensemble: Ensemble) -> RankCounts:
    """How the groups that have a model rank the labels on each test input."""
    answers = _answers(context, ensemble, RANKS)
    return count_ranks(list(answers.values()))  # type: ignore[arg-type]


def _answers(context: Context, ensemble: Ensemble, question: Question) -> dict[int, NDArray[np.generic]]:
    """The answer of each group that has a model: from the store, or from the model if the store lacks it."""
    store, model_keys = context.store, ensemble.model_keys(question.rounds)
    entries = _entries(context, ensemble, question)
    found = {key: arrays for key, entry in entries.items() if (arrays := _stored(store, entry)) is not None}
    lacking = [key for key in entries if key not in found]
    _ask(context, ensemble, question, {key: entries[key] for key in lacking})
    found |= {key: store.load(entries[key].key) for key in lacking}
    return {group: found[key][question.what] for group, key in model_keys.items()}


def _entries(context: Context, ensemble: Ensemble, question: Question) -> dict[str, Entry]:
    """The entry for the answer of each model, by the model's key."""
    digest = context.federation.test_digest()
    smoothing = ensemble.recipe.smoothing if question.what == "votes" else None
    keys = ensemble.model_keys(question.rounds).values()
    return {
        key: derived(
            votes_entry(key, digest, smoothing, question.trigger, question.what), ensemble.origins.get(key, ())
        )
        for key in keys
    }


def _stored(store: Store, entry: Entry) -> Arrays | None:
    """An answer that is in the store, undamaged."""
    try:
        arrays = store.read(entry.key)
    except IntegrityError:
        return None
    if arrays is not None:
        store.complete_origin(entry)
    return arrays


def _ask(context: Context, ensemble: Ensemble, question: Question, entries: Mapping[str, Entry]) -> None:
    """Ask some models, as many at once as possible, and store their answers.

    Args:
        context: where to ask them.
        ensemble: the trained groups.
        question: what they are asked.
        entries: the entry for the answer of each model, by the model's key.
    """
    owners, report, seats = ensemble.owners(question.rounds), context.stage(question.what), ensemble.seats
    total = len(owners)
    there = total - len(entries)
    jobs = {
        chunk[0]: Job(
            {seat: entries[key] for seat, key in enumerate(chunk)},
            partial(_task, ensemble, owners, chunk, question.trigger),
        )
        for chunk in chunks(list(entries), seats)
    }

    def report_models(done: int, _: int) -> None:
        report(there + min(done * seats, len(entries)), total)

    filled = fill(context, ANSWERS[question.what], jobs, report_models)
    for key, reason in filled.failures.items():
        raise RunError(f"the model of key {key} cannot vote: {reason}")


def _task(ensemble: Ensemble, owners: dict[str, int], keys: Sequence[str], trigger: Choice | None) -> VoteTask:
    return VoteTask(tuple(ensemble.voter(owners[key], key) for key in keys), trigger)


def vote_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """The votes of each model on the federation's test inputs, in a worker."""
    inputs = federation.test_inputs
    if task.trigger:
        inputs = array(triggers.build(task.trigger)(tensor(inputs)))
    together = panel(task.voters, federation.input_shape, federation.num_labels)
    return {seat: {"votes": votes} for seat, votes in enumerate(together.votes(inputs))}


def rank_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """How each model ranks all labels on each of the federation's test inputs, in a worker."""
    together = panel(task.voters, federation.input_shape, federation.num_labels)
    return {seat: {"ranks": ranks} for seat, ranks in enumerate(together.ranks(federation.test_inputs))}


ANSWERS: dict[str, Callable[[Federation, VoteTask], dict[int, Arrays]]] = {
    "votes": vote_on_test_set,
    "ranks": rank_on_test_set,
}
