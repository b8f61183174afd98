"""The strategies that groups train with: any of Flower's, or flcert's own rules."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy
from torch import nn

from flcert.aggregators import Aggregator, Memory, Round, remembered
from flcert.core.code import code_digest, found_by_name, has_file
from flcert.core.digest import digest_arrays
from flcert.core.plugins import source_digest
from flcert.core.settings import import_path
from flcert.errors import InputError
from flcert.training.device import tensor
from flcert.training.local import Replica

CHANGEABLE = (
    *(Strategy, dict, list, set, bytearray, np.ndarray, torch.Tensor, nn.Module),
    *(np.random.Generator, random.Random, torch.Generator),
)
MINIMUMS = ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")


class RuleStrategy(FedAvg):
    """A rule of ``flcert.aggregators`` as a Flower strategy: the arithmetic is that of ``flcert run``, bit for bit.

    Flower's own FedAvg averages models; flcert averages their updates and adds the result, which rounds differently.

    A strategy trains one group once, from its first round, and what the rule remembers is in it. A round without a
    usable reply leaves that as it is, like the model.

    Args:
        module: the group's model, made for training.
        rule: how updates are combined.
    """

    _memory: Memory = ()  # of the class until the first round is over: keys cover a new strategy's own attributes

    def __init__(self, module: nn.Module, rule: Aggregator) -> None:
        super().__init__(fraction_evaluate=0.0)
        self._replica, self._rule = Replica(module), rule
        self._state = self._replica.read()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round; updates are relative to the model that they carry."""
        self._state = self._vector(arrays)
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002 (Flower's signature)
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after the round."""
        usable, _ = self._check_and_log_replies(replies, is_train=True)
        if not usable:
            return None, None
        contents = [reply.content for reply in usable]
        arrays = [next(iter(content.array_records.values())) for content in contents]
        sizes = [next(iter(content.metric_records.values()))[self.weighted_by_key] for content in contents]
        brought = Round(
            updates=torch.stack([self._vector(one) - self._state for one in arrays]),
            sizes=tensor(sizes),
            num_parameters=self._replica.num_parameters,
            memory=self._memory,
        )
        self._replica.write(self._state + self._rule(brought))
        self._memory = remembered(self._rule, brought)
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return ArrayRecord(self._replica.module.state_dict()), metrics

    def _vector(self, arrays: ArrayRecord) -> torch.Tensor:
        self._replica.module.load_state_dict(arrays.to_torch_state_dict())
        return self._replica.read()


def distinct(factory: Callable[[], Strategy], number: int) -> list[Strategy]:
    """Make one strategy for each group with the factory; refuse strategies that share something."""
    if isinstance(factory, Strategy) or not callable(factory):
        raise InputError(f"strategy must be a function or class that makes a new strategy, got {factory!r}")
    made: list[Strategy] = []
    for _ in range(number):
        try:
            made.append(factory())
        except Exception as error:  # a user's code may raise anything
            raise InputError(f"the strategy's factory raised {type(error).__name__}: {error}") from error
        if not isinstance(made[-1], Strategy):
            raise InputError(f"the factory must return a Flower strategy, got {type(made[-1]).__name__}")
        _refuse_shared_chance(made[-1])
    _refuse_shared(made)
    return made


def _refuse_shared(strategies: Sequence[Strategy]) -> None:
    """Refuse strategies of different groups that are, wrap or hold the same mutable object."""
    owner: dict[int, int] = {}
    for group, strategy in enumerate(strategies):
        for part in _changeable(strategy):
            if owner.setdefault(id(part), group) != group:
                raise InputError(
                    "the factory must return a new strategy at each call, with nothing in it that an earlier one has; "
                    f"got the same {type(part).__name__} for groups {owner[id(part)]} and {group}"
                )


def _changeable(value: object) -> Iterator[object]:
    """The mutable parts of a value: strategies, containers, arrays and generators, and those inside them."""
    if isinstance(value, CHANGEABLE):
        yield value
    inside: Iterable[object] = ()
    if isinstance(value, Strategy):
        inside = vars(value).values()
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    for part in inside:
        yield from _changeable(part)


def never_wait(strategy: Strategy) -> None:
    """Set the strategy's minimum numbers of nodes to zero: who takes part is decided, and it would wait forever."""
    for name in MINIMUMS:
        if hasattr(strategy, name):
            setattr(strategy, name, 0)
    for inner in _inside(strategy):
        never_wait(inner)


def weight_of(strategy: Strategy) -> str | None:
    """The metric by which a strategy, or one that it wraps, weights clients."""
    name = getattr(strategy, "weighted_by_key", None)
    return name if isinstance(name, str) else next(filter(None, map(weight_of, _inside(strategy))), None)


def described(strategy: Strategy) -> str:
    """A strategy's class and everything it holds, as text, with a digest of code that is neither Flower's nor ours.

    Objects other than numbers, strings, containers, arrays and functions are described by their class alone, also in
    the defaults and closures of functions. The rule of a ``RuleStrategy`` is what the recipe says.

    >>> described(FedAvg()).partition(",")[0]
    "FedAvg(arrayrecord_key='arrays'"
    """
    held = ", ".join(f"{name}={_attribute(strategy, name)}" for name in sorted(vars(strategy)))
    return f"{type(strategy).__qualname__}({held}){_source(type(strategy))}"


def _attribute(strategy: Strategy, name: str) -> str:
    value = vars(strategy)[name]
    if isinstance(strategy, RuleStrategy) and name == "_rule" and isinstance(value, FunctionType):
        return f"{value.__qualname__}{_file(value)}"
    return _setting(value)


def _setting(value: Any) -> str:
    match value:
        case Strategy():  # one that wraps another
            return described(value)
        case None | int() | float() | str() | np.generic():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_setting, value))}]"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(_setting, value)))}}}"
        case dict():
            return f"{{{', '.join(f'{_setting(key)}: {_setting(one)}' for key, one in value.items())}}}"
        case bytes() | bytearray():
            return digest_arrays(np.frombuffer(value, np.uint8))
        case np.ndarray():
            return digest_arrays(value)
        case torch.Tensor():
            return digest_arrays(value.detach().numpy())
        case FunctionType() | type():
            return f"{value.__qualname__}{_source(value)}"
        case MethodType() | partial():
            return f"{type(value).__qualname__}{_code(value)}"
    return type(value).__qualname__


