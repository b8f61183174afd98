"""The JSON files of a run directory, one class each, for both writing and reading.

Each file carries its format number. Files of format 1 have no number, and can still be read.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializeAsAny

from flcert.certify import Figures, Guarantee, guarantee_from, kind_class
from flcert.core.plugins import CANNOT_IMPORT
from flcert.core.settings import Choice, Strict, validated
from flcert.errors import InputError
from flcert.public import Card

FORMAT: Final = 2
"""The format that this version writes."""


def check_format(values: Mapping[str, Any], where: object) -> None:
    """Refuse a file whose format this version does not know."""
    found = values.get("format", 1)
    if found not in (1, FORMAT):
        raise InputError(f"{where} is of format {found!r}; this version of flcert reads formats 1 and {FORMAT}")


class Record(Strict):
    """A JSON file of a run directory.

    Args:
        format: the number of its format.
    """

    file: ClassVar[str]

    format: Literal[2] = FORMAT

    @classmethod
    def read(cls, values: Any, where: object) -> Self:
        """Parse the contents of a file; refuse what a run would not write."""
        if isinstance(values, dict):
            check_format(values, where)
        try:
            if not isinstance(values, dict) or values.get("format", 1) == 1:
                values = {**cls.from_format_1(values), "format": FORMAT}
            return validated(cls, values)
        except InputError as error:
            if CANNOT_IMPORT in str(error):
                raise InputError(f"{error}; --modules names the directory of your own modules") from None
            raise InputError(f"{where} is damaged: {error}") from None

    @classmethod
    def from_format_1(cls, values: Any) -> dict[str, Any]:
        """Convert the contents of a file of format 1 to the current format."""
        return dict(values) if isinstance(values, dict) else {"": values}

    def told(self) -> dict[str, Any]:
        """The fields as JSON values, without those that are unknown or empty."""
        values = self.model_dump(mode="json", exclude={"format"}, exclude_none=True)
        return {name: value for name, value in values.items() if value != {}}


class DataFacts(Strict):
    """What the manifest says about the data.

    Args:
        name: what to call them.
        digest: a digest of all that the server holds.
        clients: n, excluded ones among them.
        examples: those of all clients; None if unknown.
        test_inputs: how many.
        input_shape: the shape of one input.
        input_dtype: their type.
        labels: L.
        excluded: clients whose data were unusable and left out, with the reasons.
    """

    name: str
    digest: str
    clients: int
    examples: int | None
    test_inputs: int
    input_shape: tuple[int, ...]
    input_dtype: Literal["float32", "int64"]
    labels: int
    excluded: dict[str, str] = Field(default_factory=dict)


class DroppedReply(Strict):
    """A reply from a real client that was not used.

    Args:
        round: the training round, from 1.
        user: the user who sent it, or should have.
        reason: why it was dropped.
    """

    round: int
    user: str
    reason: str


class DroppedReplies(Record):
    """The replies from one group's clients that were not used."""

    dropped: tuple[DroppedReply, ...]

    @classmethod
    def from_format_1(cls, values: Any) -> dict[str, Any]:
        """Format 1 was a list."""
        return {"dropped": values}


class GroupFacts(Strict):
    """What the manifest says about a group.

    Args:
        clients: how many it has.
        model: the key of its model, or None if it has no model.
        failure: why it has clients but no model.
        finite: whether all numbers in its model are finite.
        substitute: the rule used instead of the aggregator because the group is too small for it.
        dropped: replies from real clients that were not used.
    """

    clients: int
    model: str | None
    failure: str | None
    finite: bool = True
    substitute: str | None = None
    dropped: tuple[DroppedReply, ...] = ()


class NetworkFacts(Strict):
    """What the manifest says about real clients.

    Args:
        flwr: the version of Flower.
        strategy: the groups' strategy.
        absent: users who were not connected.
    """

    flwr: str
    strategy: str
    absent: tuple[str, ...]


def _guarantee(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value.get("kind", ""), str):
        raise InputError(f"guarantee.kind must be a name, got {value['kind']!r}")
    return guarantee_from(value) if isinstance(value, dict) else value


