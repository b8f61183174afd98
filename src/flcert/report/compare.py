"""Finished runs side by side: which settings they have, what each reaches, and which differences may be noise.

Runs that differ in their seeds only are repeats of one setting. What differs between settings is their name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Guarantee
from flcert.core.digest import digest_json
from flcert.errors import InputError, check_range
from flcert.report.compare_names import MOST_VALUES, differing, names_of
from flcert.report.compare_noise import LEAST_REPEATS, Difference, difference
from flcert.report.compare_runs import Column, Run, fact_columns, proved_columns
from flcert.report.points import chosen_levels

CHOOSING = (
    "Each row is certified as a setting that was fixed beforehand. The choice of a row is not: choosing by results "
    "that clients influenced lets one client influence every group. Choose on pilot clients or public data."
)
EXCEPT = "except with probability"
MOST_LEVELS = 6  # columns of certified accuracy, unless the user names them


@dataclass(frozen=True)
class Setting:
    """Runs that differ in nothing but their seeds.

    Args:
        name: what distinguishes the setting from the others.
        runs: its repeats.
    """

    name: str
    runs: tuple[Run, ...]

    @property
    def guarantee(self) -> Guarantee:
        """What is proved for it."""
        return self.runs[0].manifest.guarantee

    @property
    def test_set(self) -> str:
        """Which test set it was certified on."""
        return self.runs[0].test_set

    @property
    def comparable(self) -> tuple[str, str, str]:
        """Settings with the same value make the same kind of claim about the same inputs."""
        return self.test_set, self.guarantee.kind, self.guarantee.failure_probability

    def values(self, column: Column) -> NDArray[np.float64]:
        """The figure of each repeat that has it."""
        found = (column.of(run) for run in self.runs)
        return np.array([value for value in found if value is not None])

    def curves(self, length: int) -> NDArray[np.float64]:
        """CA@m of each repeat, padded with zeros: repeats x m."""
        return np.array([[run.at(m) for m in range(length)] for run in self.runs])


@dataclass(frozen=True)
class Cell:
    """A figure of a setting.

    Args:
        mean: over the repeats.
        spread: their standard deviation; None for a single run.
        mark: "best" in its column, or within the "noise" of that; empty if neither can be said.
    """

    mean: float
    spread: float | None
    mark: Literal["", "best", "noise"]


@dataclass(frozen=True)
class Comparison:
    """Settings side by side.

    Args:
        settings: what is compared.
        levels: the numbers of malicious clients m that have a column.
    """

    settings: tuple[Setting, ...]
    levels: tuple[int, ...]

    @property
    def runs(self) -> list[Run]:
        """All runs of all settings."""
        return [run for setting in self.settings for run in setting.runs]

    @property
    def length(self) -> int:
        """One past the largest m of any curve."""
        return max(len(run.curve) for run in self.runs)

    @cached_property
    def columns(self) -> list[Column]:
        """The figures that some run has."""
        return [*proved_columns(self.levels), *fact_columns(self.runs)]

    def cell(self, setting: Setting, column: Column) -> Cell | None:
        """The figure of a setting, or None if it has none."""
        values = setting.values(column)
        if not len(values):
            return None
        spread = float(values.std(ddof=1)) if len(values) > 1 else None
        return Cell(float(values.mean()), spread, self._mark(setting, column))

    def _mark(self, setting: Setting, column: Column) -> Literal["", "best", "noise"]:
        peers = [one for one in self.settings if one.comparable == setting.comparable and len(one.values(column))]
        if not column.judged or len(peers) < 2:
            return ""
        best = max(peers, key=lambda one: float(one.values(column).mean()))
        found = difference(best.values(column), setting.values(column))
        if found is None:
            return ""
        return "best" if setting is best else "noise" if found.within_noise else ""

    @cached_property
    def differences(self) -> list[tuple[Setting, Setting, Column, Difference]]:
        """Every difference between two comparable settings that have enough repeats to judge it."""
        pairs = [pair for pair in combinations(self.settings, 2) if pair[0].comparable == pair[1].comparable]
        judged = [column for column in self.columns if column.judged]
        found = [
            (*pair, column, difference(*(one.values(column) for one in pair))) for pair in pairs for column in judged
        ]
        return [(first, second, column, one) for first, second, column, one in found if one is not None]

    @cached_property
    def test_sets(self) -> dict[str, str]:
        """A letter for each test set, in the order in which they first appear."""
        found = dict.fromkeys(setting.test_set for setting in self.settings)
        return dict(zip(found, _letters(ascii_uppercase, len(found)), strict=True))

    @cached_property
    def claims(self) -> dict[str, str]:
        """A letter for each sentence about what is proved, in the order in which they first appear."""
        found = dict.fromkeys(claim_of(setting) for setting in self.settings)
        return dict(zip(found, _letters(ascii_lowercase, len(found)), strict=True))

    @property
    def differing(self) -> dict[str, list[str | None]]:
        """The keys in which the settings differ, with the value of each."""
        return differing([setting.runs[0].config.split_seeds()[0] for setting in self.settings])

    @property
    def repeated(self) -> bool:
        """Whether any setting has several runs."""
        return len(self.runs) > len(self.settings)

    @property
    def remarks(self) -> list[str]:
        """What to know before reading the table."""
        return [*_about_runs(self), *_about_repeats(self), CHOOSING]


def compare(paths: Sequence[Path], names: Sequence[str] = (), levels: Sequence[int] = ()) -> Comparison:
    """Compare finished runs.

    Args:
        paths: their directories.
        names: a name for each setting, in the order in which they first appear; by default what differs.
        levels: the numbers of malicious clients to show; by default a few that tell the curves apart.
    """
    if not paths:
        raise InputError("there is no run to compare")
    for first, second in combinations(paths, 2):
        if first.resolve() == second.resolve():
            raise InputError(f"{second} is given twice; a run is no repeat of itself")
    runs = [Run.read(path) for path in paths]
    for m in levels:
        check_range("m", m, 0, max(run.manifest.data.clients for run in runs), "num_clients")
    sets = _repeats(runs)
    found = _named(sets, names)
    return Comparison(tuple(found), tuple(levels) or _telling_levels(runs))


def claim_of(setting: Setting) -> str:
    """What certified accuracy means for a setting, in the words of its certificate."""
    guarantee = setting.guarantee
    title, caption = guarantee.title, guarantee.caption
    if EXCEPT in guarantee.meaning:  # once is enough
        caption = caption.partition(f", {EXCEPT}")[0]
    return f"{title[:1].upper()}{title[1:]}. CA@m is {caption[:1].lower()}{caption[1:]}. {guarantee.meaning}"


def _repeats(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs by setting. One with the seeds of another, too, is no independent repeat and gets a row of its own."""
    found: dict[tuple[str, int], list[Run]] = {}
    copies: dict[str, int] = {}
    for run in runs:
        settings, seeds = run.config.split_seeds()
        setting = digest_json([settings, run.manifest.data.digest])
        copy = digest_json([setting, seeds])
        copies[copy] = copies.get(copy, 0) + 1
        found.setdefault((setting, copies[copy]), []).append(run)
    return list(found.values())


