"""Families of plug-ins: found by name, or by import path for a user's own, and called with checked options."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, create_model

from flcert.core.code import code_digest, file_of
from flcert.core.digest import digest_files
from flcert.core.settings import MAIN, Choice, complaint, import_path
from flcert.errors import FlcertError, InputError, unknown_name

Factory = Callable[..., Any]

IN_A_WORKER = "__mp_main__"  # what multiprocessing calls the script in worker processes
CANNOT_IMPORT = "cannot import module"
Base = TypeVar("Base")
Options = TypeVar("Options", bound=BaseModel)


def resolve(family: str, entries: Mapping[str, Factory], name: str) -> Factory:
    """The factory called ``name``, or the one at an import path ``package.module:attribute``."""
    if ":" in name:
        return _import(family, name)
    if name not in entries:
        raise unknown_name(family, name, entries)
    return entries[name]


def resolve_class(
    family: str, entries: Mapping[str, type[Base]], name: str, base: type[Base], says: Iterable[str] = ()
) -> type[Base]:
    """The class called ``name``, or a user's own at an import path, which must derive from ``base``."""
    found = resolve(family, entries, name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"{family} {name!r} must be a class derived from {base.__module__}.{base.__name__}")
    lacking = [one for one in says if not hasattr(found, one)] + sorted(getattr(found, "__abstractmethods__", ()))
    if lacking:
        raise InputError(f"{family} {name!r} must define {lacking[0]!r}")
    return found


def named_in(entries: Mapping[str, Factory]) -> AfterValidator:
    """A rule for a setting: what a registry holds goes by its name there, even if given as a class or function."""

    def named(choice: Choice) -> Choice:
        names = {import_path(factory): name for name, factory in entries.items()}
        return choice.model_copy(update={"name": names[choice.name]}) if choice.name in names else choice

    return AfterValidator(named)


def asked_for(factory: Factory, offered: Mapping[str, Any], usual: Iterable[str]) -> dict[str, Any]:
    """The arguments that the signature of a factory names.

    Args:
        factory: a class or function.
        offered: all arguments that there are.
        usual: names of those that a factory gets which takes any keyword.
    """
    parameters, _ = _signature(factory)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    wanted = {*parameters, *(usual if open_ended else ())}
    return {name: value for name, value in offered.items() if name in wanted}


def build(family: str, entries: Mapping[str, Factory], choice: Choice, **context: Any) -> Any:
    """Call the chosen factory with its options (from the user) and ``context`` (from us).

    Raises:
        InputError: an option is unknown, missing or of the wrong type.
    """
    factory = resolve(family, entries, choice.name)
    where = f"{family} {choice.name!r}"
    schema = _schema if isinstance(factory, Hashable) else _schema.__wrapped__
    checked = checked_options(schema(factory, frozenset(context)), where, choice.options)
    options = {option: getattr(checked, option) for option in choice.options}
    try:
        return factory(**context, **options)
    except FlcertError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        raise InputError(f"{where} raised {type(error).__name__}: {error}") from error


def source_digest(name: str) -> str:
    """A digest of the source of a user's own factory, as it was when imported; empty for our own.

    It covers the Python files of the factory's package, or those beside its module, and becomes part of a group's key,
    so that models trained with older versions of the files are never reused. Modules that these files import from
    elsewhere are not covered. Where there are no files, as in a notebook, it covers the code of the factory, and that
    and the values which it uses (``code_digest``).
    """
    if ":" not in name:
        return ""
    module_name = name.partition(":")[0]
    if module_name not in _digests:
        module = _module(name, module_name)
        files = _sources(sys.modules[module_name.partition(".")[0]])
        if not files:  # a notebook, where a class may be defined again at any time
            return code_digest(getattr(module, name.partition(":")[2], None))
        _digests[module_name] = digest_files(files)
    return _digests[module_name]


def choice_sources(choice: Choice) -> str:
    """A digest of all user sources that a choice names, directly or in its options; empty if it names none."""
    digests = [source_digest(name) for name in [choice.name, *_import_paths(choice.options)]]
    return digests[0] if not any(digests[1:]) else " ".join(digests)


def names_main(choice: Choice) -> bool:
    """Whether a choice names something that the running script or notebook defines itself."""
    return any(name.startswith(f"{MAIN}:") for name in [choice.name, *_import_paths(choice.options)])


def _import_paths(value: Any) -> Iterator[str]:
    """The strings inside a value that are import paths."""
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
    except Exception:  # an option may look like an import path without being one
        return False
    return True


_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_digests: dict[str, str] = {}  # by module, taken when this process imported it


def _sources(top: ModuleType) -> list[Path]:
    """The files of a package, or a module's file and those beside it unless it is in site-packages.

    The file of a script comes first: scripts that lie beside each other all have the same module name.
    """
    file = file_of(top)
    if file is None:  # a package without __init__.py
        return sorted(source for place in getattr(top, "__path__", ()) for source in Path(place).rglob("*.py"))
    if file.name == "__init__.py":
        return sorted(file.parent.rglob("*.py"))
    beside = [] if "site-packages" in file.parts else sorted(file.parent.glob("*.py"))
    return [file, *beside] if top.__name__ in (MAIN, IN_A_WORKER) or not beside else beside


def _module(what: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{what}: {CANNOT_IMPORT} {name!r} ({reason})") from None


def _import(family: str, name: str) -> Factory:
    module_name, _, attribute = name.partition(":")
    module = _module(f"{family} {name!r}", module_name)
    source_digest(name)
    factory = getattr(module, attribute, None)
    if not callable(factory) and module_name == MAIN:
        raise InputError(f"{family} {name!r} is of another script or notebook; put it into a module of its own")
    if not callable(factory):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown_name(f"name in module {module_name!r}:", attribute, public)
    found: Factory = factory
    return found


def checked_options(schema: type[Options], where: str, options: Mapping[str, Any]) -> Options:
    """The options as an instance of their schema, or an error that names the option, the rule and the value.

    Args:
        schema: the class that declares the options.
        where: the owner of the options, such as "data set 'mnist'".
        options: the user's values.
    """
    try:
        return schema.model_validate(dict(options))
    except ValidationError as failure:
        for option in options:
            if option not in schema.model_fields and schema.model_config.get("extra") == "forbid":
                raise unknown_name(f"option of {where}:", option, schema.model_fields) from None
        option = ".".join(str(part) for part in failure.errors()[0]["loc"])
        raise complaint(failure, f"option {option!r} of {where}") from None


def _signature(factory: Factory) -> tuple[Mapping[str, inspect.Parameter], dict[str, Any]]:
    """The parameters and their types; empty if Python cannot tell."""
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


@lru_cache(maxsize=256)  # making one takes longer than a client's part of a round
def _schema(factory: Factory, context: frozenset[str]) -> type[BaseModel]:
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
