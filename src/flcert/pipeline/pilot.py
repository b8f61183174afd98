"""A pilot: a few groups of clients that are set apart predict what the whole federation will reach.

Pilot clients are never registered in the federation. Whatever they hold and send, they can spoil the choice of settings
and nothing else.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from flcert import datasets
from flcert.certify import Evidence, Guarantee
from flcert.core.seeding import stream
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Engine, Processes, Workers
from flcert.errors import InputError, RunError, check_range
from flcert.grouping import Grouping, GroupingKind
from flcert.pipeline.forecast import Ballots, Floats, Forecast, Integers, forecast
from flcert.pipeline.run import everybody_of
from flcert.runs.config import Config, Pilot
from flcert.training import Context, Ensemble, Progress
from flcert.training.checks import check_recipe
from flcert.training.context import silent
from flcert.training.public import public_of
from flcert.training.start import model_bytes
from flcert.training.train import compressed_ensemble, train_groups
from flcert.training.votes import votes_on_test_set

FEWEST = 4  # groups that share no client; fewer say next to nothing about how much groups differ
MOST_INPUTS = 10_000  # pilot inputs to vote on
LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # clients in a group, if nobody says how many groups to try
CANDIDATES = 5
LEAST = 0.0005  # predictions below are written as 0.0% and recommend nothing


@dataclass(frozen=True)
class Candidate:
    """What is predicted for one number of groups.

    Args:
        num_groups: N.
        num_votes: the groups that have clients.
        most: the largest m that they can certify, if all vote for a label that wins ties.
        sizes: clients in the smallest and in the largest of them.
        trained: the groups that the pilot trained.
        forecast: certified accuracy.
        seconds: to train all groups here, as long as the pilot's took; None if those were in the store already.
        bytes_a_client: what a client sends and receives in the whole training, on average.
        bytes_stored: the models of all groups.
    """

    num_groups: int
    num_votes: int
    most: int
    sizes: tuple[int, int]
    trained: int
    forecast: Forecast
    seconds: float | None
    bytes_a_client: int
    bytes_stored: int

    def reaches(self, m: int | None) -> float:
        """Predicted CA@m, or the area under the curve."""
        return self.forecast.area if m is None else self.forecast.at(m)

    def interval(self, m: int | None) -> tuple[float, float]:
        """Where CA@m of most runs would be, or the area under their curves."""
        return self.forecast.area_interval if m is None else self.forecast.interval(m)


@dataclass(frozen=True)
class Piloted:
    """The result of a pilot.

    Args:
        num_clients: n of the federation, without the pilot.
        num_pilot: pilot clients.
        num_inputs: inputs on which their groups voted.
        whose: whose inputs these were.
        candidates: for each number of groups.
    """

    num_clients: int
    num_pilot: int
    num_inputs: int
    whose: str
    candidates: tuple[Candidate, ...]

    def best(self, m: int | None = None) -> Candidate | None:
        """The number of groups with the largest predicted CA@m, or area under the curve; None if all are next to 0."""
        best = max(self.candidates, key=lambda one: one.reaches(m))
        return best if best.reaches(m) >= LEAST else None


def pilot(
    config: Config,
    groups: Sequence[int] = (),
    trainings: int = 24,
    *,
    target_m: int | None = None,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> Piloted:
    """Train a few groups of pilot clients for each number of groups, and predict certified accuracy.

    Args:
        config: the federation; ``config.pilot`` says who is set apart.
        groups: the numbers of groups to try; by default a few from one client a group on.
        trainings: how many groups to train for each.
        target_m: the number of malicious clients that matters, refused if there are not so many clients.
        engine: where groups train; by default one process for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    check_range("trainings", trainings, FEWEST, 10_000)
    split = Split.of(config)
    if target_m is not None:
        check_range("target_m", target_m, 0, split.others.num_clients, "num_clients")
    chosen = list(groups) or split.ladder()
    plans = [split.plan(number, trainings) for number in dict.fromkeys(chosen)]
    store = store or Store()
    with Workers(engine or Processes(), split.apart) as workers:
        clock = Clock(progress)
        found = [_candidate(split, one, Context(workers, store, clock), clock) for one in plans]
    return Piloted(
        split.others.num_clients, split.apart.num_clients, len(split.apart.test_labels), split.whose, tuple(found)
    )


@dataclass(frozen=True)
class Plan:
    """The groups to train for one number of groups of the federation.

    Args:
        kind: the settings of the federation's groups.
        federated: the federation's groups.
        groups: the pilot's groups.
    """

    kind: GroupingKind
    federated: Grouping
    groups: Grouping

    @property
    def sizes(self) -> Integers:
        """The clients of the federation's groups that have any."""
        return self.federated.sizes[self.federated.sizes > 0]


