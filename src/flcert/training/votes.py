"""Votes and ranks of all groups on the test inputs: from the store, or computed by workers if it lacks them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from flcert.attacks import triggers
from flcert.certify import Evidence, RankCounts, count_ranks
from flcert.core.determinism import restored_generators, seed_everything
from flcert.core.digest import digest_json, digest_named
from flcert.core.settings import Choice
from flcert.core.store import Arrays, Entry, Store, derived
from flcert.datasets import Federation
from flcert.errors import IntegrityError, RunError, one_line
from flcert.training.context import Context
from flcert.training.device import array, tensor
from flcert.training.ensemble import Ensemble
from flcert.training.examples import features_of_test_set
from flcert.training.fill import Job, fill
from flcert.training.keys import recipe_sources, votes_entry
from flcert.training.panel import Panel, Voter, Votes, chunks, panel, seats, single
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


LONGEST_REASON = 300  # letters of why a group cannot vote: a client may have chosen the words
FEATURES_TOGETHER = 128  # models that vote on features which are sent once

VOTES, RANKS = Question(), Question("ranks")


def evidence_on_test_set(
    context: Context, ensemble: Ensemble, question: Question = VOTES, ranks: RankCounts | None = None
) -> Evidence:
    """The votes of every group on the test inputs, counted, with the members of each group and the trusted model."""
    votes = votes_on_test_set(context, ensemble, question)
    trusted = None if ensemble.trusted is None else labels_of(context, ensemble, ensemble.trusted, question)
    return Evidence.of_votes(votes, ensemble.num_labels, ensemble.grouping.members, ranks, trusted)


def votes_on_test_set(context: Context, ensemble: Ensemble, question: Question = VOTES) -> Votes:
    """The votes of every group on the test inputs, (groups x inputs), -1 for a group without a model.

    Equal to ``ensemble.votes(federation.test_inputs)``, but computed in parallel, or read from the store.
    """
    table = np.full((len(ensemble.keys), len(context.federation.test_labels)), NO_VOTE, dtype=np.int32)
    for group, votes in _answers(context, ensemble, question).items():
        table[group] = votes
    return table


def public_labels(context: Context, ensemble: Ensemble) -> NDArray[np.int64] | None:
    """The labels that the public start alone gives to the test inputs; None if groups did not start from one."""
    start = ensemble.public.start
    if start is None:
        return None
    return labels_of(context, ensemble, start, VOTES)


def labels_of(context: Context, ensemble: Ensemble, arrays: Arrays, question: Question) -> NDArray[np.int64]:
    """The labels that a model of the ensemble's kind gives to the test inputs, whoever owns it.

    Args:
        context: where to ask it.
        ensemble: the trained groups.
        arrays: the weights of the model.
        question: what it is asked; only the trigger counts.
    """
    function = ensemble.public.function
    recipe = ensemble.recipe
    what: list[object] = ["model of the server", recipe.model.model_dump(mode="json"), recipe_sources(recipe)]
    what += [single(recipe).seed, digest_named(arrays), function.identity if function else ""]
    key = digest_json([*what, torch.__version__])
    entry = votes_entry(key, context.federation.test_digest(), None, question.trigger)
    if (stored := _stored(context.store, entry)) is not None:
        return stored["votes"].astype(np.int64)
    features = features_of_test_set(context, function, question.trigger) if function else None
    voter = Voter(single(ensemble.recipe), arrays)
    job = Job({0: entry}, partial(VoteTask, (voter,), question.trigger, features))
    filled = fill(context, vote_on_test_set, {key: job}, context.stage("public model"))
    for reason in filled.failures.values():
        raise RunError(f"the public model cannot vote: {reason}")
    return context.store.load(entry.key)["votes"].astype(np.int64)


def ranks_on_test_set(context: Context, ensemble: Ensemble) -> RankCounts:
    """How the groups that have a model rank the labels on each test input."""
    answers = _answers(context, ensemble, RANKS)
    return count_ranks([answers.get(group) for group in range(len(ensemble.keys))], ensemble.grouping.members)  # type: ignore[misc]


def charged(context: Context, ensemble: Ensemble, questions: Iterable[Question]) -> Ensemble:
    """The ensemble in which groups whose models cannot answer count as failed, like those that cannot train.

    A user's model may raise on the weights that clients of its group brought about. That must cost their group its
    vote, and nobody else.

    Args:
        context: where to ask the models.
        ensemble: the trained groups.
        questions: all that they will be asked; who cannot answer one of them has failed.
    """
    for question in questions:
        keys = ensemble.model_keys(question.rounds)
        entries = _entries(context, ensemble, question)
        lacking = {key: entry for key, entry in entries.items() if _stored(context.store, entry) is None}
        silent = _ask(context, ensemble, question, lacking)
        ensemble = ensemble.without({group: cannot_vote(silent[key]) for group, key in keys.items() if key in silent})
    return ensemble


def cannot_vote(reason: str) -> str:
    """Why a group failed whose model raised when it was asked."""
    return one_line(f"its model cannot vote: {reason}")[:LONGEST_REASON]


def _answers(context: Context, ensemble: Ensemble, question: Question) -> dict[int, NDArray[np.generic]]:
    """The answer of each group that has a model: from the store, or from the model if the store lacks it."""
    store, model_keys = context.store, ensemble.model_keys(question.rounds)
    entries = _entries(context, ensemble, question)
    found = {key: arrays for key, entry in entries.items() if (arrays := _stored(store, entry)) is not None}
    lacking = [key for key in entries if key not in found]
    for key, reason in _ask(context, ensemble, question, {key: entries[key] for key in lacking}).items():
        raise RunError(f"the model of key {key} cannot vote: {reason}")
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


def _ask(context: Context, ensemble: Ensemble, question: Question, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Ask some models, as many at once as possible, and store their answers.

    Args:
        context: where to ask them.
        ensemble: the trained groups.
        question: what they are asked.
        entries: the entry for the answer of each model, by the model's key.

    Returns:
        Why models could not answer, by their keys.
    """
    owners, report = ensemble.owners(question.rounds), context.stage(question.what)
    total, together = len(owners), _models_in_a_task(ensemble)
    there = total - len(entries)
    function = ensemble.public.function
    features = features_of_test_set(context, function, question.trigger) if function and entries else None

    def asked(keys: Sequence[str], size: int, report: Callable[[int, int], None]) -> dict[str, str]:
        jobs = {
            chunk[0]: Job(
                {seat: entries[key] for seat, key in enumerate(chunk)},
                partial(_task, ensemble, {key: owners[key] for key in chunk}, question.trigger, features),
            )
            for chunk in chunks(keys, size)
        }
        return fill(context, ANSWERS[question.what], jobs, report).failures

    def report_models(done: int, _: int) -> None:
        report(there + min(done * together, len(entries)), total)

    failures = asked(list(entries), together, report_models)
    if together == 1 or not failures:
        return failures
    suspects = [key for chunk in chunks(list(entries), together) if chunk[0] in failures for key in chunk]
    return asked(suspects, 1, lambda *_: None)  # one at a time, so that nobody is blamed for another


