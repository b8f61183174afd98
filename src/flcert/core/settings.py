"""Settings that refuse unknown keys, with error messages in our own words."""

import sys
from collections.abc import Iterable, Mapping
from inspect import isroutine
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from flcert.errors import InputError, MissingError, unknown_name

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """Settings that refuse unknown keys and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        """Check the values; an error names the setting, the rule and the value in one line."""
        try:
            super().__init__(**values)
        except ValidationError as failure:
            raise complaint(failure, _where(failure), type(self).model_fields) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # settings inside others keep their place


MAIN = "__main__"  # the module of a script or notebook


def import_path(value: Any) -> str:
    """The path ``package.module:name`` of a class or function."""
    return f"{value.__module__}:{value.__qualname__}"


def _named(value: Any) -> Any:
    """A class or function as its import path, provided that it is found there; anything else as it is."""
    if not callable(value):
        return value
    module, name = sys.modules.get(getattr(value, "__module__", "")), getattr(value, "__qualname__", "")
    if getattr(module, name, None) is value:
        return import_path(value)
    if isinstance(value, type) or isroutine(value):
        raise InputError(
            "a class or function must stand at the top level of a module (no lambda, no inner function, no method), "
            f"got {value.__qualname__!r}"
        )
    raise InputError(
        f"a class or function is needed, whose arguments go into options, got an instance of {type(value).__name__}"
    )


class Choice(Strict):
    """A member of a family, picked by its name or by an import path ``package.module:attribute``.

    In Python it may be the class or function itself: ``Recipe(model=Net)``, ``Choice(name=Net, options={...})``.

    Args:
        name: the name, the import path, or the class or function.
        options: what it is called with.
    """

    name: Annotated[str, BeforeValidator(_named)]
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_plain_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) or callable(value) else value


def named_by_import_path(cls: type[BaseModel], values: Any) -> Any:
    """Values of a user's own class in a family, with its import path as the name of its kind where none is given."""
    if isinstance(values, dict) and not values.get("kind") and not cls.model_fields["kind"].default:
        return {**values, "kind": import_path(cls)}
    return values


def validated(model: type[Model], values: Mapping[str, Any], where: str = "") -> Model:
    """An instance of ``model`` with these values, or one error that names the key, the rule and the value.

    Args:
        model: the class.
        values: the values of its fields.
        where: a prefix for field names in messages, such as "grouping.".
    """
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        field = _where(failure)
        known = [f"{where}{name}" for name in model.model_fields]
        raise complaint(failure, f"{where}{field}" if field else where.rstrip(".:"), known) from None


def _where(failure: ValidationError) -> str:
    """The dotted name of the first setting that is wrong."""
    return ".".join(str(part) for part in failure.errors()[0]["loc"])


def complaint(failure: ValidationError, name: str, known: Iterable[str] = ()) -> InputError:
    """An error for the first problem that pydantic found, with the name, the rule and the value.

    Args:
        failure: the error that pydantic raised.
        name: what to call the value.
        known: the allowed names, to suggest one if an unknown name was given.
    """
    first = failure.errors()[0]
    if first["type"] == "extra_forbidden":
        return unknown_name("setting", name, known)
    if first["type"] == "missing":
        return MissingError(name)
    if first["type"] == "value_error":
        raised = first["ctx"]["error"]
        return raised if isinstance(raised, InputError) else InputError(str(raised))
    rule = first["msg"].replace("Input should", "must")
    if first["type"] in ("model_type", "dict_type"):
        rule = "must be a table"
    if first["type"] in ("string_too_short", "too_short"):
        least = first["ctx"]["min_length"]
        rule = "must not be empty" if least == 1 else f"must have a length of at least {least}"
    return InputError(f"{name} {rule}, got {first['input']!r}")
