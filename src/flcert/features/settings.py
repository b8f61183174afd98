"""How groups use public features."""

from typing import Self

from pydantic import Field, model_validator

from flcert.core.settings import Choice
from flcert.errors import InputError


class Features(Choice):
    """A public function of an input, on whose output groups train the model.

    Args:
        name: a name from ``flcert.features.FEATURES`` or an import path.
        options: options of the function.
        weights: a safetensors file with the weights of a user's own function; a factory may also bring its own.
        copies: how many changed copies of each training example to add; needs an augmentation.
        augmentation: how to change them, before they pass the function; as in ``recipe.augmentation``.
        seed: the seed of these changes, which come from a stream of each client.
    """

    weights: str | None = Field(default=None, min_length=1)
    copies: int = Field(default=0, ge=0, le=10_000)
    augmentation: Choice | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _copies_are_changed(self) -> Self:
        if self.copies and self.augmentation is None:
            raise InputError(f"recipe.features.copies needs recipe.features.augmentation, got {self.copies} alone")
        if self.augmentation is not None and not self.copies:
            raise InputError("recipe.features.augmentation needs recipe.features.copies of at least 1, got 0")
        return self
