"""Certified learning in a Flower ServerApp: isolated groups that train at once, votes, certificate, run directory."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import NoReturn

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from flcert.certify import Evidence
from flcert.core.determinism import one_thread
from flcert.core.store import Arrays
from flcert.errors import FlcertError, InputError, RunError, one_line
from flcert.flower.connect import connected
from flcert.flower.grid import Exchange, GroupGrid
from flcert.flower.options import Clients, Learning, Options, TestSet, Timing
from flcert.flower.plan import Agreement, Plan, plan, subject_of
from flcert.flower.replies import readable
from flcert.flower.strategy import never_wait, weight_of
from flcert.grouping import GroupingKind, disjoint_groups, kind_class
from flcert.pipeline.results import Circumstances, TrainedRun, certified, needs_ranks, write_results
from flcert.pipeline.run import RunResult
from flcert.pipeline.unchanged import check_unchanged
from flcert.runs.directory import RunDirectory
from flcert.runs.records import DroppedReply, NetworkFacts
from flcert.training import Ensemble, Progress
from flcert.training.ensemble import Electorate
from flcert.training.fill import is_finite
from flcert.training.votes import cannot_vote


@dataclass(frozen=True)
class Outcome:
    """What happened to one group.

    Args:
        failure: why it has no model, if it has none.
        dropped: replies that were not used.
        finite: whether all numbers of its model are.
        reused: whether the model was there already.
    """

    failure: str | None = None
    dropped: Sequence[DroppedReply] = ()
    finite: bool = True
    reused: bool = False


def train(
    grid: Grid,
    clients: Clients,
    *,
    groups: int | GroupingKind,
    test: TestSet | tuple[ArrayLike, ArrayLike],
    directory: Path | str,
    learning: Learning | None = None,
    options: Options | None = None,
) -> RunResult:
    """Train every group over the grid, let the models vote on a test set, certify, and write a run directory.

    With each model, clients get ``flcert-seed`` and ``flcert-group`` (a digest of the group's user ids) in the train
    config. A client must keep any state between messages separate for each ``flcert-group``, or groups could influence
    each other through it. With public features, ``flcert-features`` is there too, for ``flcert.flower.examples``.

    Each group's model is written as soon as it is finished, and a run restarted in the same directory trains only the
    others, from their first round. The key of a model covers the ids of the group's users, the initial arrays, the
    strategy with its settings, the recipe and the versions. It cannot cover the clients' data and code: if those
    change, use a new directory.

    Args:
        grid: the grid that the ServerApp was given.
        clients: who takes part, and where their ids come from.
        groups: N of FLCert-D, or settings of another grouping.
        test: inputs and labels that the server holds.
        directory: the run directory.
        learning: the model, the strategy, and what is sent to clients.
        options: alpha, how long to wait, and other rarely changed options.
    """
    learning, options = learning or Learning(), options or Options()
    agreement = Agreement(_settings(groups), learning, options.certificate)
    tested = test if isinstance(test, TestSet) else TestSet(*test)
    nodes = connected(grid, clients, wait=options.timing.wait)
    planned = plan(agreement, nodes, subject_of(tuple(nodes), tested))
    run_directory = RunDirectory.claim(Path(directory), planned.config)
    check_unchanged(run_directory, planned.config, planned.public, planned.trusted)
    with one_thread():
        one = partial(_train_group, grid, planned, run_directory, options.timing)
        outcomes = _train_all(one, planned.keys, options.timing.concurrent, options.progress)
    return _finish(planned, run_directory, outcomes, options.progress)


def _settings(groups: int | GroupingKind) -> GroupingKind:
    if isinstance(groups, GroupingKind):
        if kind_class(groups.kind) is not type(groups):
            raise InputError(
                f"kind of {type(groups).__qualname__} must be its name or import path, got {groups.kind!r}"
            )
        return groups
    if not isinstance(groups, int) or groups < 1:
        raise InputError(f"groups must be a number from 1, or settings of a grouping, got {groups!r}")
    return disjoint_groups(groups)


def _train_all(
    one: Callable[[int], Outcome], keys: Sequence[str | None], concurrent: int | None, progress: Progress
) -> list[Outcome]:
    """Train all groups at once, each in its own thread; groups of the same clients are trained once."""
    done, lock = 0, Lock()
    first = [group if key is None else keys.index(key) for group, key in enumerate(keys)]
    distinct_groups = sorted(set(first))

    def counted(group: int) -> Outcome:
        nonlocal done
        outcome = one(group)
        with lock:
            done += 1
            progress("train", done, len(distinct_groups))
        return outcome

    with ThreadPoolExecutor(concurrent or len(distinct_groups), "group") as threads:
        outcomes = dict(zip(distinct_groups, threads.map(counted, distinct_groups), strict=True))
    return [outcomes[group] for group in first]


def _train_group(grid: Grid, planned: Plan, run_directory: RunDirectory, timing: Timing, group: int) -> Outcome:
    """Train one group; an exception fails only this group. The model is written last: if it exists, all is done."""
    key, recipe = planned.keys[group], planned.config.recipe.of_group(group)
    if key is None:
        return Outcome()
    there = _kept(run_directory, group, key)
    if there is not None:
        return there
    strategy, reference = planned.strategies[group], planned.initial(group)
    exchange = Exchange(reference, weight_of(strategy), recipe.participation, recipe.seed, timing.poll)
    view = GroupGrid(grid, {user: planned.nodes[user] for user in planned.users(group)}, exchange)
    failure = None
    try:
        never_wait(strategy)
        result = strategy.start(
            grid=view,
            initial_arrays=ArrayRecord({name: Array(array) for name, array in planned.initial(group).items()}),
            num_rounds=recipe.rounds,
            timeout=timing.timeout,
            train_config=planned.told(group),
        )
        arrays = _model(result.arrays, reference)
    except (Exception, SystemExit) as error:  # a user's strategy may raise anything
        failure = readable(f"{error}" if isinstance(error, FlcertError) else f"{type(error).__name__}: {error}")
    view.close()
    run_directory.write_dropped(group, view.dropped)
    if failure is not None:
        return Outcome(failure, view.dropped)
    run_directory.write_model(group, key, arrays)
    return Outcome(None, view.dropped, finite=is_finite(arrays))


def _kept(run_directory: RunDirectory, group: int, key: str) -> Outcome | None:
    """What is left of an earlier training of the group; None if a part is missing or damaged: it is trained again."""
    try:
        arrays, dropped = run_directory.stored_model(group, key), run_directory.dropped(group)
    except InputError:
        return None
    if arrays is None or dropped is None:
        return None
    return Outcome(None, dropped, finite=is_finite(arrays), reused=True)


def refuse_all(outcomes: Sequence[Outcome]) -> NoReturn:
    """End a run in which no group has a model, with the first known reason."""
    group, outcome = next((group, one) for group, one in enumerate(outcomes) if one.failure)
    first = outcome.dropped[0] if outcome.dropped else None
    why = f"; the reply of {first.user} in round {first.round} was dropped: {first.reason}" if first else ""
    raise RunError(f"no group could be trained; group {group}: {outcome.failure}{why}")


def _model(found: ArrayRecord, reference: Arrays) -> Arrays:
    """The final arrays in the model's order and types: strategies turn counters into floating-point numbers."""
    if not found:
        raise InputError("the strategy made no model: no reply could be used, or it wants more of them")
    arrays: Arrays = {}
    for name, expected in reference.items():
        array = found[name].numpy()
        if array.shape != expected.shape:
            raise InputError(f"the strategy made an array of shape {array.shape} of {name!r}, not {expected.shape}")
        whole = np.issubdtype(expected.dtype, np.integer)
        with np.errstate(over="ignore", invalid="ignore"):
            arrays[name] = np.array(np.rint(array) if whole else array, dtype=expected.dtype, order="C")
    return arrays


def _finish(planned: Plan, run_directory: RunDirectory, outcomes: Sequence[Outcome], progress: Progress) -> RunResult:
    """Vote, certify and write the report."""
    config, subject = planned.config, planned.subject
    ensemble = _ensemble(planned, run_directory, outcomes)
    if not ensemble.model_keys():
        refuse_all(outcomes)
    ensemble, evidence, labels = _votes(planned, ensemble)
    trained = TrainedRun(run_directory, config, subject, ensemble, planned.overlap)
    found = certified(trained, {config.recipe.rounds: evidence})
    circumstances = Circumstances(
        public=labels,
        dropped={group: outcome.dropped for group, outcome in enumerate(outcomes)},
        network=NetworkFacts(
            flwr=version("flwr"),
            strategy=planned.descriptions[0],
            absent=tuple(user for user, node in planned.nodes.items() if node is None),
        ),
    )
    summary = write_results(trained, found, circumstances, progress)
    directory, overlap = run_directory.path, planned.overlap
    return RunResult(directory, summary, found.guarantee, found.certificate, ensemble, overlap=overlap)


def _votes(planned: Plan, ensemble: Ensemble) -> tuple[Ensemble, Evidence, NDArray[np.int64] | None]:
    """The votes on the test inputs, and the labels that the public start alone gives to them, if there is one.

    Groups whose model raises count as failed in the ensemble that comes back.
    """
    start = planned.public.start
    try:
        with Electorate(ensemble, ensemble.panels()) as electorate:
            received = electorate.received(planned.subject.test_inputs)
            evidence = electorate.evidence_of(received)
        silent, keys = electorate.silent, ensemble.model_keys()
        if silent or needs_ranks(planned.config):
            ensemble = ensemble.without(
                {group: cannot_vote(silent[key]) for group, key in keys.items() if key in silent}
            )
            with Electorate(ensemble, ensemble.panels()) as electorate:
                evidence = electorate.evidence_of(received, "ranks" if needs_ranks(planned.config) else "votes")
        labels = None if start is None else ensemble.own_panel(start).votes(received)[0].astype(np.int64)
    except FlcertError:
        raise
    except Exception as error:  # a user's model may raise anything
        raise RunError(one_line(f"the models cannot vote: {type(error).__name__}: {error}")) from error
    return ensemble, evidence, labels


def _ensemble(planned: Plan, run_directory: RunDirectory, outcomes: Sequence[Outcome]) -> Ensemble:
    """The trained groups; groups of the same clients share a model, but each has its own file."""
    config, subject, rounds = planned.config, planned.subject, planned.config.recipe.rounds
    told = list(zip(planned.keys, outcomes, strict=True))
    group_of = {key: planned.keys.index(key) for key, outcome in told if key and not outcome.failure}
    keys = [key if key in group_of else None for key in planned.keys]

    def load(key: str) -> Arrays:
        return run_directory.load_model(group_of[key], key)

    for group, key in enumerate(keys):
        if key and group != group_of[key]:
            run_directory.write_model(group, key, load(key))
    return Ensemble(
        grouping=planned.grouping,
        recipe=config.recipe,
        input_shape=subject.input_shape,
        input_dtype=subject.input_dtype,
        num_labels=subject.num_labels,
        keys=tuple({rounds: key} if key else None for key in keys),
        load=load,
        public=planned.public,
        trusted=planned.trusted,
        failures={group: outcome.failure for group, outcome in enumerate(outcomes) if outcome.failure},
        diverged=frozenset(group for group, outcome in enumerate(outcomes) if not outcome.finite),
        trained=len({key for key, outcome in told if key in group_of and not outcome.reused}),
        reused=len({key for key, outcome in told if outcome.reused}),
    )
