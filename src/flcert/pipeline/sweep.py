"""A sweep: every combination of some varied settings as a run of its own, checked before anything trains, compared."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from pathlib import Path

from flcert.core.digest import digest, digest_json
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Engine, Processes, Workers
from flcert.errors import FlcertError, InputError, check_range
from flcert.pipeline.run import ReadyRun, RunResult, federation_of, make_ready, run_ready
from flcert.report.compare import Comparison, compare
from flcert.report.compare_names import flat, short_keys
from flcert.runs.config import Config
from flcert.training import Context, Progress
from flcert.training.context import silent

MOST_REPEATS = 1000

Load = Callable[[Sequence[str]], Config]
"""Makes a configuration from changes of the form ``key=value``."""

_LONGEST = 120  # characters of a directory's name
_OPEN, _CLOSE, _QUOTES = "[{(", "]})", "\"'"


@dataclass(frozen=True)
class Variation:
    """A setting and the values that it takes in turn.

    Args:
        key: its dotted name.
        values: the values as text, as after ``--set key=``.
    """

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Combination:
    """One run of a sweep.

    Args:
        name: what it varies; also the name of its directory.
        config: its whole configuration.
    """

    name: str
    config: Config


@dataclass
class Swept:
    """What a sweep did.

    Args:
        directory: where everything was written.
        finished: the results of the runs that are done, by name.
        failed: why the others are not, by name.
        comparison: the finished runs side by side; None if there are none.
        files: what was written about the comparison.
    """

    directory: Path
    finished: dict[str, RunResult] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    comparison: Comparison | None = None
    files: dict[str, Path] = field(default_factory=dict)

    def groups(self) -> dict[str, int]:
        """How many groups were trained, and how many came from the store."""
        ensembles = [result.ensemble for result in self.finished.values()]
        return {"trained": sum(one.trained for one in ensembles), "reused": sum(one.reused for one in ensembles)}


def variation(text: str) -> Variation:
    """Parse ``key=value,value,...``; a comma inside brackets or quotes separates nothing.

    >>> variation("recipe.model.options.hidden=[64],[64, 32]")
    Variation(key='recipe.model.options.hidden', values=('[64]', '[64, 32]'))
    """
    key, separator, values = text.partition("=")
    if not separator or not key.strip():
        raise InputError(f"what to vary must look like key=value,value, got {text!r}")
    found = tuple(_split(values))
    if not all(found):
        raise InputError(f"{key.strip()} needs a value on either side of each comma, got {values!r}")
    for number, value in enumerate(found):
        if value in found[:number]:
            raise InputError(f"{key.strip()} has the value {value} twice")
    return Variation(key.strip(), found)


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are in no bracket and no quotes."""
    depth, quote, part = 0, "", ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        depth += 0 if quote else (sign in _OPEN) - (sign in _CLOSE)
        if sign == "," and not quote and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += sign
    if quote or depth:
        raise InputError(f"brackets and quotes must be closed, got {text!r}")
    yield part.strip()


def combined(load: Load, varied: Sequence[Variation], repeats: int = 1) -> list[Combination]:
    """All combinations of the varied settings, each with so many pairs of seeds; the first has the setting's own.

    Args:
        load: makes a configuration from changes of the form ``key=value``.
        varied: what to vary.
        repeats: how many runs with different seeds each combination gets.
    """
    check_range("repeats", repeats, 1, MOST_REPEATS)
    _check_varied(varied, repeats)
    short = short_keys(one.key for one in varied)
    found: dict[str, Combination] = {}
    for values in product(*(one.values for one in varied)):
        chosen = {one.key: value for one, value in zip(varied, values, strict=True)}
        name = ",".join(f"{short[key]}={value.strip(_QUOTES)}" for key, value in chosen.items()) or "setting"
        config = _loaded(load, name, chosen)
        for number in range(repeats):
            one = Combination(f"{name},repeat={number + 1}" if number else name, config.reseeded(number))
            _refuse_the_same(found, one)
            found[one.config.digest()] = one
    return list(found.values())


def _check_varied(varied: Sequence[Variation], repeats: int) -> None:
    if not varied and repeats == 1:
        raise InputError("a sweep varies something: give --vary key=value,value or --repeats")
    keys = [one.key for one in varied]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key} is varied twice; put all values into one --vary")
    if "recipe.seed" in keys and repeats > 1:
        raise InputError("repeats have seeds of their own; leave out recipe.seed or --repeats")


