"""The trained models of all groups, and their answers."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flcert.certify import Evidence, count_ranks
from flcert.certify.guarantee import Need
from flcert.core.determinism import one_thread
from flcert.core.store import Arrays
from flcert.errors import InputError, RunError, one_line
from flcert.features import one_by_one
from flcert.grouping import Grouping
from flcert.training.device import array, tensor
from flcert.training.panel import Broken, Panel, Voter, Votes, chunks, loaded, panel, seats, single
from flcert.training.public import NOTHING, Public
from flcert.training.recipe import Recipe
from flcert.voting import NO_VOTE

Answer = list[tuple[NDArray[np.integer], str]]  # of each model of a panel to all inputs, and why some cast no vote

RAISED = (Exception, SystemExit)  # what a user's model may raise

BLOCK = 16  # inputs whose features one thread computes before it takes others


@dataclass(frozen=True)
class Ensemble:
    """One model for each group that has one.

    Args:
        grouping: who trained together.
        recipe: how they trained.
        input_shape: shape of one input.
        input_dtype: "float32" for features, "int64" for tokens.
        num_labels: L.
        keys: for each group, the keys of its models by round; None for an empty or failed group.
        load: returns the arrays under a key.
        failures: why a group with clients has no model.
        diverged: groups whose model has values that are not finite; such a model mostly votes for label 0.
        public: what all groups share.
        trusted: the weights of a model of the server's own that votes beside the groups, if there is one.
        origins: the clients' data that each model was made from, by the model's key; see ``core.store``.
        trained: how many groups were trained for this ensemble.
        reused: how many came from the store.
        damaged: how many stored models were damaged, and trained again.
        kernels: how many groups were trained on which kind of kernels; see ``core.determinism``.
    """

    grouping: Grouping
    recipe: Recipe
    input_shape: tuple[int, ...]
    input_dtype: str
    num_labels: int
    keys: tuple[dict[int, str] | None, ...]
    load: Callable[[str], Arrays]
    failures: dict[int, str] = field(default_factory=dict)
    diverged: frozenset[int] = frozenset()
    public: Public = NOTHING
    trusted: Arrays | None = None
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    trained: int = 0
    reused: int = 0
    damaged: int = 0
    kernels: Mapping[str, int] = field(default_factory=dict)

    def model_keys(self, rounds: int | None = None) -> dict[int, str]:
        """The key of each group's model after this many rounds, by default all; groups without one are left out."""
        return {group: keys[rounds or self.recipe.rounds] for group, keys in enumerate(self.keys) if keys}

    @property
    def seats(self) -> int:
        """How many models can be asked together."""
        return seats(self.recipe, self.model_shape, self.num_labels)

    @property
    def model_shape(self) -> tuple[int, ...]:
        """The shape of what models receive: an input, or its features."""
        return self.public.shape(self.input_shape)

    def owners(self, rounds: int | None = None) -> dict[str, int]:
        """The last group of each model, by the model's key: groups drawn at random can be the same and share one."""
        return {key: group for group, key in self.model_keys(rounds).items()}

    def voter(self, group: int, key: str) -> Voter:
        """A group's model."""
        return Voter(self.recipe.of_group(group), self.load(key))

    def without(self, failures: Mapping[int, str]) -> "Ensemble":
        """The same ensemble, in which some more groups have failed, for these reasons."""
        keys = tuple(None if group in failures else owned for group, owned in enumerate(self.keys))
        return replace(self, keys=keys, failures={**self.failures, **failures})

    def module(self, group: int) -> nn.Module:
        """A group's model as a torch module; with public features it receives those."""
        keys = self.keys[group]
        if keys is None:
            raise InputError(f"group {group} has no model")
        if self.recipe.models_per_group:
            raise InputError(f"a group has {self.recipe.models_per_group} models, which vote as one; it has no module")
        recipe = self.recipe.of_group(group)
        return loaded(recipe, self.load(keys[recipe.rounds]), self.model_shape, self.num_labels)

    def own_panel(self, arrays: Arrays) -> Panel:
        """A model of the server's own with these weights, ready to vote."""
        return panel([Voter(single(self.recipe), arrays)], self.model_shape, self.num_labels)

    def panels(self) -> Iterator[tuple[Sequence[str], Panel]]:
        """The models by their keys, in panels that are as large as possible."""
        for keys in chunks(list(self.owners()), self.seats):
            yield keys, self.panel(keys)

    def panel(self, keys: Sequence[str]) -> Panel:
        """The models of these keys, ready to vote; one that raises if it is asked where they cannot be made."""
        owners = self.owners()
        voters = [self.voter(owners[key], key) for key in keys]
        try:
            return panel(voters, self.model_shape, self.num_labels)
        except RAISED as error:
            return Broken(error)

    def votes(self, inputs: NDArray[np.generic]) -> Votes:
        """What each group predicts for each input, (groups x inputs); -1 for a group without a model."""
        with Electorate(self, self.panels()) as electorate:
            return electorate.votes(checked_inputs(inputs, self.input_shape, self.input_dtype))

    def evidence(self, inputs: NDArray[np.generic], need: Need = "votes") -> Evidence:
        """What certificates need to know about some inputs.

        Args:
            inputs: (inputs x input shape), or flattened.
            need: what the certificate needs; with "ranks" the models also rank the labels.
        """
        with Electorate(self, self.panels()) as electorate:
            return electorate.evidence(checked_inputs(inputs, self.input_shape, self.input_dtype), need)


