"""The kinds of groupings by name, and how one is read from settings."""

from collections.abc import Mapping
from typing import Any

from flcert.core.plugins import resolve_class
from flcert.core.settings import validated
from flcert.errors import InputError
from flcert.grouping.balanced import Balanced
from flcert.grouping.enumerated import Enumerated
from flcert.grouping.finite_aggregation import FiniteAggregation
from flcert.grouping.hashed import Hashed
from flcert.grouping.kind import DisjointKind, GroupingKind
from flcert.grouping.sampled import Sampled

KINDS: dict[str, type[GroupingKind]] = {
    "hashed": Hashed,
    "balanced": Balanced,
    "sampled": Sampled,
    "enumerated": Enumerated,
    "finite-aggregation": FiniteAggregation,
}
"""The kinds of groupings by name."""

DEFAULT_KIND = "balanced"
"""The kind of a configuration that names none: its data set is the list of clients, which is fixed."""

_RENAMED = {"spread": "finite-aggregation", "copies": "groups_per_client"}


def kind_class(name: str) -> type[GroupingKind]:
    """The kind with this name, or a user's own at an import path."""
    return resolve_class("grouping.kind", KINDS, name, GroupingKind, ("title", "certificate"))  # type: ignore[type-abstract]


def settings_from(values: Mapping[str, Any]) -> GroupingKind:
    """Settings from plain values: "kind", by default ``DEFAULT_KIND``, and the fields of that kind."""
    name = values.get("kind", DEFAULT_KIND)
    if not isinstance(name, str):
        raise InputError(f"grouping.kind must be a name or an import path, got {name!r}")
    if name in _RENAMED:
        raise InputError(f"grouping.kind {name!r} is called {_RENAMED[name]!r} now")
    kind = kind_class(name)
    for setting in values:
        if setting in _RENAMED and setting not in kind.model_fields:
            raise InputError(f"grouping.{setting} is called grouping.{_RENAMED[setting]} now")
        others = [other for other, one in KINDS.items() if setting in one.model_fields]
        if setting not in kind.model_fields and others:
            raise InputError(f"grouping.{setting} goes with grouping.kind {' or '.join(others)}, got kind {name!r}")
    return validated(kind, {**values, "kind": name}, "grouping.")


def from_format_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that an earlier version of flcert recorded, in today's terms."""
    if values.get("kind") not in _RENAMED:
        return dict(values)
    renamed = {_RENAMED.get(name, name): value for name, value in values.items()}
    return {**renamed, "kind": _RENAMED[values["kind"]]}


def disjoint_groups(num_groups: int, key: str = "flcert") -> GroupingKind:
    """Settings of FLCert-D with this number of groups, for clients that may still register."""
    return validated(Hashed, {"num_groups": num_groups, "key": key}, "grouping.")


def paper_variants(base: GroupingKind, num_groups: int, group_size: int) -> dict[str, GroupingKind]:
    """FLCert-D and FLCert-P with this number of groups, by the names that the paper gives them.

    Args:
        base: settings of FLCert-D, whose kind and key it keeps.
        num_groups: N.
        group_size: k of FLCert-P.
    """
    if not isinstance(base, DisjointKind):
        able = [name for name, kind in KINDS.items() if issubclass(kind, DisjointKind)]
        raise InputError(f"experiments vary groups of kind {' or '.join(able)}, got kind {base.kind!r}")
    variants = (
        base.model_copy(update={"num_groups": num_groups}),
        Sampled(num_groups=num_groups, group_size=group_size),
    )
    return {variant.title: variant for variant in variants}
