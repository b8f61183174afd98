"""The configuration of a run: a TOML or JSON file, options of the form key=value, and the defaults."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SerializeAsAny, ValidationError

from flcert import presets
from flcert.attacks import ATTACKS
from flcert.certify import CertificateSettings, Guarantee
from flcert.certify.guarantee import Groups
from flcert.core.digest import digest_json, keyed_number
from flcert.core.plugins import named_in
from flcert.core.settings import Choice, Strict, complaint
from flcert.errors import InputError
from flcert.features import Features
from flcert.grouping import GroupingKind, from_format_1, settings_from
from flcert.grouping.grouping import checked_key
from flcert.public.model import SUFFIX
from flcert.runs.records import FORMAT, check_format
from flcert.training.compression import Dtype
from flcert.training.recipe import Recipe, Variant
from flcert.training.smoothing import Smoothing
from flcert.training.trusted import TrustedModel, Voting

_Seed = Annotated[int, Field(ge=0, lt=2**63)]


def _grouping(value: Any) -> Any:
    """Parse grouping settings from a table, or from just the name of a kind."""
    if isinstance(value, str):
        value = {"kind": value}
    return settings_from(value) if isinstance(value, Mapping) else value


class SimulatedAttack(Choice):
    """An attack to measure, beside the proof.

    Args:
        name: a name from ``flcert.attacks.ATTACKS``, or an import path.
        options: the attack's options.
        malicious: how many clients to draw with the seed, or their ids.
        seed: the seed of the draw and of the attacker.
    """

    malicious: Annotated[int, Field(gt=0)] | Annotated[tuple[str, ...], Field(min_length=1)]
    seed: _Seed = 0


class PublicUse(Strict):
    """What is allowed of a public model.

    Args:
        allow_overlap: use it even if it was trained on test inputs or on clients' examples.
    """

    allow_overlap: bool = False


class Pilot(Strict):
    """Clients that are set apart to choose settings on, and are no part of the federation.

    Args:
        share: about which share of the clients; a hash of each client's id decides, so a larger share holds a smaller.
        key: the key of the hash.
    """

    share: float = Field(default=0.05, gt=0, lt=1)
    key: Annotated[str, AfterValidator(checked_key)] = "pilot"

    def chosen(self, ids: Sequence[str]) -> list[str]:
        """Those of some clients that are set apart."""
        return [user for user in ids if keyed_number(user, self.key) < self.share * 2**128]


class Config(Strict):
    """The configuration of a whole run. The defaults train on scikit-learn's digits.

    Args:
        data: a name from ``flcert.datasets.DATASETS`` or an import path, with its options.
        grouping: how clients are put into groups.
        recipe: how a group trains.
        certificate: alpha and other settings of certificates.
        attack: the attack to simulate, if any.
        forget: ids of clients to leave out, as if they had never taken part.
        public: what is allowed of a public model.
        voting: who votes besides the groups.
        compression: the type to compress trained models to, "float16" or "int8"; by default none.
        pilot: which clients are set apart to choose settings on (``flcert pilot``); by default none.
    """

    data: Choice = Choice(name="digits")
    grouping: Annotated[SerializeAsAny[GroupingKind], BeforeValidator(_grouping)] = settings_from({})
    recipe: Recipe = Recipe()
    certificate: CertificateSettings = CertificateSettings()
    attack: Annotated[SimulatedAttack, named_in(ATTACKS)] | None = None
    forget: tuple[str, ...] = ()
    public: PublicUse = PublicUse()
    voting: Voting = Voting()
    compression: Dtype | None = None
    pilot: Pilot | None = None

    def canonical(self) -> dict[str, Any]:
        """All settings, resolved, as JSON values."""
        return self.model_dump(mode="json")

    def guarantee(self, certificate: Choice | str, groups: Groups, num_failed: int = 0) -> Guarantee:
        """A certificate for these groups, with the settings and the trusted votes of this configuration."""
        return self.certificate.of(certificate, groups, num_failed, self.voting.num_trusted)

    def digest(self) -> str:
        """A short digest that identifies these settings."""
        return digest_json(self.canonical(), size=5)

    def reseeded(self, number: int) -> "Config":
        """The same settings with other seeds, of training and of the groups; number 0 is the configuration itself."""
        if number == 0:
            return self
        own = self.grouping
        taken = any(own.reseeded(one) == own for one in range(1, number + 1))  # it would get its own seed again
        seeded = self.recipe.model_copy(update={"seed": (self.recipe.seed + number) % 2**63})
        return self.model_copy(update={"recipe": seeded, "grouping": own.reseeded(number + taken)})

    def split_seeds(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All settings as JSON values, those that ``reseeded`` changes apart from the others."""
        others, own = self.canonical(), self.grouping
        changed = [own.reseeded(number).model_dump(mode="json") for number in (1, 2)]
        drawn = [name for name, value in others["grouping"].items() if any(one[name] != value for one in changed)]
        seeds = {f"grouping.{name}": others["grouping"].pop(name) for name in drawn}
        return others, {"recipe.seed": others["recipe"].pop("seed"), **seeds}

    def recorded(self) -> dict[str, Any]:
        """The settings as a run directory records them."""
        return {"format": FORMAT, **self.canonical()}


