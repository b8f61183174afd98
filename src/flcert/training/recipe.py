"""What is done with one group: the base algorithm and all its settings."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from flcert.registry import Choice, Strict


class Recipe(Strict):
    """How each group trains. The defaults suit scikit-learn's digits.

    Args:
        model: a name from ``flcert.models.MODELS`` or an import path.
        aggregator: a name from ``flcert.aggregators.AGGREGATORS`` or an import path.
        rounds: global iterations T_e.
        local_steps: SGD steps that a client makes in a round.
        learning_rate: of the local SGD.
        batch_size: examples in a batch, drawn without repetition; all of them where a client has fewer.
        reduction: the loss of a batch is the "mean" or the "sum" over its examples. The paper's code summed.
        participation: beta_e, the share of a group's clients that take part in a round, at least one.
        seed: of the initial model, the batches and the participation.
        seeds: "shared" gives all groups the same seed, as in the paper; "per-group" derives one for each.
        evaluate_at: rounds before the last after which votes are taken too.
    """

    model: Choice = Choice(name="mlp")
    aggregator: Choice = Choice(name="fedavg")
    rounds: int = Field(default=30, gt=0)
    local_steps: int = Field(default=5, gt=0)
    learning_rate: float = Field(default=0.5, gt=0)
    batch_size: int = Field(default=16, gt=0)
    reduction: Literal["mean", "sum"] = "mean"
    participation: float = Field(default=1.0, gt=0, le=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    seeds: Literal["shared", "per-group"] = "shared"
    evaluate_at: tuple[int, ...] = ()

    @field_validator("evaluate_at")
    @classmethod
    def _sorted_rounds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _rounds_in_range(self) -> "Recipe":
        outside = [point for point in self.evaluate_at if not 1 <= point <= self.rounds]
        if outside:
            raise ValueError(f"evaluate_at must be in [1, rounds={self.rounds}], got {outside[0]}")
        return self

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The rounds whose models are kept; the last is always one of them."""
        return tuple(sorted({*self.evaluate_at, self.rounds}))
