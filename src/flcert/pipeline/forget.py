"""Exact unlearning: retrain the groups that held a client, and nothing else."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flcert import attacks
from flcert.core.files import alone_beside
from flcert.core.leftovers import remove_leftovers
from flcert.core.store import Store
from flcert.engines import Engine
from flcert.engines.scratch import remove_scratch
from flcert.errors import InputError
from flcert.grouping import KINDS
from flcert.pipeline.run import RunResult, checked, everybody_of, federation_of, run
from flcert.pipeline.unchanged import public_for
from flcert.runs.config import Config
from flcert.runs.directory import RunDirectory
from flcert.training import Progress
from flcert.training.compression import DTYPES
from flcert.training.context import silent
from flcert.training.keys import client_origins, compressed_entry, votes_entry
from flcert.training.train import group_entries


@dataclass(frozen=True)
class Forgotten:
    """The result of forgetting clients.

    Args:
        result: the run without the clients, in the same directory.
        groups: how many groups had held them.
        deleted: how many store entries were deleted because they were made from the clients' data.
        unknown: how many store entries remain that do not say what they were made from (from older versions of flcert).
        unfinished: how many temporary files remain in the store, of commands that run or may run on another machine.
        other_data: how many store entries remain that were made from other data of clients with the same ids: older
            data of these clients, or data of other federations whose clients are called so too.
    """

    result: RunResult
    groups: int
    deleted: int
    unknown: int
    unfinished: int = 0
    other_data: int = 0


def forget(
    path: Path,
    clients: Sequence[str],
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> Forgotten:
    """Turn a run into what it would have been without some clients' data, byte for byte; everybody keeps their group.

    The new run is made beside the old one and replaces it when it is complete. Everything in the store that was
    made from the clients' data, as they are now, is deleted, whichever run made it. What was made from other data
    of clients with the same ids is counted and stays: other federations may have clients of these names. Other runs
    with the same clients are not changed: forget the clients in each of them. Of several calls at once on runs in one
    directory, each waits for the one before.

    Args:
        path: the run directory.
        clients: ids of the clients to forget.
        engine: where groups train; by default one process for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    with alone_beside(path):
        return _forget(path, clients, engine, store or Store(), progress)


def _forget(path: Path, clients: Sequence[str], engine: Engine | None, store: Store, progress: Progress) -> Forgotten:
    beside, set_aside = path.with_name(f".{path.name}.forgetting"), path.with_name(f".{path.name}.forgotten")
    if set_aside.exists() and not path.exists():  # killed while the new run was taking its place
        set_aside.rename(path)
    directory = RunDirectory.open(path)
    before = directory.config()
    if not before.grouping.can_forget:
        able = [name for name, kind in KINDS.items() if kind.can_forget]
        raise InputError(
            f"groups of kind {before.grouping.kind!r} cannot forget: with another number of clients all of them would "
            f"be others; use {' or '.join(able)}"
        )
    after = before.model_copy(update={"forget": tuple(sorted({*before.forget, *clients}))})
    federation = federation_of(before)
    if federation.subject.digest != directory.manifest().data.digest:
        raise InputError(f"the data {before.data.name!r} are not those that {path} was trained on")
    public_for(directory, before, federation)
    grouping = before.grouping.groups_of(federation.ids, federation.forgotten)
    held = [members for members in grouping.members if {federation.ids[client] for client in members} & set(clients)]
    everybody = everybody_of(before)
    origins = client_origins(everybody, (at for at, user in enumerate(everybody.ids) if user in clients))
    if beside.exists() and not RunDirectory(beside).holds(after):
        shutil.rmtree(beside)  # left by an attempt to forget other clients that was interrupted
    result = run(after, beside, engine=engine, store=store, progress=progress)
    deleted = store.forget(origins)
    if store.of_unknown_origin():
        deleted += sum(store.delete(key) for key in _keys_of_version_1(before) - _keys_of_version_1(after))
    _remove_temporaries(beside, store)
    _take_place(beside, path, set_aside)
    result = replace(result, directory=path)
    return Forgotten(
        result, len(held), deleted, store.of_unknown_origin(), store.unfinished(), store.of_clients(set(clients))
    )


def _remove_temporaries(directory: Path, store: Store) -> None:
    """Delete what killed commands left half-written in the store and in a run directory, and their copies of data."""
    store.remove_leftovers()
    remove_scratch()
    for place in (directory, *directory.glob("**/")):
        remove_leftovers(place)


def _keys_of_version_1(config: Config) -> set[str]:
    """The keys of all that version 0.1.0, which did not record what entries were made from, could store of a run."""
    federation, grouping, attack = checked(config)
    digest, smoothing = federation.test_digest(), config.recipe.smoothing
    stamps = [None, getattr(attacks.build(attack.choice), "trigger", None) if attack else None]
    keys: set[str] = set()
    for plan in (None, attack):
        for owned in group_entries(federation, grouping, config.recipe, plan):
            for entry in (owned or {}).values():
                models = {entry.key, *(compressed_entry(entry.key, dtype).key for dtype in DTYPES)}
                votes = {votes_entry(key, digest, smoothing, stamp).key for key in models for stamp in stamps}
                keys |= models | votes | {votes_entry(key, digest, what="ranks").key for key in models}
    return keys


def _take_place(new: Path, path: Path, set_aside: Path) -> None:
    """Replace a directory with a finished one, and delete the old one."""
    shutil.rmtree(set_aside, ignore_errors=True)
    path.rename(set_aside)
    new.rename(path)
    shutil.rmtree(set_aside, ignore_errors=True)
