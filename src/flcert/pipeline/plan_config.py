"""What a plan needs to know about a configuration: its clients, its test set and its model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations

import numpy as np

from flcert import datasets
from flcert.core.settings import Choice
from flcert.errors import InputError, MissingError, check_range
from flcert.grouping import GroupingKind, Sizes
from flcert.pipeline.plan import Overview, overview
from flcert.pipeline.plan_setting import ModelSize, Setting
from flcert.pipeline.run import federation_of
from flcert.runs.config import Config
from flcert.training.compression import Dtype, compressed
from flcert.training.local import Replica
from flcert.training.public import public_of
from flcert.training.recipe import Recipe
from flcert.training.start import initial_module, state_arrays

USUAL_INPUTS = 10_000  # test inputs, where their number is not known
SIZE = "grouping.group_size"

Load = Callable[[list[str]], Config]  # loads a configuration with overrides


@dataclass(frozen=True)
class Clients:
    """The clients of a configuration and what their data look like.

    Args:
        number: n, without those that are left out.
        forgotten: how many are left out.
        known_from: where the number comes from.
        unread: why the data, which would tell more, cannot be read; empty if they can, or need not be.
        num_inputs: D; None if it is not known.
        input_shape: the shape of one input; None if it is not known.
        num_labels: L; None if it is not known.
    """

    number: int
    forgotten: int = 0
    known_from: str = ""
    unread: str = ""
    num_inputs: int | None = None
    input_shape: tuple[int, ...] | None = None
    num_labels: int | None = None


@dataclass(frozen=True)
class Asked:
    """What a user says beside the configuration.

    Args:
        inputs: D; by default the size of the test set if it is known, or else 10,000.
        parameters: the float32 numbers of the model; by default the configured one is built and counted.
        group_size: k of groups of a fixed size, for comparison; by default n / N to the nearest whole number.
        groups_per_client: d of groups of which a client serves several, for comparison.
    """

    inputs: int | None = None
    parameters: int | None = None
    group_size: int | None = None
    groups_per_client: int | None = None


def with_usual_size(load: Load, clients: Callable[[Config], Clients]) -> Load:
    """The same, with n / N clients in a group where the number of groups is known and their size is needed.

    Args:
        load: loads the configuration with overrides.
        clients: the clients of a configuration.
    """

    def loaded(overrides: list[str]) -> Config:
        try:
            return load(overrides)
        except MissingError as error:
            if error.name != SIZE:
                raise
            config = load([*overrides, f"{SIZE}=1"])
            number = getattr(config.grouping, "num_groups", None)
            if number is None:
                raise
        return load([*overrides, f"{SIZE}={_average_size(clients(config).number, number)}"])

    return loaded


def _average_size(num_clients: int, num_groups: int) -> int:
    return max(1, round(num_clients / max(1, num_groups)))


def fitting(load: Load, certain: Mapping[str, int], wanted: Mapping[str, int]) -> Config:
    """A configuration with other settings of its groups.

    Args:
        load: loads the configuration with overrides.
        certain: values by the names of settings, which its kind of groups must have.
        wanted: the same; other kinds, which are planned for comparison, may have those that the configured one has not.
    """
    problems = []
    for kept in _parts(list(wanted)):
        try:
            values = {**certain, **{name: wanted[name] for name in kept}}
            config = load([f"grouping.{name}={value}" for name, value in values.items()])
        except InputError as error:
            problems.append(error)
            continue
        if all(name in kept or name not in type(config.grouping).model_fields for name in wanted):
            return config
    raise problems[0]


def _parts(names: list[str]) -> Iterable[tuple[str, ...]]:
    """All selections of these names, the largest first."""
    return chain.from_iterable(combinations(names, number) for number in range(len(names), -1, -1))


def clients_of(config: Config) -> Clients:
    """The clients of a configuration; its data are only read if their options do not tell.

    Raises:
        InputError: the data are needed, and cannot be read.
    """
    name, forgotten = config.data.name, len(config.forget)
    known = datasets.outline(name, config.data.options)
    if known.num_clients is None or config.pilot:  # their ids tell who is set apart
        return _counted(config, known)
    left = check_range("clients that are not forgotten", known.num_clients - forgotten, 1, 2**40)
    source = "data.options.num_clients" if config.data.options.get("num_clients") else f"those of {name!r} by default"
    return _outlined(Clients(left, forgotten, source), known)


def _counted(config: Config, known: datasets.Outline) -> Clients:
    """The clients, counted in the data; all users of a published data set if its files are not here."""
    try:
        found = federation_of(config)
    except InputError as error:
        record = datasets.DATASETS.get(config.data.name)
        if record is None or record.users is None:
            raise
        return _outlined(Clients(record.users, 0, f"all users of {config.data.name!r}", str(error)), known)
    read = datasets.Outline(found.num_clients, len(found.test_labels), found.input_shape, found.num_labels)
    return _outlined(Clients(found.num_clients, len(found.forgotten), "counted in the data"), read)


def _outlined(clients: Clients, known: datasets.Outline) -> Clients:
    """The clients with what is known about their data."""
    return replace(clients, num_inputs=known.num_inputs, input_shape=known.input_shape, num_labels=known.num_labels)


@dataclass(frozen=True)
class Planned:
    """The plans of a configuration.

    Args:
        clients: its clients.
        overviews: the plans for each number of groups.
        lacking: what is missing here to build the model; empty if nothing is.
    """

    clients: Clients
    overviews: tuple[Overview, ...]
    lacking: str = ""


def planned(configs: Sequence[Config], clients: Clients, asked: Asked, target: int | None = None) -> Planned:
    """Plan configurations that differ in their groups alone.

    Args:
        configs: the configurations.
        clients: their clients.
        asked: what the user says beside them.
        target: the level to count the groups for that must agree.

    Raises:
        InputError: the configured groups are possible with none of the numbers of groups.
    """
    config = configs[0]
    model, without, lacking = _models(config, clients, asked.parameters)
    setting = Setting(
        sizes=_sizes(config.grouping, clients, asked),
        rounds=config.recipe.rounds,
        participation=config.recipe.participation,
        model=model,
        without=without,
        num_inputs=asked.inputs if asked.inputs is not None else clients.num_inputs or USUAL_INPUTS,
        num_labels=clients.num_labels or 2,
        certificate=config.certificate,
        trusted=config.voting.num_trusted,
        forgotten=clients.forgotten,
    )
    groupings = [one.grouping for one in configs]
    settings = [replace(setting, sizes=_sizes(grouping, clients, asked)) for grouping in groupings]
    found = [overview(*one, target) for one in zip(groupings, settings, strict=True)]
    if all(one.own in one.obstacles for one in found):
        reasons = "; ".join(dict.fromkeys(one.obstacles[one.own] for one in found))
        raise InputError(f"{found[0].own} is not possible: {reasons}")
    return Planned(clients, tuple(found), lacking)


def _sizes(grouping: GroupingKind, clients: Clients, asked: Asked) -> Sizes:
    """The sizes of the configured groups, from which other kinds are proposed beside them."""
    own = grouping.model_dump(include={field.name for field in fields(Sizes)})
    number = own["num_groups"] if "num_groups" in own else _number_of_groups(grouping, clients.number)
    size = own.get("group_size") or asked.group_size or _average_size(clients.number, number)
    return Sizes(clients.number, number, size, own.get("groups_per_client") or asked.groups_per_client)


def _number_of_groups(grouping: GroupingKind, num_clients: int) -> int:
    grouping.check(num_clients)
    return len(grouping.sketch(num_clients))


def _models(config: Config, clients: Clients, parameters: int | None) -> tuple[ModelSize, ModelSize | None, str]:
    """The size of the model with and without public features, and what is missing to build it."""
    if parameters is not None:
        return ModelSize.plain(parameters), None, ""
    if clients.input_shape is None or clients.num_labels is None:
        return ModelSize(), None, ""
    try:
        return *_built(config.recipe, clients.input_shape, clients.num_labels, config.compression), ""
    except InputError as error:  # a public model or table that was not fetched yet
        return ModelSize(), None, str(error)


def _built(
    recipe: Recipe, input_shape: tuple[int, ...], num_labels: int, dtype: Dtype | None
) -> tuple[ModelSize, ModelSize | None]:
    public = public_of(recipe, np.zeros((1, *input_shape), dtype=np.float32), num_labels)
    whole = public.card.model if public.function and public.card else None
    sized = _sizer(recipe, num_labels, dtype)
    return sized(recipe.model, public.shape(input_shape)), sized(whole, input_shape) if whole else None


def _sizer(recipe: Recipe, num_labels: int, dtype: Dtype | None) -> Callable[[Choice, tuple[int, ...]], ModelSize]:
    """How large a model is for inputs of a shape."""
    times = recipe.models_per_group or 1

    def sized(model: Choice, shape: tuple[int, ...]) -> ModelSize:
        module = initial_module(recipe.model_copy(update={"model": model}), shape, num_labels)
        numbers = Replica(module).read().numel() * times
        if dtype is None:
            return ModelSize.plain(numbers)
        small = compressed(state_arrays(module), dtype)
        return ModelSize(numbers, times * sum(array.nbytes for array in small.values()))

    return sized
