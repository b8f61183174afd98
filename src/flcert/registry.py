"""What a family offers by name, or a user's own by import path, called with checked options."""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model, model_validator

from flcert.errors import FlcertError, InputError, unknown_name

Factory = Callable[..., Any]


class Strict(BaseModel):
    """Settings that refuse unknown keys and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Choice(Strict):
    """Something picked from a family by name, or by import path ``package.module:attribute``."""

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_plain_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


def resolve(family: str, entries: Mapping[str, Factory], name: str) -> Factory:
    """The factory called ``name``, or the one behind an import path ``package.module:attribute``."""
    if ":" in name:
        return _import(family, name)
    if name not in entries:
        raise unknown_name(family, name, entries)
    return entries[name]


def build(family: str, entries: Mapping[str, Factory], choice: Choice, **context: Any) -> Any:
    """Call the chosen factory with its options (from the user) and ``context`` (from us).

    Raises:
        InputError: for an option that the factory does not have, lacks, or that has the wrong type.
    """
    factory = resolve(family, entries, choice.name)
    where = f"{family} {choice.name!r}"
    options = _checked_options(factory, where, choice.options, context)
    try:
        return factory(**context, **options)
    except FlcertError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        raise InputError(f"{where} raised {type(error).__name__}: {error}") from error


def complaint(failure: ValidationError, name: str, known: Iterable[str] = ()) -> InputError:
    """The first thing that pydantic found wrong, in our words: the name, the rule and the value.

    Args:
        failure: what pydantic raised.
        name: what to call the value.
        known: names that would have been right, where an unknown one was given.
    """
    first = failure.errors()[0]
    if first["type"] == "extra_forbidden":
        return unknown_name("setting", name, known)
    if first["type"] == "missing":
        return InputError(f"{name} is needed, but was not given")
    if first["type"] == "value_error":
        return InputError(first["msg"].removeprefix("Value error, "))
    rule = first["msg"].replace("Input should", "must")
    if first["type"] in ("model_type", "dict_type"):
        rule = "must be a table"
    return InputError(f"{name} {rule}, got {first['input']!r}")


def source_digest(name: str) -> str:
    """A digest of the source that a user's own factory comes from, as it was when imported; empty for our own.

    It covers the Python files of the factory's package, or those beside its module, and becomes part of a group's key,
    so that edited files never reuse models trained by their older text. What these files import from elsewhere is not
    covered.
    """
    if ":" not in name:
        return ""
    module_name = name.partition(":")[0]
    if module_name not in _digests:
        _module(name, module_name)
        _digests[module_name] = _digest_files(_sources(sys.modules[module_name.partition(".")[0]]))
    return _digests[module_name]


def choice_sources(choice: Choice) -> str:
    """A digest of all of a user's own sources that a choice names, itself or among its options; empty for none."""
    digests = [source_digest(name) for name in [choice.name, *_import_paths(choice.options)]]
    return digests[0] if not any(digests[1:]) else " ".join(digests)


def _import_paths(value: Any) -> Iterator[str]:
    """Strings inside a value that name something to import."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, str) and _IMPORT_PATH.fullmatch(value) and _importable(value.partition(":")[0]):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _import_paths(part)


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # an option may look like an import path and be none
        return False
    return True


_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_digests: dict[str, str] = {}  # by module, taken when this process imported it


def _sources(top: ModuleType) -> list[Path]:
    """The files of a package; or of a module and those beside it, if it is not installed among many others."""
    source = getattr(top, "__file__", None)
    if source is None:  # a package without __init__.py
        return sorted(file for place in getattr(top, "__path__", ()) for file in Path(place).rglob("*.py"))
    file = Path(source)
    if file.name == "__init__.py":
        return sorted(file.parent.rglob("*.py"))
    return [file] if "site-packages" in file.parts else sorted(file.parent.glob("*.py"))


def _digest_files(files: list[Path]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        content = file.read_bytes()
        state.update(f"{file.name} {len(content)}\n".encode() + content)
    return state.hexdigest()


def _module(what: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{what}: cannot import module {name!r} ({reason})") from None


def _import(family: str, name: str) -> Factory:
    module_name, _, attribute = name.partition(":")
    module = _module(f"{family} {name!r}", module_name)
    source_digest(name)
    factory = getattr(module, attribute, None)
    if not callable(factory):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown_name(f"function of module {module_name!r}", attribute, public)
    found: Factory = factory
    return found


def _checked_options(
    factory: Factory, where: str, options: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    """The options, converted to the types that the factory's signature declares."""
    schema = _schema(factory, context)
    try:
        checked = schema(**options)
    except ValidationError as failure:
        for option in options:
            if option not in schema.model_fields and schema.model_config.get("extra") == "forbid":
                raise unknown_name(f"option of {where}:", option, schema.model_fields) from None
        option = ".".join(str(part) for part in failure.errors()[0]["loc"])
        raise complaint(failure, f"option {option!r} of {where}") from None
    return {option: getattr(checked, option) for option in options}


def _signature(factory: Factory) -> tuple[Mapping[str, inspect.Parameter], dict[str, Any]]:
    """Parameters and their types; none where Python cannot tell."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}, {}
    try:
        return parameters, get_type_hints(
            factory.__init__ if inspect.isclass(factory) else factory, include_extras=True
        )
    except (NameError, TypeError, AttributeError):
        return parameters, {}


def _schema(factory: Factory, context: Mapping[str, Any]) -> type[BaseModel]:
    """A pydantic model of the parameters of ``factory`` that a user may set."""
    parameters, hints = _signature(factory)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    fields: dict[str, Any] = {
        key: (hints.get(key, Any), ... if parameter.default is parameter.empty else parameter.default)
        for key, parameter in parameters.items()
        if key not in context and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    config = ConfigDict(
        extra="allow" if open_ended else "forbid", arbitrary_types_allowed=True, protected_namespaces=()
    )
    return create_model("options", __config__=config, **fields)
