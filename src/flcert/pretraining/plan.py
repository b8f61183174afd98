"""What a public model is trained on, and how: everything that decides its weights, before any training."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from flcert.core.digest import digest_arrays
from flcert.core.plugins import choice_sources
from flcert.core.seeding import derive, stream
from flcert.core.settings import Choice
from flcert.datasets import DATASETS, Federation
from flcert.datasets.fetch import Report
from flcert.datasets.sources import get, read_files
from flcert.errors import InputError, IntegrityError, RunError
from flcert.pretraining.changes import Changes, varied
from flcert.pretraining.digits import ADDITIONS, Addition, Drawn, scikit_learn
from flcert.pretraining.fit import Batch, Fit
from flcert.pretraining.ink import SIDE, Ink, joined
from flcert.public import Card, SourceFacts
from flcert.public.names import full_name
from flcert.training.device import tensor

HELD_OUT = 0.1  # the share of each public source that is kept apart


@dataclass(frozen=True)
class Plan:
    """A public model before its training.

    Args:
        card: its card, without an accuracy.
        settings: how to train.
        batch: makes the batch of a step from the number of the step alone.
        inputs: what it is trained on, before any variation.
        held_out: inputs and labels of its own sources that were kept apart.
    """

    card: Card
    settings: Fit
    batch: Callable[[int], Batch]
    inputs: NDArray[np.generic]
    held_out: tuple[NDArray[np.generic], NDArray[np.int64]]


def of_digits(additions: Sequence[str], model: Choice, settings: Fit, data_dir: Path | None, report: Report) -> Plan:
    """The plan of a model of the catalogue; the files of additions that are missing are downloaded.

    Args:
        additions: names from ``ADDITIONS``.
        model: the network.
        settings: how to train.
        data_dir: where downloaded files are kept; by default as for ``flcert data get``.
        report: called while something is downloaded.
    """
    changes = Changes()
    drawn, files = _drawn(additions, data_dir, report)
    parts = [_split(one, settings.seed) for one in drawn]
    held = joined(kept_apart for _, kept_apart in parts)
    trained = [used for used, _ in parts]
    card = Card(
        name=full_name(additions),
        model=model,
        input_shape=(SIDE, SIDE),
        num_labels=10,
        sources=tuple(_facts(one, files) for one in drawn),
        training={**_training(model, settings), "changes": changes.model_dump(mode="json")},
        held_out=len(held),
        versions=_versions(),
    )
    batch = _equal_shares(trained, settings, changes)
    return Plan(card, settings, batch, joined(trained).pictures(), (held.pictures(), held.labels))


def of_data(data: Choice, federation: Federation, model: Choice, settings: Fit) -> Plan:
    """The plan of a model of a user's own public data: all clients' examples are pooled, its test set is held out.

    Args:
        data: the data set, as in ``Config.data``.
        federation: what it gave.
        model: the network.
        settings: how to train.
    """
    known = DATASETS.get(data.name)
    facts = SourceFacts(
        name=federation.name,
        title="all examples of all clients, which the user declared public",
        licence=(known.licence if known else "") or "the user's own",
        examples=len(federation.labels) + len(federation.test_labels),
        digest=federation.digest(),
    )
    card = Card(
        name=federation.name,
        model=model,
        input_shape=federation.input_shape,
        num_labels=federation.num_labels,
        sources=(facts,),
        training={**_training(model, settings), "data": data.model_dump(mode="json")},
        held_out=len(federation.test_labels),
        versions=_versions(),
    )
    inputs, labels = tensor(federation.inputs), tensor(federation.labels)

    def batch(step: int) -> Batch:
        rows = tensor(stream(settings.seed, "public batch", step).integers(0, len(labels), settings.batch_size))
        return inputs[rows], labels[rows]

    return Plan(card, settings, batch, federation.inputs, (federation.test_inputs, federation.test_labels))


def _drawn(additions: Sequence[str], data_dir: Path | None, report: Report) -> tuple[list[Drawn], dict[str, bytes]]:
    """The digits of all sources, and the contents of their files."""
    chosen = [ADDITIONS[name] for name in additions]
    contents = [_files(addition, data_dir, report) for addition in chosen]
    replaced = {name for addition in chosen for name in addition.replaces}
    drawn = [] if "scikit-learn" in replaced else [scikit_learn()]
    for addition, files in zip(chosen, contents, strict=True):
        drawn += addition.draw(files)
    return drawn, {name: content for files in contents for name, content in files.items()}


def _files(addition: Addition, data_dir: Path | None, report: Report) -> dict[str, bytes]:
    """The checked files of an addition, downloaded if they are missing."""
    name = addition.source.name
    try:
        get(addition.source, data_dir, report=report)
        return read_files(addition.source, data_dir)[0]
    except (RunError, IntegrityError) as error:
        reason = next(iter(str(error).splitlines()[1:]), str(error)).strip(" ;")
        raise InputError(
            f"public source {name!r} could not be downloaded ({reason}); leave it out, "
            f"or put its files in place with: flcert data get {name} --from DIRECTORY"
        ) from None


def _split(drawn: Drawn, seed: int) -> tuple[Ink, Ink]:
    """The part to train on, and the part that is kept apart."""
    bundles = len(drawn.ink) // drawn.together
    order = stream(seed, "held out", drawn.name).permutation(bundles)
    apart = np.isin(np.arange(len(drawn.ink)) // drawn.together, order[: max(1, round(bundles * HELD_OUT))])
    return drawn.ink[np.flatnonzero(~apart)], drawn.ink[np.flatnonzero(apart)]


def _facts(drawn: Drawn, files: dict[str, bytes]) -> SourceFacts:
    return SourceFacts(
        name=drawn.name,
        title=drawn.title,
        licence=drawn.licence,
        examples=len(drawn.ink),
        digest=digest_arrays(drawn.ink.distances, drawn.ink.widths, drawn.ink.labels),
        files={name: hashlib.sha256(files[name]).hexdigest() for name in drawn.files},
    )


def _training(model: Choice, settings: Fit) -> dict[str, object]:
    """How a model is trained, for its card; with a digest of the code, if the network is a user's own."""
    code = choice_sources(model)
    return {**settings.model_dump(mode="json"), **({"code": code} if code else {})}


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("flcert", "numpy", "pillow", "scikit-learn", "scipy", "torch")}


def _equal_shares(inks: list[Ink], settings: Fit, changes: Changes) -> Callable[[int], Batch]:
    """Batches with the same number of examples from each source, varied."""
    tensors = [(tensor(one.distances), tensor(one.widths), tensor(one.labels)) for one in inks]
    sizes = [len(part) for part in np.array_split(np.arange(settings.batch_size), len(inks))]

    def batch(step: int) -> Batch:
        chosen = stream(settings.seed, "public batch", step)
        rows = [tensor(chosen.integers(0, len(one), size)) for one, size in zip(inks, sizes, strict=True)]
        picked = [[values[some] for values in parts] for parts, some in zip(tensors, rows, strict=True)]
        distances, widths, labels = (torch.cat(values) for values in zip(*picked, strict=True))
        generator = torch.Generator().manual_seed(derive(settings.seed, "public changes", step))
        return varied(changes, distances, widths, generator), labels

    return batch
