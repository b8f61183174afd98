"""Make a run with smaller models from an existing run."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from flcert.core.store import Store
from flcert.engines import Engine, Processes, Workers
from flcert.errors import InputError
from flcert.pipeline.results import TrainedRun
from flcert.pipeline.run import RunResult, certify_models, federation_of
from flcert.pipeline.unchanged import check_unchanged
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.training import Context, Progress
from flcert.training.compression import Dtype
from flcert.training.context import silent
from flcert.training.keys import client_origins
from flcert.training.train import compressed_ensemble


@dataclass(frozen=True)
class Compressed:
    """The result of compressing a run.

    Args:
        result: the new run.
        before: total bytes of the old run's models.
        after: total bytes of the new run's models.
    """

    result: RunResult
    before: int
    after: int


def compress(
    path: Path,
    dtype: Dtype,
    target: Path,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> Compressed:
    """Write a new run with the compressed models of another run, their own votes and their own certificate.

    Nothing is trained. The new run has no simulated attack and no earlier rounds: the old run has no models of those.

    Args:
        path: the run directory.
        dtype: the type of the compressed numbers.
        target: the directory of the new run.
        engine: where models vote; by default one process for each core.
        store: where models and votes are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    old, store = RunDirectory.open(path), store or Store()
    before = old.config()
    if before.compression:
        raise InputError(f"the models of {path} are compressed already, to {before.compression}")
    recipe = before.recipe.model_copy(update={"evaluate_at": ()})
    config = before.model_copy(update={"compression": dtype, "recipe": recipe, "attack": None})
    federation = federation_of(config)
    if federation.subject.digest != old.manifest().data.digest:
        raise InputError(f"the data {config.data.name!r} are not those that {path} was trained on")
    new = RunDirectory.claim(target, config)
    grouping = old.grouping(federation.ids)  # as it was trained, whatever a user's own grouping would make now
    opened = open_ensemble(old)
    check_unchanged(new, config, opened.public, opened.trusted)
    origins = {key: client_origins(federation, grouping.members[group]) for group, key in opened.model_keys().items()}
    there = replace(opened, grouping=grouping, origins=origins)
    ensemble = compressed_ensemble(there, dtype, store)
    with Workers(engine or Processes(), federation) as workers:
        facts = old.manifest().public
        trained = TrainedRun(new, config, federation.subject, ensemble, facts.overlap if facts else None)
        result = certify_models(Context(workers, store, progress), trained)
    groups = result.ensemble.model_keys()  # without those whose compressed model cannot vote
    return Compressed(result, _size(old, groups), _size(new, groups))


def _size(directory: RunDirectory, groups: Iterable[int]) -> int:
    return sum(directory.model(group).stat().st_size for group in groups)
