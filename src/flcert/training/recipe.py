"""How a group trains: the base algorithm and all its settings."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from flcert.aggregators import AGGREGATORS
from flcert.core.plugins import named_in
from flcert.core.seeding import derive
from flcert.core.settings import Choice, Strict
from flcert.features import Features
from flcert.models import MODELS
from flcert.training.augmentation import AUGMENTATIONS
from flcert.training.optimisers import OPTIMISERS
from flcert.training.schedules import SCHEDULES
from flcert.training.smoothing import Smoothing

ONE_LENGTH = "local_epochs takes the place of local_steps: give one of them"


class Variant(Strict):
    """Settings of some groups that differ from the recipe's; those left out stay as they are."""

    aggregator: Annotated[Choice, named_in(AGGREGATORS)] | None = None
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    local_steps: int | None = Field(default=None, gt=0)
    local_epochs: int | None = Field(default=None, gt=0)
    learning_rate: float | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, gt=0)
    optimiser: Annotated[Choice, named_in(OPTIMISERS)] | None = None

    @model_validator(mode="after")
    def _one_length(self) -> "Variant":
        if self.local_steps and self.local_epochs:
            raise ValueError(f"{ONE_LENGTH}, got {self.local_epochs} and {self.local_steps}")
        return self

    def settings(self) -> dict[str, Any]:
        """The settings that are given; steps take the place of epochs, and epochs that of steps."""
        given = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        if self.local_steps:
            given["local_epochs"] = None
        if self.local_epochs:
            given["local_steps"] = Recipe().local_steps
        return given


class Recipe(Strict):
    """How each group trains. The defaults suit scikit-learn's digits.

    Args:
        model: a name from ``flcert.models.MODELS`` or an import path.
        aggregator: a name from ``flcert.aggregators.AGGREGATORS`` or an import path.
        rounds: global iterations T_e.
        local_steps: steps that a client takes in a round.
        local_epochs: passes over its own examples that a client makes in a round, in place of ``local_steps``.
        learning_rate: the learning rate of the local optimiser.
        batch_size: examples in a batch, drawn without repetition; all of them if a client has fewer.
        reduction: the loss of a batch is the "mean" or the "sum" over its examples. The paper's code summed.
        gradient_clip: the largest norm of a batch's gradient; longer ones are scaled down to it.
        optimiser: a name from ``flcert.training.optimisers.OPTIMISERS`` or an import path; by default plain SGD. Each
            client starts a new one in each round.
        schedule: how the learning rate changes over the rounds and their steps; a name from
            ``flcert.training.schedules.SCHEDULES`` or an import path; by default not at all.
        proximal: FedProx's mu; half of it times the squared distance from the model that the round began with is added
            to the loss of a batch.
        label_smoothing: the share of each label that the loss spreads evenly over all labels.
        label_weights: "equal" weighs each example of a batch by 1 / how many examples of its label the client has, so
            that a client's rare labels count as much as its frequent ones; by default all examples weigh the same.
        participation: beta_e, the share of a group's clients that take part in a round, at least one.
        seed: the seed of the initial model, the batches and the participation.
        seeds: "shared" gives all groups the same seed, as in the paper; "per-group" derives one for each.
        evaluate_at: earlier rounds after which votes are taken too. They are for reading: clients influence them, so
            whoever chooses the round by them lets one client change every group.
        augmentation: how clients change their examples at random while they train; a name from
            ``flcert.training.augmentation.AUGMENTATIONS`` or an import path.
        initial: the public model that every group starts from: a name from the catalogue of ``flcert pretrain``, or the
            path of a safetensors file. By default the seed decides the weights.
        features: a public function of an input, on whose output groups train the model; by default none.
        models_per_group: how many models a group trains, each with a seed of its own; their scores are added up to one
            vote. By default one.
        smoothing: CRFL's clipping and noise, if that is the algorithm.
        variants: settings that differ between groups: group g uses entry g modulo their number.
    """

    model: Annotated[Choice, named_in(MODELS)] = Choice(name="mlp")
    aggregator: Annotated[Choice, named_in(AGGREGATORS)] = Choice(name="fedavg")
    rounds: int = Field(default=30, gt=0)
    local_steps: int = Field(default=5, gt=0)
    local_epochs: int | None = Field(default=None, gt=0)
    learning_rate: float = Field(default=0.5, gt=0)
    batch_size: int = Field(default=16, gt=0)
    reduction: Literal["mean", "sum"] = "mean"
    gradient_clip: float | None = Field(default=None, gt=0)
    optimiser: Annotated[Choice, named_in(OPTIMISERS)] | None = None
    schedule: Annotated[Choice, named_in(SCHEDULES)] | None = None
    proximal: float | None = Field(default=None, gt=0)
    label_smoothing: float | None = Field(default=None, gt=0, lt=1)
    label_weights: Literal["equal"] | None = None
    participation: float = Field(default=1.0, gt=0, le=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    seeds: Literal["shared", "per-group"] = "shared"
    evaluate_at: tuple[int, ...] = ()
    augmentation: Annotated[Choice, named_in(AUGMENTATIONS)] | None = None
    initial: str | None = Field(default=None, min_length=1)
    features: Features | None = None
    models_per_group: int | None = Field(default=None, ge=1, le=1000)
    smoothing: Smoothing | None = None
    variants: tuple[Variant, ...] = ()

    @field_validator("evaluate_at")
    @classmethod
    def _sorted_rounds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @field_validator("models_per_group")
    @classmethod
    def _one_is_none(cls, value: int | None) -> int | None:
        return None if value == 1 else value

    @model_validator(mode="after")
    def _rounds_in_range(self) -> "Recipe":
        outside = [point for point in self.evaluate_at if not 1 <= point <= self.rounds]
        if outside:
            raise ValueError(f"evaluate_at must be in [1, rounds={self.rounds}], got {outside[0]}")
        return self

    @model_validator(mode="after")
    def _changes_before_features(self) -> "Recipe":
        if self.features and self.augmentation:
            raise ValueError(
                "recipe.augmentation changes what a model receives, which features are; "
                f"use recipe.features.augmentation, got {self.augmentation.name!r}"
            )
        return self

    @model_validator(mode="after")
    def _one_model_with_smoothing(self) -> "Recipe":
        if self.smoothing and self.models_per_group:
            raise ValueError(f"recipe.smoothing is for one model a group, got models_per_group={self.models_per_group}")
        return self

    @model_validator(mode="after")
    def _one_length(self) -> "Recipe":
        usual = type(self).model_fields["local_steps"].default
        if self.local_epochs and self.local_steps != usual:
            got = f"got {self.local_epochs} and {self.local_steps} ({usual}, the default, is no choice)"
            raise ValueError(f"{ONE_LENGTH}, {got}")
        return self

    def of_model(self, number: int) -> "Recipe":
        """The recipe of one of a group's several models, with a seed of its own."""
        return self.model_copy(update={"models_per_group": None, "seed": derive(self.seed, "model", number)})

    def of_group(self, group: int) -> "Recipe":
        """The recipe of one group, with its variant and its own seed filled in."""
        changed = self.variants[group % len(self.variants)].settings() if self.variants else {}
        recipe = self.model_copy(update={**changed, "variants": ()})
        if recipe.seeds == "per-group":
            recipe = recipe.model_copy(update={"seed": derive(recipe.seed, "group", group)})
        return recipe

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The rounds whose models are kept; the last is always one of them."""
        return tuple(sorted({*self.evaluate_at, self.rounds}))
