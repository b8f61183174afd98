"""Exact unlearning: train again the groups that held a client, and nothing else."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flcert.config import Config
from flcert.engines import Engine
from flcert.errors import InputError
from flcert.pipeline import RunResult, checked, run
from flcert.rundir import RunDirectory
from flcert.store import Store
from flcert.training import Progress
from flcert.training.fill import silent
from flcert.training.train import keys_of_groups

FORGETFUL = ("hashed", "spread")  # groups that stay as they are when a client leaves


@dataclass(frozen=True)
class Forgotten:
    """What forgetting came to.

    Args:
        result: the run without the clients, in the same directory.
        groups: how many groups had held them.
        deleted: files of models and votes that were removed from the store.
    """

    result: RunResult
    groups: int
    deleted: int


def forget(
    path: Path,
    clients: Sequence[str],
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> Forgotten:
    """Make a run what it would have been without some clients, byte for byte.

    The new run is made beside the old one and takes its place when it is complete. What this run put into the store of
    groups that had learnt from the clients is deleted, under its attack too. Models of other runs with the same clients
    stay: forget the clients in each.

    Args:
        path: the run directory.
        clients: ids of the clients to forget.
        engine: where groups train; by default processes, one for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    beside, set_aside = path.with_name(f".{path.name}.forgetting"), path.with_name(f".{path.name}.forgotten")
    if set_aside.exists() and not path.exists():  # killed while the new run was taking its place
        set_aside.rename(path)
    before, store = RunDirectory.open(path).config(), store or Store()
    if before.grouping.kind not in FORGETFUL:
        raise InputError(
            f"groups of kind {before.grouping.kind!r} cannot forget: with another number of clients all of them would "
            f"be others; use {' or '.join(FORGETFUL)}"
        )
    after = before.model_copy(update={"forget": tuple(sorted({*before.forget, *clients}))})
    old, new = _keys(before), _keys(after)
    if (beside / "config.json").exists() and RunDirectory.prepared(beside).config() != after:
        shutil.rmtree(beside)  # of other clients, whose forgetting was stopped
    result = run(after, beside, engine=engine, store=store, progress=progress)
    gone = {key for keys in old for key in keys} - {key for keys in new for key in keys}
    deleted = sum(store.delete(key) for key in gone)  # before the next line: after it nobody would know the keys
    _take_place(beside, path, set_aside)
    held = sum(keys != kept for keys, kept in zip(old, new, strict=True))
    moved = RunResult(path, result.summary, result.guarantee, result.certificate, result.ensemble, result.attacked)
    return Forgotten(moved, held, deleted)


def _keys(config: Config) -> list[set[str]]:
    """For each group the keys of all that the store may hold of it: models, and their votes."""
    federation, grouping, plan = checked(config)
    return keys_of_groups(federation, grouping, config.recipe, plan)


def _take_place(new: Path, path: Path, set_aside: Path) -> None:
    """Put a finished directory where another one is, which is deleted."""
    shutil.rmtree(set_aside, ignore_errors=True)
    path.rename(set_aside)
    new.rename(path)
    shutil.rmtree(set_aside, ignore_errors=True)