class FunctionFacts(Strict):
    """What the manifest says about the public function of an input.

    Args:
        choice: which one, with all options.
        identity: a digest of its code, options and weights.
        width: the number of features.
        weights: whether its weights are in the run directory, or come with its factory.
    """

    choice: Choice
    identity: str
    width: int
    weights: bool


class OverlapFacts(Strict):
    """How many inputs were found among those that the public model was trained on.

    Args:
        test_inputs: the number of test inputs that were looked up, and of those found; None if it is not known.
        clients: the same for the examples of all clients; None if the server does not know them.
    """

    test_inputs: tuple[int, int | None]
    clients: tuple[int, int | None] | None = None


class PublicFacts(Strict):
    """What the manifest says about what no client can influence.

    Args:
        name: the public model that groups started from, if any.
        start: the digest of the weights that they started from.
        card: where that model comes from; None for a file without a card.
        function: the public function of an input, if groups trained a head on its features.
        trusted: the digest of the weights of the trusted model, if one votes beside the groups.
        overlap: how many inputs the public model had seen; None if there is no such model.
        bytes_a_round: what a client sends in a round.
        bytes_stored: the bytes of all groups' models, before any compression.
        bytes_without: the same two for models that take the inputs themselves, if that network is known.
    """

    name: str | None = None
    start: str | None = None
    card: Card | None = None
    function: FunctionFacts | None = None
    trusted: str | None = None
    overlap: OverlapFacts | None = None
    bytes_a_round: int
    bytes_stored: int
    bytes_without: tuple[int, int] | None = None


class Manifest(Record):
    """Versions, digests, the guarantee, and the key of every group's model.

    Args:
        versions: of the packages that decide results.
        platform: of the machine that wrote it.
        sources: digests of the user's own modules.
        seeds: of training and of the groups.
        data: what was learnt from.
        guarantee: which theorem; it follows from the configuration and the groups, and is here for people to read.
        groups: the model of each group, or why it has none.
        network: what is known about real clients.
        public: what no client can influence.
        kernels: how many groups were trained with which kernels; empty in runs of earlier versions.
        files: the digest of each file of the run; empty in runs of earlier versions.
        digest: of all of the above; empty in runs of earlier versions.
    """

    file: ClassVar[str] = "manifest.json"

    versions: dict[str, str]
    platform: str
    sources: tuple[str, ...]
    seeds: dict[str, Any]
    data: DataFacts
    guarantee: Annotated[SerializeAsAny[Guarantee], BeforeValidator(_guarantee)]
    groups: tuple[GroupFacts, ...]
    network: NetworkFacts | None = None
    public: PublicFacts | None = None
    kernels: dict[str, int] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    digest: str = ""

    @classmethod
    def from_format_1(cls, values: Any) -> dict[str, Any]:
        """In format 1, every guarantee had the fields of all kinds of certificates."""
        known = super().from_format_1(values)
        found = known.get("guarantee")
        if isinstance(found, dict) and isinstance(found.get("kind"), str):
            fields = kind_class(found["kind"]).model_fields
            known["guarantee"] = {name: value for name, value in found.items() if name in fields}
        return known


class AttackFigures(Strict):
    """What a simulated attack did.

    Args:
        name: the attack's name.
        malicious: how many clients ran it.
        groups_attacked: how many groups they were in.
        accuracy_without_attack: the ensemble's accuracy.
        accuracy_under_attack: the same under attack.
        changed: how many labels changed.
        certified: how many labels are certified for this many clients.
        certified_changed: how many of those changed.
        success_rate_without_attack: a backdoor's success rate, leaving out inputs whose true label is the target.
        success_rate_under_attack: the same under attack.
        success_rate_at_most: a certified bound on the success rate of any backdoor with this trigger and target by as
            many clients; None if the certificate cannot tell.
        certified_accuracy_on_stamped_inputs: CA@m at index m on inputs with a backdoor's trigger.
    """

    name: str
    malicious: int
    groups_attacked: int
    accuracy_without_attack: float
    accuracy_under_attack: float
    changed: int
    certified: int
    certified_changed: int
    success_rate_without_attack: float | None = None
    success_rate_under_attack: float | None = None
    success_rate_at_most: float | None = None
    certified_accuracy_on_stamped_inputs: tuple[float, ...] | None = None


