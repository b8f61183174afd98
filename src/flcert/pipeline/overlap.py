"""Whether a public model has seen the inputs that it is used with: counted, recorded, and refused above a threshold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flcert.core.digest import digest_arrays, digest_json
from flcert.core.store import Entry, Store
from flcert.datasets import Federation
from flcert.errors import InputError, IntegrityError
from flcert.public import PublicModel, find
from flcert.public.overlap import ALLOWED, OVERLAP_VERSION, Overlap, overlap
from flcert.runs.config import Config
from flcert.runs.records import OverlapFacts
from flcert.training.keys import client_origins
from flcert.training.trusted import INITIAL, ROOT


def checked_overlap(config: Config, federation: Federation, store: Store) -> OverlapFacts | None:
    """Count near-duplicates between what a public model was trained on and the test set or the clients' examples.

    Args:
        config: the configuration, which may allow an overlap.
        federation: the data.
        store: where the counts are kept.

    Returns:
        The counts, the largest of all public models that are used; None if there are none.
    """
    found = [_of_federation(find(name), federation, store, allow=config.public.allow_overlap) for name in used(config)]
    return worst(found)


def used(config: Config) -> list[str]:
    """The public models that a configuration names: to start from, for features, and to vote."""
    features, trusted = config.recipe.features, config.voting.trusted
    named = [config.recipe.initial, features.weights if features else None, trusted.model if trusted else None]
    return list(dict.fromkeys(name for name in named if name and name not in (INITIAL, ROOT)))


def _of_federation(model: PublicModel, federation: Federation, store: Store, *, allow: bool) -> OverlapFacts:
    test = _counted(model, federation.test_inputs, store, ())
    owners = client_origins(federation, range(federation.num_clients))
    clients = _counted(model, federation.inputs, store, owners)
    if not allow:
        _refuse_too_much(model, test, "test inputs", "public.allow_overlap=true")
        _refuse_too_much(model, clients, "inputs of clients", "public.allow_overlap=true")
    return OverlapFacts(test_inputs=_facts(test), clients=_facts(clients))


def worst(found: Sequence[OverlapFacts]) -> OverlapFacts | None:
    """The largest counts of several models; unknown if one of them could not be checked. None without any model."""
    unknown = [one for one in found if one.test_inputs[1] is None or (one.clients and one.clients[1] is None)]
    return unknown[0] if unknown else max(found, key=lambda one: (one.test_inputs[1], one.clients or ()), default=None)


def checked_test_overlap(model: PublicModel, inputs: NDArray[np.generic], *, allow_overlap: bool) -> OverlapFacts:
    """Do the same for the test inputs alone, where the clients' examples are not known.

    Args:
        model: the public model.
        inputs: the test inputs.
        allow_overlap: whether an overlap is allowed.
    """
    found = overlap(model, inputs)
    if not allow_overlap:
        _refuse_too_much(model, found, "test inputs", "allow_overlap=True")
    return OverlapFacts(test_inputs=_facts(found))


def _refuse_too_much(model: PublicModel, found: Overlap, whose: str, setting: str) -> None:
    if found.too_much:
        raise InputError(
            f"public model {model.name!r} was trained on {found.matches:,} of the {found.examined:,} {whose} or on "
            f"near-duplicates, more than {ALLOWED:.0%}; use another, or set {setting}"
        )


def _counted(model: PublicModel, inputs: NDArray[np.generic], store: Store, owners: tuple[str, ...]) -> Overlap:
    """The overlap, from the store if it was counted before."""
    if model.fingerprints is None:
        return overlap(model, inputs)
    key = digest_json(["overlap", OVERLAP_VERSION, digest_arrays(model.fingerprints), digest_arrays(inputs)])
    try:
        stored = store.read(key)
    except IntegrityError:
        stored = None
    if stored is None:
        found = overlap(model, inputs)
        matches = -1 if found.matches is None else found.matches
        store.write(Entry(key, owners), {"counts": np.array([found.examined, matches])})
        return found
    examined, matches = stored["counts"].tolist()
    return Overlap(examined, None if matches < 0 else matches)


def _facts(found: Overlap) -> tuple[int, int | None]:
    return found.examined, found.matches
