"""The models of a finished run, read from its own directory."""

from flcert.core.store import Arrays
from flcert.errors import IntegrityError
from flcert.runs.directory import RunDirectory
from flcert.training import Ensemble
from flcert.training.compression import expanded
from flcert.training.keys import recipe_sources


def open_ensemble(run_directory: RunDirectory) -> Ensemble:
    """The ensemble of a finished run."""
    config, manifest = run_directory.config(), run_directory.manifest()
    if manifest.sources != recipe_sources(config.recipe):
        raise IntegrityError(
            f"the module of model {config.recipe.model.name!r} is not as it was when this run was trained"
        )
    data, rounds = manifest.data, config.recipe.rounds
    group_of = {facts.model: group for group, facts in enumerate(manifest.groups) if facts.model}

    def load(key: str) -> Arrays:
        arrays = run_directory.load_model(group_of[key], key)
        return expanded(arrays) if config.compression else arrays

    return Ensemble(
        grouping=run_directory.grouping(),
        recipe=config.recipe,
        input_shape=data.input_shape,
        input_dtype=data.input_dtype,
        num_labels=data.labels,
        keys=tuple({rounds: facts.model} if facts.model else None for facts in manifest.groups),
        load=load,
        public=run_directory.public(),
        trusted=run_directory.trusted(),
        failures={group: facts.failure for group, facts in enumerate(manifest.groups) if facts.failure},
        diverged=frozenset(group for group, facts in enumerate(manifest.groups) if not facts.finite),
        kernels=manifest.kernels,
    )
