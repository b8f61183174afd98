"""Certified learning in a Flower ServerApp: groups, concurrent and apart, then votes, certificate and run directory."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import ArrayLike, NDArray

from flcert.conclusion import conclude
from flcert.config import Hashed, Proof
from flcert.errors import FlcertError, InputError, RunError
from flcert.flower.grid import GroupGrid
from flcert.flower.plan import Groups, Plan, check_settings, check_train_config, plan, subject_of
from flcert.flower.replies import readable
from flcert.flower.strategy import never_wait, weight_of
from flcert.flower.users import Users, by_name, by_query, connected
from flcert.guarantee import Guarantee
from flcert.isolation import one_thread
from flcert.pipeline import RunResult
from flcert.rundir import RunDirectory
from flcert.store import Arrays
from flcert.training import Ensemble, Progress, Recipe
from flcert.training.fill import silent


@dataclass(frozen=True)
class Outcome:
    """What became of one group.

    Args:
        failure: why it has no model, if it has none.
        dropped: replies that were not used.
        reused: whether the model was there from before.
    """

    failure: str | None = None
    dropped: Sequence[dict[str, Any]] = ()
    reused: bool = False


def train(
    grid: Grid,
    *,
    groups: int | Groups,
    clients: int | Collection[str],
    users: Users,
    test: tuple[ArrayLike, ArrayLike],
    directory: Path | str,
    recipe: Recipe | None = None,
    strategy: Callable[[], Strategy] | None = None,
    initial: Mapping[str, NDArray[np.generic]] | None = None,
    train_config: Mapping[str, Any] | None = None,
    certificate: Proof | None = None,
    num_labels: int | None = None,
    name: str = "flower",
    image_shape: tuple[int, ...] | None = None,
    absent: int = 0,
    wait: float = 60.0,
    timeout: float = 3600.0,
    concurrent: int | None = None,
    poll: float = 0.2,
    progress: Progress = silent,
) -> RunResult:
    """Train every group over the grid, let the models vote on a test set, certify, and write a run directory.

    Clients get with each model, in the train config, ``flcert-seed`` and ``flcert-group`` (a digest of the group's user
    ids). What a client keeps between messages it must keep apart by ``flcert-group``, or another group could reach it.

    A finished group's model is written at once, and a run that is started again in the same directory trains only the
    others. The key of a model covers the ids of the group's users, the initial arrays, the strategy with its settings,
    the recipe and the versions. It cannot cover what clients hold or run: after a change there, use a new directory.

    Args:
        grid: that the ServerApp was given.
        groups: N of FLCert-D, or settings of another grouping.
        clients: how many there are, or the ids of all that are registered.
        users: where user ids come from: ``by_name()``, ``by_public_key`` or ``by_query()``.
        test: inputs and labels that the server holds.
        directory: the run directory.
        recipe: the model (a name or an import path), rounds, participation and seed; the rest is for clients.
        strategy: makes a new Flower strategy at each call; by default the recipe's aggregator is used.
        initial: arrays that all groups start from; by default those of the recipe's model and seed.
        train_config: sent to clients with every model.
        certificate: how sure to be.
        num_labels: L; by default one more than the largest label of the test set.
        name: what to call it in reports.
        image_shape: shape of the picture that an input is, if it is one with values in [0, 1].
        absent: how many of a list of clients may be missing at the start.
        wait: seconds until all others must be connected.
        timeout: seconds that a round waits for replies.
        concurrent: how many groups train at a time; by default all.
        poll: seconds between two looks for replies.
        progress: called with a stage, the number done and the total.
    """
    recipe, settings, proof = recipe or Recipe(), _settings(groups), certificate or Proof()
    _check_clients(clients, users)
    check_settings(recipe, settings, proof, strategy)
    check_train_config(train_config or {})
    _check_limits(timeout, wait, poll, concurrent)
    nodes = connected(grid, users, clients, absent=absent, wait=wait)
    planned = plan(
        nodes,
        subject_of(tuple(nodes), test, num_labels, name, image_shape),
        settings,
        recipe,
        proof=proof,
        strategy=strategy,
        initial=initial,
        train_config=dict(train_config or {}),
    )
    run_directory = RunDirectory.claim(Path(directory), planned.config)
    with one_thread():
        one = partial(_train_group, grid, planned, run_directory, timeout, poll)
        outcomes = _train_all(one, planned.keys, concurrent, progress)
    return _conclude(planned, run_directory, outcomes, progress)


def _settings(groups: int | Groups) -> Groups:
    if isinstance(groups, Groups):
        return groups
    if not isinstance(groups, int) or groups < 1:
        raise InputError(f"groups must be a number from 1, or settings of a grouping, got {groups!r}")
    return Hashed(num_groups=groups)


def _check_clients(clients: int | Collection[str], users: Users) -> None:
    """Refuse clients that are no number and no list, and a function that makes ``users`` in place of what it makes."""
    if isinstance(clients, str | float):
        raise InputError(f"clients must be a whole number or a list of user ids, got {clients!r}")
    makers: tuple[Any, ...] = (by_name, by_query)
    for maker in makers:
        if users is maker:
            raise InputError(f"users must be what {maker.__name__}() returns, got {maker.__name__} itself")


def _check_limits(timeout: float, wait: float, poll: float, concurrent: int | None) -> None:
    """Refuse times and numbers of groups that make no sense."""
    for limit, seconds in (("timeout", timeout), ("wait", wait), ("poll", poll)):
        if not isinstance(seconds, int | float) or not seconds >= 0:
            raise InputError(f"{limit} must be a number of seconds from 0, got {seconds!r}")
    if not timeout:
        raise InputError("timeout must be positive, got 0: no reply would be in time")
    if concurrent is not None and concurrent < 1:
        raise InputError(f"concurrent must be at least 1, got {concurrent}")


def _train_all(
    one: Callable[[int], Outcome], keys: Sequence[str | None], concurrent: int | None, progress: Progress
) -> list[Outcome]:
    """Train all groups at once, each in a thread of its own; sampled groups of the same clients are one."""
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


def _train_group(
    grid: Grid, planned: Plan, run_directory: RunDirectory, timeout: float, poll: float, group: int
) -> Outcome:
    """Train one group; whatever is raised fails this one only. The model is written last: if it is there, all is."""
    key, recipe = planned.keys[group], planned.config.recipe.of_group(group)
    if key is None:
        return Outcome()
    if run_directory.has_model(group, key):
        return Outcome(dropped=run_directory.dropped(group), reused=True)
    strategy, reference = planned.strategies[group], planned.initial(group)
    view = GroupGrid(
        grid,
        {user: planned.nodes[user] for user in planned.users(group)},
        reference=reference,
        participation=recipe.participation,
        seed=recipe.seed,
        weight=weight_of(strategy),
        poll=poll,
    )
    failure = None
    try:
        never_wait(strategy)
        result = strategy.start(
            grid=view,
            initial_arrays=ArrayRecord({name: Array(array) for name, array in planned.initial(group).items()}),
            num_rounds=recipe.rounds,
            timeout=timeout,
            train_config=planned.told(group),
        )
        arrays = _model(result.arrays, reference)
    except (Exception, SystemExit) as error:  # a user's strategy may raise anything
        failure = readable(f"{error}" if isinstance(error, FlcertError) else f"{type(error).__name__}: {error}")
    view.close()
    dropped = [asdict(one) for one in view.dropped]
    run_directory.write_dropped(group, dropped)
    if failure is None:
        run_directory.write_model(group, key, arrays)
    return Outcome(failure, dropped)


def refuse_all(outcomes: Sequence[Outcome]) -> NoReturn:
    """End a run in which no group has a model, with the first reason that is known."""
    group, outcome = next((group, one) for group, one in enumerate(outcomes) if one.failure)
    first = outcome.dropped[0] if outcome.dropped else None
    why = f"; the reply of {first['user']} in round {first['round']} was dropped: {first['reason']}" if first else ""
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


def _conclude(planned: Plan, run_directory: RunDirectory, outcomes: Sequence[Outcome], progress: Progress) -> RunResult:
    """Votes, certificate and report of what was trained."""
    config, subject, rounds = planned.config, planned.subject, planned.config.recipe.rounds
    failures = {group: outcome.failure for group, outcome in enumerate(outcomes) if outcome.failure}
    told = list(zip(planned.keys, outcomes, strict=True))
    group_of = {key: planned.keys.index(key) for key, outcome in told if key and not outcome.failure}
    ensemble = Ensemble(
        grouping=planned.grouping,
        recipe=config.recipe,
        input_shape=subject.input_shape,
        input_dtype=subject.input_dtype,
        num_labels=subject.num_labels,
        keys=tuple({rounds: key} if key in group_of else None for key in planned.keys),
        load=lambda key: run_directory.load_model(group_of[key], key),
        failures=failures,
        trained=len({key for key, outcome in told if key in group_of and not outcome.reused}),
        reused=len({key for key, outcome in told if outcome.reused}),
    )
    if not ensemble.model_keys():
        refuse_all(outcomes)
    for group, key in ensemble.model_keys().items():  # sampled groups of the same clients share a model
        if group != group_of[key]:
            run_directory.write_model(group, key, ensemble.load(key))
    proof = config.certificate
    guarantee = Guarantee.of(
        planned.grouping, num_failed=len(failures), alpha=proof.alpha, selection=proof.selection, tails=proof.tails
    )
    concluded = conclude(
        run_directory,
        config,
        subject,
        ensemble,
        {rounds: ensemble.votes(subject.test_inputs)},
        guarantee,
        dropped={group: outcome.dropped for group, outcome in enumerate(outcomes)},
        network={
            "flwr": version("flwr"),
            "strategy": planned.descriptions[0],
            "absent": [user for user, node in planned.nodes.items() if node is None],
        },
        progress=progress,
    )
    return RunResult(run_directory.path, concluded.summary, guarantee, concluded.certificate, ensemble)
