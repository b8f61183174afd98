"""Files of public models: safetensors with the weights and, for those that ``flcert pretrain`` made, a card."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from flcert.core.digest import digest_arrays, digest_named
from flcert.core.files import write_atomic
from flcert.core.settings import complaint
from flcert.core.store import Arrays, default_directory
from flcert.errors import InputError, IntegrityError
from flcert.public.card import Card

SUFFIX = ".safetensors"
"""How the name of a model's file ends."""

FINGERPRINTS = "fingerprints"  # the array of thumbnails of a model's own training inputs, kept beside its weights


@dataclass(frozen=True)
class PublicModel:
    """Weights that no client can influence.

    Args:
        name: what to call it: the name in the catalogue, or that of the file.
        arrays: the weights, by their names in the network's state.
        card: where they come from; None for a file without a card.
        fingerprints: small pictures of the inputs that it was trained on, to recognise them in other data.
    """

    name: str
    arrays: Arrays
    card: Card | None = None
    fingerprints: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None = None

    @property
    def digest(self) -> str:
        """A digest of the weights and their names."""
        return digest_named(self.arrays)


def public_directory() -> Path:
    """Where ``flcert pretrain`` keeps the models of the catalogue."""
    return default_directory() / "public"


def find(name: str) -> PublicModel:
    """The public model of this name in the catalogue, or in the file at this path.

    Raises:
        InputError: there is none; the message says how to get it.
        IntegrityError: the file was altered or cut short.
    """
    if name.endswith(SUFFIX):
        return read(Path(name))
    path = public_directory() / f"{name}{SUFFIX}"
    if not path.is_file():
        raise InputError(f"public model {name!r} is not there yet; run: flcert pretrain {name}")
    return read(path)


def write(path: Path, model: PublicModel) -> None:
    """Write a model with its card."""
    card = model.card.model_dump(mode="json") if model.card else None
    beside = {} if model.fingerprints is None else {FINGERPRINTS: model.fingerprints}
    told = {"digest": model.digest, "card": card, "seal": _seal(card, model.fingerprints)}
    header = json.dumps(told)  # one entry: safetensors does not keep an order
    write_atomic(path, save({**model.arrays, **beside}, {"flcert": header}))


def read(path: Path) -> PublicModel:
    """Read a model; a file of others has weights only.

    Raises:
        InputError: it cannot be read, or its weights are not finite numbers.
        IntegrityError: the weights are not those that its header names.
    """
    if not path.is_file():
        raise InputError(f"there is no public model at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
            header = json.loads((file.metadata() or {}).get("flcert", "{}"))
        card = Card.model_validate(header["card"]) if header.get("card") else None
    except ValidationError as failure:
        raise complaint(failure, f"the card of {path}") from None
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is not a safetensors file that can be read: {error}") from None
    model = PublicModel(path.stem, arrays, card, arrays.pop(FINGERPRINTS, None))
    if header.get("digest", model.digest) != model.digest:
        raise IntegrityError(f"{path} was altered: its weights are not those that its header names")
    if "seal" in header and header["seal"] != _seal(header["card"], model.fingerprints):
        raise IntegrityError(f"{path} was altered: its card or its fingerprints are not those that were written")
    for name, values in arrays.items():
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise InputError(f"{path} must hold finite weights, got NaN or infinity in {name!r}")
    return model


def _seal(card: Any, fingerprints: NDArray[np.generic] | None) -> str:
    """A digest of what a file has besides weights."""
    return digest_arrays(*([] if fingerprints is None else [fingerprints]), text=json.dumps(card, sort_keys=True))
