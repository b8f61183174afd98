"""One run of a comparison, and the figures that every run has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flcert.core.digest import digest_arrays
from flcert.report.points import Curve
from flcert.runs.config import Config
from flcert.runs.directory import RunDirectory
from flcert.runs.records import Manifest, Summary


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        path: its directory.
        config: its configuration.
        manifest: what was recorded about it.
        summary: its main figures.
        test_set: a digest of the true labels and the shape of the inputs, by which test sets are told apart.
    """

    path: Path
    config: Config
    manifest: Manifest
    summary: Summary
    test_set: str

    @classmethod
    def read(cls, path: Path) -> "Run":
        """Read a run directory; refuse one that is not finished."""
        directory = RunDirectory.open(path)
        manifest = directory.manifest()
        shape = f"{manifest.data.labels} {manifest.data.input_shape}"
        test_set = digest_arrays(directory.truth().astype(np.int64), text=shape)
        return cls(path, directory.config(), manifest, directory.summary(), test_set)

    @cached_property
    def curve(self) -> Curve:
        """CA@m at index m."""
        return np.array(self.summary.certified_accuracy)

    def at(self, m: int) -> float:
        """CA@m, which is zero past the end of the curve."""
        return float(self.curve[m]) if m < len(self.curve) else 0.0


@dataclass(frozen=True)
class Column:
    """A figure of every run.

    Args:
        name: its name in files.
        title: its heading.
        unit: how to write it.
        of: the figure of one run; None if it has none.
        judged: whether to say if differences are within the noise of seeds.
    """

    name: str
    title: str
    unit: Literal["share", "number", "count"]
    of: Callable[[Run], float | None]
    judged: bool = False

    def plain(self, value: float) -> float:
        """A value for files: whole if it is a count of every repeat."""
        return round(value) if self.unit == "count" and value == round(value) else value

    def written(self, value: float) -> str:
        """A value for readers."""
        if self.unit == "count":
            return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
        return f"{value:.1%}" if self.unit == "share" else f"{value:,.2f}"

    def spread_written(self, spread: float | None) -> str:
        """A standard deviation for readers, in points if the value is a share; empty if it is unknown."""
        if spread is None or not self.judged:
            return ""
        return f"± {100 * spread:.1f}" if self.unit == "share" else f"± {spread:,.2f}"


def proved_columns(levels: Sequence[int]) -> list[Column]:
    """What is proved and measured on the test set.

    The area is the sum of CA@m over m from 1: the mean level of the test inputs, with 0 for those that are wrong
    or abstained on.
    """

    def at(m: int) -> Callable[[Run], float]:
        return lambda run: run.at(m)

    return [
        *(Column(f"certified_accuracy_at_{m}", f"CA@{m:,}", "share", at(m), judged=True) for m in levels),
        Column("accuracy", "accuracy", "share", lambda run: run.summary.accuracy, judged=True),
        Column("area", "area", "number", lambda run: float(run.curve[1:].sum()), judged=True),
    ]


def fact_columns(runs: Sequence[Run]) -> list[Column]:
    """How the runs were trained; what concerns none of them is left out."""
    always = [
        Column("clients", "clients", "count", lambda run: run.manifest.data.clients),
        Column("groups", "groups", "count", lambda run: len(run.manifest.groups)),
        Column("rounds", "rounds", "count", lambda run: run.config.recipe.rounds),
    ]
    others = [
        Column("empty_groups", "empty groups", "count", lambda run: _groups(run, lambda one: not one.clients)),
        Column("failed_groups", "failed groups", "count", lambda run: _groups(run, lambda one: one.failure)),
        Column("dropped_replies", "dropped replies", "count", lambda run: _groups(run, lambda one: one.dropped)),
        Column("bytes_a_round", "bytes a round", "count", _bytes_a_round),
        Column("public_accuracy", "public model alone", "share", _public_accuracy),
        Column("accuracy_under_attack", "accuracy under attack", "share", _under_attack),
    ]
    return [*always, *(column for column in others if any(column.of(run) for run in runs))]


def _groups(run: Run, counted: Callable[[Any], Any]) -> float:
    """The number of groups of which something is true, or the length of a list over all of them."""
    found = (counted(one) for one in run.manifest.groups)
    return sum(len(one) if isinstance(one, tuple) else bool(one) for one in found)


def _bytes_a_round(run: Run) -> float | None:
    return run.manifest.public.bytes_a_round if run.manifest.public else None


def _public_accuracy(run: Run) -> float | None:
    return run.summary.public.accuracy if run.summary.public else None


def _under_attack(run: Run) -> float | None:
    return run.summary.attack.accuracy_under_attack if run.summary.attack else None