@dataclass(frozen=True)
class Split:
    """The federation and those who were set apart from it.

    Args:
        config: the configuration.
        others: the federation without them.
        apart: the pilot clients, whose test set is what their groups vote on.
        own: whether the federation's test inputs are clients' own.
        whose: whose inputs the pilot votes on.
    """

    config: Config
    others: Federation
    apart: Federation
    own: bool
    whose: str

    @classmethod
    def of(cls, config: Config) -> "Split":
        """Load the data and set the pilot clients apart."""
        if config.voting.trusted:
            raise InputError("a pilot does not predict trusted votes; leave out voting.trusted")
        everybody, settings = everybody_of(config), config.pilot or Pilot()
        chosen = settings.chosen(everybody.ids)
        if len(chosen) < FEWEST or len(chosen) == everybody.num_clients:
            raise InputError(
                f"pilot.share {settings.share} sets {len(chosen)} of {everybody.num_clients} clients apart; a pilot "
                f"needs at least {FEWEST}, and not all of them"
            )
        others, apart = everybody.set_apart(chosen)
        apart, whose = _with_inputs(config, apart, own=bool(everybody.test_owners))
        return cls(config, others.without(config.forget), apart, bool(everybody.test_owners), whose)

    def ladder(self) -> list[int]:
        """Numbers of groups of which the pilot can train enough, the configuration's own among them."""
        clients, most = self.others.num_clients, self.apart.num_clients // FEWEST
        usual = [-(-clients // size) for size in LADDER if size <= most][:CANDIDATES]
        own = getattr(self.config.grouping, "num_groups", clients)
        return sorted({*usual, *([own] if clients / most <= own <= clients else [])}, reverse=True)

    def plan(self, num_groups: int, trainings: int) -> Plan:
        """The groups to train, refused if these are not groups whose votes a pilot can predict."""
        check_range("groups", num_groups, 1, self.others.num_clients, "number of clients without the pilot")
        kind = self.config.grouping
        if "num_groups" not in type(kind).model_fields:
            raise InputError(f"a pilot varies the number of groups, which kind {kind.kind!r} does not have")
        kind = kind.model_copy(update={"num_groups": num_groups})
        federated = kind.groups_of(self.others.ids, self.others.forgotten)
        if federated.drawn or federated.sizes.sum() > len(np.unique(np.concatenate(federated.members))):
            raise shares_clients(kind.kind)
        sizes = federated.sizes[federated.sizes > 0]
        if self.apart.num_clients < FEWEST * sizes.mean():
            share, clients = (self.config.pilot or Pilot()).share, self.apart.num_clients
            raise InputError(
                f"{num_groups} groups have {sizes.mean():.1f} clients on average; a pilot needs at least {FEWEST} such "
                f"groups, but has {clients} clients (raise pilot.share from {share} to about "
                f"{min(0.9, 1.2 * share * FEWEST * sizes.mean() / clients):.2f}, or try more groups)"
            )
        members = deal(self.apart.num_clients, sizes, trainings, f"{num_groups} groups")
        return Plan(kind, federated, Grouping(kind.kind, self.apart.num_clients, members))


def shares_clients(kind: str) -> InputError:
    """The refusal of groups that share clients."""
    return InputError(
        f"a pilot predicts groups that share no client, got kind {kind!r}: where a client is in several groups their "
        "votes hang together, and a few groups do not show how"
    )


def deal(num_clients: int, sizes: Integers, trainings: int, name: str) -> tuple[Integers, ...]:
    """Deal pilot clients out to groups whose sizes are spread as those of the federation are.

    The first groups share no client. When too few clients are left for the next group, all are dealt out anew. No group
    is there twice, so there may be fewer than asked for.

    Args:
        num_clients: pilot clients.
        sizes: clients of the federation's groups.
        trainings: how many groups.
        name: of the random stream.
    """
    generator = stream(0, "pilot", name)
    spread = np.sort(sizes)[((np.arange(trainings) + 0.5) * len(sizes) / trainings).astype(np.int64)]
    members: dict[tuple[int, ...], Integers] = {}
    left = np.empty(0, dtype=np.int64)
    for size in np.minimum(generator.permutation(spread), num_clients).tolist():
        if size > len(left):
            left = generator.permutation(num_clients)
        group, left = np.sort(left[:size]), left[size:]
        members[tuple(group.tolist())] = group
    return tuple(members.values())


def _with_inputs(config: Config, apart: Federation, *, own: bool) -> tuple[Federation, str]:
    """The pilot clients with what their groups vote on, and whose it is."""
    if not own and config.data.options.get("num_pilot"):
        inputs, labels = datasets.pilot(config.data.name, **config.data.options)
        apart = replace(apart, test_inputs=inputs, test_labels=labels, test_owners=())
    whose = "test inputs of theirs" if own else "examples of other pilot clients"
    whose = whose if apart.test_owners else "pilot examples that belong to nobody"
    rows = stream(0, "pilot", "inputs").permutation(len(apart.test_labels))[:MOST_INPUTS]
    owners = tuple(apart.test_owners[row] for row in rows) if apart.test_owners else ()
    inputs, labels = apart.test_inputs[rows], apart.test_labels[rows]
    return replace(apart, test_inputs=inputs, test_labels=labels, test_owners=owners), whose


@dataclass
class Clock:
    """Shows progress, and measures how long one piece of work of each stage takes.

    Args:
        progress: what to call.
    """

    progress: Progress
    _ends: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note the time."""
        self._ends.setdefault(stage, []).append(time.monotonic())
        self.progress(stage, done, total)

    def seconds(self, stage: str) -> float | None:
        """From one finished piece to the next, without the time that workers need to start; None if few were done.

        Args:
            stage: how the name of the stage ends.
        """
        found = [times[1:] for name, times in self._ends.items() if name.endswith(stage)]
        ends = max(found, key=len, default=[])  # the first report of a stage counts what was in the store
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 2 else None


def _candidate(split: Split, plan: Plan, context: Context, clock: Clock) -> Candidate:
    context = replace(context, under=f"N = {len(plan.federated)}, ")
    config, apart = split.config, split.apart
    recipe = config.recipe.model_copy(update={"evaluate_at": ()})
    check_recipe(apart, plan.groups, recipe)
    ensemble = train_groups(context, plan.groups, recipe)
    if config.compression:
        ensemble = compressed_ensemble(ensemble, config.compression, context.store)
    for group, reason in ensemble.failures.items():
        raise RunError(f"group {group} of the pilot could not be trained: {reason}")
    ballots = _ballots(split, plan, context, ensemble)
    guarantee = config.guarantee(plan.kind.certificate, plan.federated)
    weight = _bytes(split, plan)
    return Candidate(
        num_groups=len(plan.federated),
        num_votes=len(plan.sizes),
        most=_most(guarantee, len(plan.sizes), apart.num_labels),
        sizes=(int(plan.sizes.min()), int(plan.sizes.max())),
        trained=len(plan.groups),
        forecast=forecast(ballots, len(plan.sizes), len(split.others.test_labels), partial(_answers, guarantee)),
        seconds=_seconds(clock, context.under, len(plan.sizes), split),
        bytes_a_client=weight[0],
        bytes_stored=weight[1],
    )


def _seconds(clock: Clock, under: str, num_groups: int, split: Split) -> float | None:
    """How long all groups take, and the features of all clients where the recipe has them and they were measured."""
    one, features = clock.seconds(f"{under}train"), clock.seconds("features")
    return None if one is None else one * num_groups + (features or 0) * split.others.num_clients


def _most(guarantee: Guarantee, num_votes: int, num_labels: int) -> int:
    """The level of an input on which all groups agree, for the label that wins ties."""
    agreed = np.zeros((1, num_labels), dtype=np.int64)
    agreed[0, 0] = num_votes
    return int(_answers(guarantee, agreed)[1][0])


def _answers(guarantee: Guarantee, counts: Integers) -> tuple[Integers, Integers]:
    certificate = guarantee.certify(Evidence(counts))
    return certificate.labels, np.where(certificate.abstained, -1, certificate.levels)


def _ballots(split: Split, plan: Plan, context: Context, ensemble: Ensemble) -> Ballots:
    apart = split.apart
    position = {user: at for at, user in enumerate(apart.ids)}
    owners = np.array([position[user] for user in apart.test_owners], dtype=np.int64)
    shape = (len(plan.groups), len(apart.test_labels))
    inside = np.stack([np.isin(owners, group) for group in plan.groups.members]) if len(owners) else np.zeros(shape)
    return Ballots(
        votes=votes_on_test_set(context, ensemble),
        truth=apart.test_labels,
        num_labels=apart.num_labels,
        shared=_shared(plan.groups),
        inside=inside.astype(np.bool_),
        owners=owners if len(owners) else np.arange(shape[1]),
        own=split.own,
        reuse=float(plan.groups.sizes.sum() / apart.num_clients),
    )


def _shared(groups: Grouping) -> Floats:
    """The clients that two groups have in common, as a share of the geometric mean of their sizes."""
    holds = np.zeros((len(groups), groups.num_clients))
    for group, members in enumerate(groups.members):
        holds[group, members] = 1
    common: Floats = holds @ holds.T / np.sqrt(np.outer(groups.sizes, groups.sizes))
    return common


def _bytes(split: Split, plan: Plan) -> tuple[int, int]:
    """What a client sends and receives, and the models of all groups."""
    apart, recipe = split.apart, split.config.recipe
    public = public_of(recipe, apart.test_inputs, apart.num_labels)
    model = model_bytes(recipe, public.shape(apart.input_shape), apart.num_labels)
    load = plan.kind.load(split.others.num_clients, recipe.participation)
    return round(2 * model * load.groups * load.share_of_rounds * recipe.rounds), model * len(plan.sizes)