def _models_in_a_task(ensemble: Ensemble) -> int:
    """How many models to send to a worker together; more if the features of all test inputs go with them."""
    return max(ensemble.seats, FEATURES_TOGETHER if ensemble.public.function else 1)


def _task(
    ensemble: Ensemble, owners: dict[str, int], trigger: Choice | None, features: NDArray[np.float32] | None
) -> VoteTask:
    return VoteTask(tuple(ensemble.voter(group, key) for key, group in owners.items()), trigger, features)


def vote_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """The votes of each model on the federation's test inputs, in a worker."""
    return {seat: {"votes": votes} for seat, votes in enumerate(_answered(federation, task, "votes"))}


def rank_on_test_set(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    """How each model ranks all labels on each of the federation's test inputs, in a worker."""
    return {seat: {"ranks": ranks} for seat, ranks in enumerate(_answered(federation, task, "ranks"))}


def _answered(federation: Federation, task: VoteTask, what: Literal["votes", "ranks"]) -> Iterator[NDArray[np.generic]]:
    """The answer of each model. What it may draw from a process-wide generator depends on no other model."""
    inputs = _received(federation, task)
    with restored_generators():
        for together in _panels(federation, task):
            seed_everything(task.voters[0].recipe.seed)
            yield from getattr(together, what)(inputs)


def _panels(federation: Federation, task: VoteTask) -> Iterator[Panel]:
    """The models, as many at once as possible."""
    shape = federation.input_shape if task.features is None else task.features.shape[1:]
    most = seats(task.voters[0].recipe, shape, federation.num_labels)
    return (panel(voters, shape, federation.num_labels) for voters in chunks(task.voters, most))


def _received(federation: Federation, task: VoteTask) -> NDArray[np.generic]:
    """What models receive: the test inputs, stamped if the task says so, or their features."""
    if task.features is not None:
        return task.features
    inputs = federation.test_inputs
    return array(triggers.build(task.trigger)(tensor(inputs))) if task.trigger else inputs


ANSWERS: dict[str, Callable[[Federation, VoteTask], dict[int, Arrays]]] = {
    "votes": vote_on_test_set,
    "ranks": rank_on_test_set,
}