class Electorate:
    """The models of an ensemble, asked by several threads at once.

    Args:
        ensemble: the trained models.
        panels: its panels; a list of them can be asked repeatedly.
        threads: how many; by default one for each core. Each computes alone, so their number changes no vote.

    A user's model may raise on the weights that clients of its group brought about. It then casts no vote on the inputs
    on which it raises, and ``silent`` says why, by its key; the other groups are not concerned.
    """

    def __init__(
        self, ensemble: Ensemble, panels: Iterable[tuple[Sequence[str], Panel]], threads: int | None = None
    ) -> None:
        self.ensemble, self._panels, self._threads = ensemble, panels, threads or os.cpu_count() or 1
        self._trusted = None if ensemble.trusted is None else ensemble.own_panel(ensemble.trusted)
        self._pool = ThreadPoolExecutor(self._threads, "voter", torch.set_num_threads, (1,))
        self.silent: dict[str, str] = {}

    def __enter__(self) -> "Electorate":
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown()

    def votes(self, inputs: NDArray[np.generic]) -> Votes:
        """What each group predicts for each input, (groups x inputs); -1 for a group without a model.

        Args:
            inputs: as ``checked_inputs`` returns them.
        """
        return self._table(self._asked("votes", self.received(inputs)), len(inputs))

    def evidence(self, inputs: NDArray[np.generic], need: Need = "votes") -> Evidence:
        """What certificates need to know about inputs that ``checked_inputs`` returned."""
        return self.evidence_of(self.received(inputs), need)

    def evidence_of(self, received: NDArray[np.generic], need: Need = "votes") -> Evidence:
        """The same for what models receive."""
        ensemble, number = self.ensemble, len(received)
        trusted = self._trusted.votes(received)[0] if self._trusted else None
        if need != "ranks":
            votes = self._table(self._asked("votes", received), number)
            return Evidence.of_votes(votes, ensemble.num_labels, ensemble.grouping.members, trusted=trusted)
        if ensemble.recipe.smoothing:
            raise InputError("models with recipe.smoothing have votes only; they do not rank the labels")
        places = self._asked("ranks", received)
        votes = self._table({key: (table == 0).argmax(axis=-1) for key, table in places.items()}, number)
        keys = ensemble.model_keys()
        of_groups = [places[keys[group]] if group in keys else None for group in range(len(ensemble.keys))]
        ranks = count_ranks(of_groups, ensemble.grouping.members)
        return Evidence.of_votes(votes, ensemble.num_labels, ensemble.grouping.members, ranks, trusted)

    def _table(self, answers: Mapping[str, NDArray[np.integer]], num_inputs: int) -> Votes:
        """The votes of all groups from those of all models."""
        table = np.full((len(self.ensemble.keys), num_inputs), NO_VOTE, dtype=np.int32)
        for group, key in self.ensemble.model_keys().items():
            table[group] = answers[key]
        return table

    def _asked(self, what: Literal["votes", "ranks"], received: NDArray[np.generic]) -> dict[str, NDArray[np.integer]]:
        """The answer of each model, by its key."""
        answers: dict[str, NDArray[np.integer]] = {}
        waiting: deque[tuple[Sequence[str], Future[Answer]]] = deque()
        with one_thread():
            try:
                for keys, together in self._panels:
                    waiting.append((keys, self._pool.submit(self._answer, keys, together, what, received)))
                    if len(waiting) > self._threads:  # panels made on demand must not pile up
                        self._collect(answers, *waiting.popleft())
                while waiting:
                    self._collect(answers, *waiting.popleft())
            finally:
                wait([answer for _, answer in waiting])  # after an error: this call must not run on beside the next
        _refuse_unreadable(answers, self.silent)
        return answers

    def _collect(self, answers: dict[str, NDArray[np.integer]], keys: Sequence[str], future: "Future[Answer]") -> None:
        for key, (answer, reason) in zip(keys, future.result(), strict=True):
            answers[key] = answer
            self.silent |= {key: reason} if reason else {}

    def _of_users(self, keys: Sequence[str]) -> bool:
        """Whether some of these models are of a class of the user's."""
        owners = self.ensemble.owners()
        return any(":" in self.ensemble.recipe.of_group(owners[key]).model.name for key in keys)

    def _answer(
        self, keys: Sequence[str], together: Panel, what: Literal["votes", "ranks"], received: NDArray[np.generic]
    ) -> Answer:
        """What each model of a panel answers, and why if it casts no vote on some inputs.

        If a panel raises, each of its models is asked alone, so that nobody pays for another's.
        """
        try:
            return [(answer, "") for answer in getattr(together, what)(received)]
        except RAISED as error:
            if not self._of_users(keys):  # ours raise on inputs alone, such as a token beyond the vocabulary
                raise InputError(f"the models cannot read these inputs: {_told(error)}") from error
            if len(keys) > 1:
                alone = [self._answer([key], self.ensemble.panel([key]), what, received) for key in keys]
                return [answer for one in alone for answer in one]
            if what == "ranks":
                raise RunError(one_line(f"a model cannot rank the labels: {_told(error)}")) from error
        return [_row_by_row(together, received)]

    def received(self, inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """What models receive: the inputs, or their features, which are computed once for all models."""
        function = self.ensemble.public.function
        if function is None:
            return inputs
        module = function.module()
        size = BLOCK if function.ours else len(inputs)  # a user's module may not bear two threads
        blocks = [inputs[start : start + size] for start in range(0, len(inputs), size)]
        with one_thread():
            return np.concatenate(list(self._pool.map(partial(features, module), blocks)))


def features(module: nn.Module, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
    """The features of inputs, each of which passes a public function alone."""
    rows: NDArray[np.float32] = array(one_by_one(module, tensor(inputs)))  # type: ignore[assignment]
    return rows


def _row_by_row(alone: Panel, received: NDArray[np.generic]) -> tuple[NDArray[np.integer], str]:
    """The votes of one model, none on inputs on which it raises, and why."""
    votes, reason = np.full(len(received), NO_VOTE, dtype=np.int32), ""
    for row in range(len(received)):
        try:
            votes[row] = alone.votes(received[row : row + 1])[0, 0]
        except RAISED as error:
            reason = reason or _told(error)
    return votes, reason or "it raises on several inputs at once"


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def _refuse_unreadable(answers: Mapping[str, NDArray[np.integer]], silent: Mapping[str, str]) -> None:
    """Refuse inputs on which every model raises: it is the input's fault, as with a token beyond the vocabulary."""
    if silent and len(silent) == len(answers):
        unread = np.logical_and.reduce([answer == NO_VOTE for answer in answers.values()])
        if unread.any():
            reason = next(iter(silent.values()))
            raise InputError(f"the models cannot read these inputs (row {int(unread.argmax())}): {reason}")


def checked_inputs(inputs: NDArray[np.generic], input_shape: tuple[int, ...], input_dtype: str) -> NDArray[np.generic]:
    """Inputs to predict, as (inputs x input shape); flattened rows are reshaped."""
    array = np.asarray(inputs)
    if array.ndim < 2 or len(array) == 0:
        raise InputError(f"inputs must be a table with one row for each input, got shape {array.shape}")
    if array.shape[1:] not in (input_shape, (prod(input_shape),)):
        raise InputError(f"each input must have shape {input_shape}, got {array.shape[1:]}")
    if not np.can_cast(array.dtype, np.dtype(input_dtype), casting="same_kind"):
        raise InputError(f"inputs must be of dtype {input_dtype}, got {array.dtype}")
    with np.errstate(over="ignore"):  # overflows become infinite
        converted = array.astype(input_dtype).reshape(-1, *input_shape)
    if not np.isfinite(converted).all():
        wrong = tuple(np.argwhere(~np.isfinite(converted))[0])
        value = array.reshape(converted.shape)[wrong]
        rule = f"fit into {input_dtype}" if np.isfinite(value) else "be finite"
        raise InputError(f"inputs must {rule}, got {value} in row {wrong[0]}")
    return converted