def _source(value: FunctionType | type) -> str:
    """What a class or function computes and holds, if it is neither Flower's nor ours."""
    return "" if _is_ours(value) and found_by_name(value) else f"{_file(value)}{_code(value)}"


def _file(value: FunctionType | type) -> str:
    """Where a class or function comes from, if it is neither Flower's nor ours and has a file."""
    known = _is_ours(value) or not has_file(value.__module__)
    return "" if known else f" of {source_digest(import_path(value))}"


def _is_ours(value: FunctionType | type) -> bool:
    return value.__module__.partition(".")[0] in ("flwr", "flcert")


def _code(value: object) -> str:
    return f" of {code_digest(value, other=type)}"


def _refuse_shared_chance(strategy: Strategy) -> None:
    """Refuse strategies that draw from process-wide generators: one group's clients would change another's draws."""
    fraction = getattr(strategy, "fraction_train", 1.0)
    if fraction != 1.0:
        raise InputError(
            f"fraction_train must be 1.0, got {fraction}: Flower draws nodes from a generator that all groups share; "
            "give recipe.participation instead"
        )
    fraction = getattr(strategy, "fraction_evaluate", 1.0)
    if fraction not in (0.0, 1.0):
        raise InputError(
            f"fraction_evaluate must be 0.0 or 1.0, got {fraction}: Flower draws nodes from a generator that all "
            "groups share"
        )
    for name in ("noise_multiplier", "clipped_count_stddev"):
        if noise := getattr(strategy, name, None):
            raise InputError(
                f"{name} must be 0, got {noise}: Flower draws noise from a generator that all groups share, so no "
                "certificate would hold"
            )
    for inner in _inside(strategy):
        _refuse_shared_chance(inner)


def _inside(strategy: Strategy) -> list[Strategy]:
    """Strategies that this one wraps."""
    return [value for value in vars(strategy).values() if isinstance(value, Strategy)]