class PublicFigures(Strict):
    """What the public model reaches alone, which no number of clients can change.

    Args:
        name: its name.
        accuracy: its accuracy on the test inputs.
        above_until: the largest m at which the certified accuracy of the run is above it; None if it never is.
    """

    name: str
    accuracy: float
    above_until: int | None

    @classmethod
    def of(
        cls, name: str, labels: NDArray[np.integer], truth: NDArray[np.integer], curve: NDArray[np.float64]
    ) -> "PublicFigures":
        """The figures beside a curve of certified accuracy, which never rises."""
        accuracy = float(np.mean(labels == truth))
        return cls(name=name, accuracy=accuracy, above_until=above_until(curve, accuracy))


def above_until(curve: NDArray[np.float64], accuracy: float) -> int | None:
    """The largest m at which a curve of certified accuracy is above an accuracy; None if it never is.

    >>> above_until(np.array([0.9, 0.8, 0.7]), 0.75), above_until(np.array([0.9, 0.8, 0.7]), 0.9)
    (1, None)
    """
    above = np.flatnonzero(curve > accuracy)
    return int(above[-1]) if len(above) else None


class Summary(Record):
    """The main figures of a run.

    Args:
        certificate: the kind of certificate.
        inputs: the number of test inputs.
        accuracy: the accuracy without attack.
        abstained: the number of inputs for which nothing is certified.
        median_level: the median level of all inputs.
        largest_level: the largest level of all inputs.
        certified_accuracy: CA@m at index m.
        also: the figures of further certificates of the same models, by kind.
        attack: what a simulated attack did.
        public: what the public model reaches alone, if groups started from one.
        excluded: how many clients' data were unusable and left out; None if none were.
    """

    file: ClassVar[str] = "summary.json"

    certificate: str
    inputs: int
    accuracy: float
    abstained: int
    median_level: int
    largest_level: int
    certified_accuracy: tuple[float, ...]
    also: dict[str, Figures] = Field(default_factory=dict)
    attack: AttackFigures | None = None
    public: PublicFigures | None = None
    excluded: int | None = None

    @classmethod
    def from_format_1(cls, values: Any) -> dict[str, Any]:
        """Format 1 did not record the titles of further certificates."""
        known = super().from_format_1(values)
        also = known.get("also", {})
        if isinstance(also, dict):
            titles = {kind: {"title": kind_class(kind).title} for kind in also}
            known["also"] = {
                kind: titles[kind] | figures if isinstance(figures, dict) else figures for kind, figures in also.items()
            }
        return known


class Sample(Strict):
    """A test input for people to look at.

    Args:
        position: its position in the test set.
        truth: its true label.
        label: the label that the groups vote for.
        level: the level proved for it.
        abstained: whether nothing is certified.
        votes: the labels with the most votes, and their counts, trusted votes among them.
        shown: what a person sees: the pixels of a picture as base64-encoded bytes, a text, or numbers.
    """

    position: int
    truth: int
    label: int
    level: int
    abstained: bool
    votes: tuple[tuple[int, int], ...]
    shown: str | tuple[float, ...]


class Samples(Record):
    """Some test inputs for people to look at.

    Args:
        kind: what ``shown`` is.
        shape: the shape of a picture: rows and columns, after channels if there are several.
        names: what people call the labels, if they have names.
        inputs: the test inputs.
    """

    file: ClassVar[str] = "samples.json"

    kind: Literal["image", "text", "features"]
    shape: tuple[int, ...]
    names: dict[int, str]
    inputs: tuple[Sample, ...]


class GroupIds(Record):
    """The user ids of each group, and what certificates ask of the groups.

    Args:
        groups: the user ids of each group.
        group_size: k, if all groups have the same size by construction.
        drawn: whether they were drawn at random; None in files of format 1, which do not say.
        distinct: whether they were drawn without repetition.
    """

    file: ClassVar[str] = "groups.json"

    groups: tuple[tuple[str, ...], ...]
    group_size: int | None = None
    drawn: bool | None = None
    distinct: bool = False

    @classmethod
    def from_format_1(cls, values: Any) -> dict[str, Any]:
        """Convert format 1, which was a list."""
        return {"groups": values}