_TABLES: dict[str, type[BaseModel]] = {
    "data": Choice,
    "recipe": Recipe,
    "model": Choice,
    "aggregator": Choice,
    "augmentation": Choice,
    "optimiser": Choice,
    "schedule": Choice,
    "certificate": CertificateSettings,
    "attack": SimulatedAttack,
    "features": Features,
    "smoothing": Smoothing,
    "trusted": TrustedModel,
    "voting": Voting,
    "public": PublicUse,
    "pilot": Pilot,
    "variants": Variant,
}


def load_config(
    path: Path | str | None = None, overrides: Sequence[str] = (), *, preset: str | None = None, scale: float = 1.0
) -> Config:
    """Load the configuration from a TOML or JSON file or from a preset, and apply overrides.

    Args:
        path: the file; paths in the data's options are relative to its directory.
        overrides: changes of the form ``key=value`` with dotted keys.
        preset: a name from ``flcert.presets``, instead of a file.
        scale: the fraction of the preset to use; see ``flcert.presets.values``.
    """
    if path and preset is not None:
        raise InputError(f"give a configuration or a preset, not both, got {path} and {preset}")
    if scale != 1 and preset is None:
        raise InputError(f"scale goes with a preset, got {scale} without one")
    values = presets.values(preset, scale) if preset is not None else _read(Path(path)) if path else {}
    for override in overrides:
        _apply(values, override)
    _anchor_public_files(values, Path.cwd())
    return parse_config(values)


def parse_config(values: Mapping[str, Any]) -> Config:
    """Parse a configuration from plain values; every error names the key, the rule and the value."""
    try:
        return Config.model_validate(_with_default_choices(values))
    except ValidationError as failure:
        raise _explained(failure) from None


def _with_default_choices(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the default ``name`` in tables that only change its options."""
    filled = dict(values)
    if isinstance(filled.get("data"), dict):
        filled["data"] = {"name": Config().data.name, **filled["data"]}
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
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file: {error}") from None
    try:
        values: dict[str, Any] = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold a table of settings, got {type(values).__name__}")
    if path.suffix == ".json":
        values = from_record(values, path)
    _anchor_data_paths(values, path.parent)
    _anchor_public_files(values, path.parent)
    return values


def from_record(values: dict[str, Any], where: object) -> dict[str, Any]:
    """Convert the settings recorded in a run directory, in any known format, to plain settings."""
    check_format(values, where)
    settings = {name: value for name, value in values.items() if name != "format"}
    if "format" not in values and isinstance(settings.get("grouping"), dict):
        settings["grouping"] = from_format_1(settings["grouping"])
    return settings


_PATH_OPTIONS = ("path", "data_dir", "vocabulary")


def _anchor_data_paths(values: dict[str, Any], directory: Path) -> None:
    """Resolve paths of data and groups against the configuration's directory, not the working directory."""
    data, grouping = values.get("data"), values.get("grouping")
    options = data.get("options") if isinstance(data, dict) else None
    for table, names in ((options, _PATH_OPTIONS), (grouping, ("examples",))):
        for name in names:
            if isinstance(table, dict) and isinstance(table.get(name), str):
                table[name] = str((directory / table[name]).resolve())


def _anchor_public_files(values: dict[str, Any], directory: Path) -> None:
    """Resolve paths of public weights against the configuration's directory; a name of the catalogue is not a path."""
    recipe = values.get("recipe")
    features = recipe.get("features") if isinstance(recipe, dict) else None
    voting = values.get("voting")
    trusted = voting.get("trusted") if isinstance(voting, dict) else None
    for table, name in ((recipe, "initial"), (features, "weights"), (trusted, "model")):
        if isinstance(table, dict) and isinstance(table.get(name), str) and table[name].endswith(SUFFIX):
            table[name] = str((directory / table[name]).resolve())


def _apply(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise InputError(f"an override must look like key=value, got {override!r}")
    *parents, last = key.strip().split(".")
    table = values
    for parent in parents:
        nested = table.setdefault(parent, {})
        if not isinstance(nested, dict):  # recipe.model = "mlp", then recipe.model.options.hidden = [32]
            nested = table[parent] = {_short_for(parent, nested): nested}
        table = nested
    table[last] = _value(text)


def _short_for(table: str, value: Any) -> str:
    """The key that a plain value stands for when it is given instead of a table."""
    if table == "grouping":
        return "kind"
    if not issubclass(_TABLES.get(table, BaseModel), Choice):
        raise InputError(f"{table} must be a table, got {value!r}")
    return "name"


def _value(text: str) -> Any:
    """Parse the text as a TOML value, or return it unchanged if it is not one."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explained(failure: ValidationError) -> InputError:
    first = failure.errors()[0]
    if first["loc"][:2] == ("attack", "malicious") and first["type"] != "missing":
        return InputError(f"attack.malicious must be a number from 1 or a list of user ids, got {first['input']!r}")
    path = [str(part) for part in first["loc"]]
    if path == ["grouping"] and first["type"] != "value_error":
        return InputError(f"grouping must be a table, got {first['input']!r}")
    return complaint(failure, ".".join(path), _keys_beside(path, first["loc"]))


def _keys_beside(path: list[str], location: tuple[int | str, ...]) -> list[str]:
    """The valid keys of the table that contains a wrong key."""
    model: type[BaseModel] = Config
    for part in location[:-1]:
        model = _TABLES.get(str(part), model)
    return [".".join([*path[:-1], name]) for name in model.model_fields]
