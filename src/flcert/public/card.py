"""The card of a public model: where it comes from, and how good it is on data of its own."""

from typing import Any

from pydantic import Field

from flcert.core.settings import Choice, Strict


class SourceFacts(Strict):
    """One source of the data that a public model was trained on.

    Args:
        name: its short name.
        title: what it is.
        licence: under which terms it may be used.
        examples: how many examples it gave.
        digest: a digest of those examples.
        files: the SHA-256 of each file that they were made from, by name; empty for data inside a package.
    """

    name: str
    title: str
    licence: str
    examples: int = Field(gt=0)
    digest: str
    files: dict[str, str] = Field(default_factory=dict)


class Card(Strict):
    """What is known about a public model.

    Args:
        name: its name.
        model: the network, as in ``recipe.model``.
        input_shape: shape of one input.
        num_labels: L.
        sources: what it was trained on.
        training: how it was trained, with the seed.
        held_out: how many examples of its own sources were kept apart.
        accuracy: its accuracy on those; the test set of a federation is never looked at.
        versions: of the programs that trained it.
    """

    name: str
    model: Choice
    input_shape: tuple[int, ...]
    num_labels: int = Field(ge=2)
    sources: tuple[SourceFacts, ...]
    training: dict[str, Any]
    held_out: int = Field(ge=0)
    accuracy: float | None = None
    versions: dict[str, str] = Field(default_factory=dict)
