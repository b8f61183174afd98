"""The kinds of certificates by name, and how one is chosen for groups."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_serializer, field_validator

from flcert.certify.collective import Collective
from flcert.certify.disjoint import Disjoint
from flcert.certify.enumerated import Enumerated
from flcert.certify.guarantee import Groups, Guarantee
from flcert.certify.overlapping import Overlapping
from flcert.certify.runoff import Runoff
from flcert.certify.sampled import Sampled, Selection, Tails
from flcert.core.plugins import checked_options, resolve_class
from flcert.core.settings import Choice, Strict, validated
from flcert.errors import InputError

KINDS: dict[str, type[Guarantee]] = {
    "disjoint": Disjoint,
    "sampled": Sampled,
    "enumerated": Enumerated,
    "overlapping": Overlapping,
    "runoff": Runoff,
    "collective": Collective,
}
"""The kinds of certificates by name."""

DEFAULT_KIND = "disjoint"  # for a vote table that names no other


class CertificateSettings(Strict):
    """How certain to be, and which certificates to compute in addition to the one that suits the groups.

    Args:
        alpha: the failure probability, for groups drawn at random.
        selection: "safe", or "paper" for Algorithm 1 to the letter.
        tails: bounds for groups drawn at random: "one" as in the paper, "both", or the "best" of the two.
        also: further certificates of the same models, by name or import path.
    """

    alpha: float = Field(default=0.001, gt=0, lt=1)
    selection: Selection = "safe"
    tails: Tails = "one"
    also: tuple[Choice, ...] = ()

    @field_validator("also")
    @classmethod
    def _known(cls, value: tuple[Choice, ...]) -> tuple[Choice, ...]:
        names = [choice.name for choice in value]
        for name in names:
            if ":" not in name:  # a user's own is imported when it is used, not when a file that names it is read
                kind_class(name)
            if names.count(name) > 1:
                raise InputError(f"certificate.also must name each certificate once, got {name!r} more than once")
        return value

    @field_serializer("also")
    def _plain_names(self, value: tuple[Choice, ...]) -> list[Any]:
        return [choice.model_dump() if choice.options else choice.name for choice in value]

    def of(self, certificate: Choice | str, groups: Groups, num_failed: int = 0, trusted: int = 0) -> Guarantee:
        """The chosen certificate for these groups with these settings and this number of trusted votes."""
        return guarantee_for(certificate, groups, num_failed, {**self.model_dump(exclude={"also"}), "trusted": trusted})


def kind_class(name: str) -> type[Guarantee]:
    """The kind with this name, or a user's own at an import path."""
    kind = resolve_class("certificate", KINDS, name, Guarantee, ("title",))  # type: ignore[type-abstract]
    for setting in ("alpha", "selection") if kind.probabilistic else ():
        if setting not in kind.model_fields:
            raise InputError(f"certificate {name!r} is probabilistic, so it must have the field {setting!r}")
    return kind


def kinds_with(setting: str) -> list[str]:
    """The kinds that have this setting."""
    return [name for name, kind in KINDS.items() if setting in kind.model_fields]


def guarantee_for(
    certificate: Choice | str, groups: Groups, num_failed: int = 0, settings: Mapping[str, Any] | None = None
) -> Guarantee:
    """The chosen certificate for these groups, refused if it does not hold for them.

    Args:
        certificate: its name or import path; with options for the fields of a user's own kind.
        groups: who trained together.
        num_failed: groups with clients but without a model.
        settings: values such as alpha, for the kinds that have them, and trusted, the number of trusted votes.
    """
    choice = certificate if isinstance(certificate, Choice) else Choice(name=certificate)
    kind = kind_class(choice.name)
    kind.check_fits(choice.name, groups)
    settled = {"kind": choice.name, **kind.numbers(groups, num_failed)}
    for option in choice.options:
        if option in settled:
            raise InputError(f"{option} of certificate {choice.name!r} follows from the groups and cannot be an option")
    if "trusted" in choice.options:
        raise InputError(f"trusted of certificate {choice.name!r} is the same for every certificate, not an option")
    if choice.options:
        checked_options(kind, f"certificate {choice.name!r}", {**settled, **choice.options})
    return kind.of(choice.name, groups, num_failed=num_failed, settings={**(settings or {}), **choice.options})


def guarantee_from(values: Mapping[str, Any]) -> Guarantee:
    """A guarantee from plain values: "kind", by default that of disjoint groups, and the fields of that kind."""
    kind = values.get("kind") or DEFAULT_KIND
    return validated(kind_class(kind), {**values, "kind": kind})