def _loaded(load: Load, name: str, chosen: Mapping[str, str]) -> Config:
    """The configuration with these values; an error names the combination."""
    try:
        return load([f"{key}={value}" for key, value in chosen.items()])
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _refuse_the_same(found: dict[str, Combination], one: Combination) -> None:
    other = found.get(one.config.digest())
    if other is not None:
        raise InputError(f"{other.name} and {one.name} are the same configuration; leave one out")


def default_directory(combinations: Sequence[Combination], varied: Sequence[Variation]) -> Path:
    """``runs/sweep-<digest>`` of what all have in common and of the varied keys: more values change nothing in it."""
    tables = [flat(one.config.split_seeds()[0]) for one in combinations]
    keys = sorted(one.key for one in varied)
    common = {
        name: value
        for name, value in tables[0].items()
        if all(name in table and table[name] == value for table in tables)
        and not any(f"{name}.".startswith(f"{key}.") for key in keys)
    }
    return Path("runs") / f"sweep-{digest_json([common, keys], size=5)}"


def sweep(
    combinations: Sequence[Combination],
    directory: Path,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
    announce: Callable[[str], None] = lambda _: None,
) -> Swept:
    """Check all combinations, run each in a directory of its own, and compare them.

    Nothing trains before all of them are found to be possible. One that fails later does not stop the others. Whatever
    is in the store is not trained again, so the same call resumes a sweep that was stopped.

    Args:
        combinations: what to run.
        directory: where the runs and their comparison are written.
        engine: where groups train; by default one process for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
        announce: called with a description of each run before it begins.
    """
    from flcert.report.compare_page import write_comparison  # Matplotlib loads slowly

    if (directory / "config.json").exists():
        raise InputError(f"{directory} holds a run; choose another --out")
    store = store or Store()
    store.check_usable()
    data = _Data()
    kinds = list(dict.fromkeys(_data_of(one) for one in combinations))
    ordered = sorted(combinations, key=lambda one: kinds.index(_data_of(one)))  # those with the same data in a row
    ready = {one.name: _ready(one, data, store, directory) for one in ordered}
    for run in ready.values():  # not before all were checked: a sweep that is refused leaves nothing behind
        run.claim()
    swept = Swept(directory)
    for _, batch in groupby(ordered, key=_data_of):
        first, *others = batch
        with Workers(engine or Processes(), data.of(first)) as workers:
            for one in (first, *others):
                announce(f"{len(swept.finished) + len(swept.failed) + 1} of {len(ready)}: {one.name}")
                _run(swept, one.name, ready[one.name], Context(workers, store, progress))
    finished = [ready[one.name].directory.path for one in combinations if one.name in swept.finished]
    if finished:
        swept.comparison = compare(finished)
        swept.files = write_comparison(swept.comparison, directory)
    return swept


def _data_of(one: Combination) -> str:
    """Combinations with the same value have the same data."""
    pilot = one.config.pilot.model_dump(mode="json") if one.config.pilot else None
    return digest_json([one.config.data.model_dump(mode="json"), one.config.forget, pilot])


class _Data:
    """Loads the data of combinations, the same data once in a row."""

    def __init__(self) -> None:
        self._kept: tuple[str, Federation] | None = None

    def of(self, one: Combination) -> Federation:
        """The data of a combination."""
        if self._kept is None or self._kept[0] != _data_of(one):
            self._kept = None  # two need not be in memory at once
            self._kept = _data_of(one), federation_of(one.config)
        return self._kept[1]


def _ready(one: Combination, data: _Data, store: Store, directory: Path) -> ReadyRun:
    try:
        return make_ready(one.config, data.of(one), store, directory / directory_name(one.name))
    except InputError as error:
        raise InputError(f"{one.name}: {error}") from None


def directory_name(name: str) -> str:
    """A name that any file system takes; a digest tells apart what it cannot.

    >>> directory_name("num_groups=20,aggregator=median"), directory_name("data=my.module:load")
    ('num_groups=20,aggregator=median', 'data=my.module-load-7c6511dd')
    """
    plain = re.sub(r"[^\w.,=+-]", "-", name)
    return name if plain == name and len(name) <= _LONGEST else f"{plain[:_LONGEST]}-{digest(name, 4)}"


def _run(swept: Swept, name: str, ready: ReadyRun, context: Context) -> None:
    """Do one run; whatever goes wrong with it is recorded, and the others go on."""
    try:
        swept.finished[name] = run_ready(context, ready)
    except FlcertError as error:
        swept.failed[name] = str(error)
    except Exception as error:  # a user's code may raise anything
        swept.failed[name] = f"unexpected {type(error).__name__}: {error}"
