"""Files of public models: safetensors with the weights and, for those that ``flcert pretrain`` made, a card."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from flcert.core.digest import digest_arrays, digest_named
from flcert.core.files import write_atomic
from flcert.core.settings import complaint
from flcert.core.store import Arrays, default_directory
from flcert.errors import InputError, unknown_name
from flcert.public.card import Card
from flcert.public.names import NAMES

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


class DamagedError(InputError):
    """A file of public weights was altered or cut short, or never was one.

    Args:
        path: the file.
        what: what is wrong with it.
    """

    def __init__(self, path: Path, what: str) -> None:
        ours = path.parent == public_directory() and path.stem in NAMES
        again = f"delete it and run: flcert pretrain {path.stem}" if ours else "get the file again"
        super().__init__(f"{path} {what}; {again}")
        self.what = what


def find(name: str, others: Collection[str] = ()) -> PublicModel:
    """The public model of this name in the catalogue, or in the file at this path.

    Args:
        name: the name, or a path that ends in ``.safetensors``.
        others: what else could have been meant, to suggest it.

    Raises:
        InputError: there is none; the message says how to get it.
    """
    if name.endswith(SUFFIX):
        return read(Path(name))
    if "/" in name or Path(name).is_file():
        raise InputError(f"a file of public weights must end in {SUFFIX}, got {name!r}")
    path = public_directory() / f"{name}{SUFFIX}"
    if path.is_file():
        return read(path)
    if name not in NAMES:
        raise unknown_name("public model", name, (*NAMES, *others))
    raise InputError(f"public model {name!r} is not there yet; run: flcert pretrain {name}")


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
        DamagedError: it is not what ``write`` wrote; the message says what to do.
    """
    if not path.is_file():
        raise InputError(f"there is no public model at {path}")
    model, header = _opened(path)
    if header.get("digest", model.digest) != model.digest:
        raise DamagedError(path, "was altered: its weights are not those that its header names")
    if "seal" in header and header["seal"] != _seal(header["card"], model.fingerprints):
        raise DamagedError(path, "was altered: its card or its fingerprints are not those that were written")
    for name, values in model.arrays.items():
        if not finite_as(values, np.float32):
            raise InputError(
                f"{path} must hold weights that are finite as float32, got NaN, infinity or too large a number in "
                f"{name!r}"
            )
    return model


def finite_as(values: NDArray[np.generic], dtype: DTypeLike) -> bool:
    """Whether values are finite numbers, and stay so in this type; whole numbers are."""
    if not np.issubdtype(values.dtype, np.floating):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values).all() and np.isfinite(values.astype(dtype)).all())


def _opened(path: Path) -> tuple[PublicModel, dict[str, Any]]:
    """What a file holds, and its header."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
            header = json.loads((file.metadata() or {}).get("flcert", "{}"))
        card = Card.model_validate(header["card"]) if header.get("card") else None
    except ValidationError as failure:
        raise DamagedError(path, f"has a card that cannot be read ({complaint(failure, 'it')})") from None
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(path, f"is not a safetensors file that can be read ({error})") from None
    return PublicModel(path.stem, arrays, card, arrays.pop(FINGERPRINTS, None)), header


def _seal(card: Any, fingerprints: NDArray[np.generic] | None) -> str:
    """A digest of what a file has besides weights."""
    return digest_arrays(*([] if fingerprints is None else [fingerprints]), text=json.dumps(card, sort_keys=True))
