"""The configuration of a run: a TOML or JSON file, options of the form key=value, and the defaults."""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from flcert import grouping as groupings
from flcert.certify.sampled import Selection
from flcert.errors import InputError, unknown_name
from flcert.grouping import Grouping
from flcert.registry import Choice, Strict, complaint
from flcert.training.recipe import Recipe

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Hashed(Strict):
    """FLCert-D."""

    kind: Literal["hashed"] = "hashed"
    num_groups: int = Field(default=40, gt=0)
    key: str = "flcert"

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return groupings.hashed(ids, self.num_groups, self.key)


class Sampled(Strict):
    """FLCert-P with groups drawn at random."""

    kind: Literal["sampled"]
    num_groups: int = Field(default=40, gt=0)
    group_size: int = Field(gt=0)
    seed: Seed = 0

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return groupings.sampled(ids, self.num_groups, self.group_size, self.seed)


class Enumerated(Strict):
    """FLCert-P with all groups."""

    kind: Literal["enumerated"]
    group_size: int = Field(gt=0)
    limit: int = Field(default=10_000, gt=0)

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return groupings.enumerated(ids, self.group_size, self.limit)


class Proof(Strict):
    """Settings of the certificate; they matter for sampled groups only."""

    alpha: float = Field(default=0.001, gt=0, lt=1)
    selection: Selection = "safe"


class Config(Strict):
    """A whole run. The defaults train on scikit-learn's digits.

    Args:
        data: a name from ``flcert.datasets.DATASETS`` or an import path, with its options.
        grouping: how clients are put into groups.
        recipe: how a group trains.
        certificate: how sure to be.
    """

    data: Choice = Choice(name="digits")
    grouping: Annotated[Hashed | Sampled | Enumerated, Field(discriminator="kind")] = Hashed()
    recipe: Recipe = Recipe()
    certificate: Proof = Proof()

    def canonical(self) -> dict[str, Any]:
        """All settings, resolved, as JSON values."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """A short name of exactly these settings."""
        text = json.dumps(self.canonical(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


_GROUPINGS: dict[str, type[BaseModel]] = {"hashed": Hashed, "sampled": Sampled, "enumerated": Enumerated}
_TABLES: dict[str, type[BaseModel]] = {
    "data": Choice,
    "recipe": Recipe,
    "model": Choice,
    "aggregator": Choice,
    "certificate": Proof,
    **_GROUPINGS,
}


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a TOML or JSON file, changed by ``key=value`` overrides with dotted keys.

    Paths among the data's options are relative to the file.
    """
    values = _read(path) if path else {}
    for override in overrides:
        _apply(values, override)
    return parse_config(values)


def parse_config(values: Mapping[str, Any]) -> Config:
    """A configuration from plain values; every complaint names the key, the rule and the value."""
    try:
        return Config.model_validate(_with_default_choices(values))
    except ValidationError as failure:
        raise _explained(failure) from None


def _with_default_choices(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the default ``name`` (or ``kind``) in tables that only change the options of the default."""
    filled = dict(values)
    for key, default in (("data", {"name": "digits"}), ("grouping", {"kind": "hashed"})):
        if isinstance(filled.get(key), dict):
            filled[key] = {**default, **filled[key]}
    if isinstance(filled.get("recipe"), dict):
        filled["recipe"] = dict(filled["recipe"])
        for key in ("model", "aggregator"):
            if isinstance(filled["recipe"].get(key), dict):
                default = {"name": getattr(Recipe(), key).name}
                filled["recipe"][key] = {**default, **filled["recipe"][key]}
    return filled


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from None
    try:
        values: dict[str, Any] = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold a table of settings, got {type(values).__name__}")
    _anchor_data_path(values, path.parent)
    return values


def _anchor_data_path(values: dict[str, Any], directory: Path) -> None:
    """Make ``data.options.path`` relative to the configuration instead of to where the command runs."""
    data = values.get("data")
    options = data.get("options") if isinstance(data, dict) else None
    if isinstance(options, dict) and isinstance(options.get("path"), str):
        options["path"] = str((directory / options["path"]).resolve())


def _apply(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise InputError(f"an override must look like key=value, got {override!r}")
    *parents, last = key.strip().split(".")
    table = values
    for parent in parents:
        nested = table.setdefault(parent, {})
        if not isinstance(nested, dict):
            nested = table[parent] = {"name": nested}  # recipe.model = "mlp", then recipe.model.options.hidden = [32]
        table = nested
    table[last] = _value(text)


def _value(text: str) -> Any:
    """The text as a TOML value, or as it is where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explained(failure: ValidationError) -> InputError:
    first = failure.errors()[0]
    if first["type"] == "union_tag_invalid":
        return unknown_name("grouping.kind", first["ctx"]["tag"], _GROUPINGS)
    path = [str(part) for part in first["loc"] if part not in _GROUPINGS]
    return complaint(failure, ".".join(path), _keys_beside(path, first["loc"]))


def _keys_beside(path: list[str], location: tuple[int | str, ...]) -> list[str]:
    """The keys that would have been right in the table of a wrong one."""
    model: type[BaseModel] = Config
    for part in location[:-1]:
        model = _TABLES.get(str(part), model)
    return [".".join([*path[:-1], name]) for name in model.model_fields]