def _named(sets: Sequence[Sequence[Run]], names: Sequence[str]) -> list[Setting]:
    if names and (len(names) != len(sets) or len(set(names)) < len(names)):
        raise InputError(f"--names must be {len(sets)} different names, one for each setting, got {', '.join(names)}")
    settings: list[dict[str, Any]] = [runs[0].config.split_seeds()[0] for runs in sets]
    places = [runs[0].path.name for runs in sets]
    if len(set(places)) < len(places):
        places = [str(runs[0].path) for runs in sets]
    chosen = names or names_of(settings, places)
    return [Setting(name, tuple(runs)) for name, runs in zip(chosen, sets, strict=True)]


def _telling_levels(runs: Sequence[Run]) -> tuple[int, ...]:
    length = max(len(run.curve) for run in runs)
    levels = chosen_levels(np.max([[run.at(m) for m in range(length)] for run in runs], axis=0))
    return tuple(levels if len(levels) <= MOST_LEVELS else [0, *levels[-MOST_LEVELS:-1]])


def _about_runs(comparison: Comparison) -> list[str]:
    remarks = []
    if len(comparison.test_sets) > 1:
        remarks.append(
            f"These runs have {len(comparison.test_sets)} different test sets, "
            f"{', '.join(comparison.test_sets.values())}: compare only rows with the same letter."
        )
    if len(comparison.claims) > 1:
        remarks.append(
            f"These certificates make {len(comparison.claims)} different claims: a higher figure under one is not a "
            "better proof than a lower one under another."
        )
    if sum(run.manifest.guarantee.probabilistic for run in comparison.runs) > 1:
        remarks.append(
            "Each probabilistic certificate holds by itself, except with its own probability; for all of them together "
            "these probabilities add up."
        )
    clients = sorted({run.manifest.data.clients for run in comparison.runs})
    if len(clients) > 1:
        remarks.append(f"m counts clients, and these runs have from {clients[0]:,} to {clients[-1]:,} of them.")
    if excluded := sum(len(run.manifest.data.excluded) > 0 for run in comparison.runs):
        remarks.append(
            f"{excluded:,} of the runs left out clients whose files were unusable; they count towards the m malicious "
            "clients of those runs."
        )
    if len(comparison.differing) > MOST_VALUES:
        remarks.append(f"The settings differ in {len(comparison.differing)} keys.")
    return remarks


def _about_repeats(comparison: Comparison) -> list[str]:
    numbers = [len(setting.runs) for setting in comparison.settings]
    if numbers == [1]:
        return []  # there is no difference to judge
    if max(numbers) == 1:
        return ["With one run for each setting, a difference may be noise of the seeds; repeats would tell."]
    remarks = [
        "± is the standard deviation over seeds, on the same data; it does not tell what another test set would show."
    ]
    if comparison.differences:
        remarks.append(
            "* has the best mean of its column; ~ differs from it within the noise of seeds: Welch's 95 % interval for "
            "the difference of the two means contains 0. Each mark is about one pair by itself."
        )
    if min(numbers) < LEAST_REPEATS:
        remarks.append(f"Fewer than {LEAST_REPEATS} repeats are too few to tell: such rows are not marked.")
    return remarks


def _letters(alphabet: str, number: int) -> list[str]:
    """As many letters, with a number behind them where they do not suffice."""
    size = len(alphabet)
    return [f"{alphabet[at % size]}{at // size or ''}" for at in range(number)]
