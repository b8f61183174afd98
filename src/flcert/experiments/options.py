"""What a user may change in an experiment."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from flcert.core.settings import Strict, complaint
from flcert.errors import InputError

Positive = Annotated[int, Field(gt=0)]


class Options(Strict):
    """Settings of experiments; each experiment uses only some of them.

    Args:
        groups: numbers of groups N to compare (groups); the first is used by base-algorithms and empirical.
        malicious: numbers of malicious clients m (empirical); the first is used by cost.
        repeats: number of pairs of seeds (seeds); the paper used 50.
        beta: share of the clients in a round of the single global model (the paper: 0.1).
        copies: M, the number of noisy copies of CRFL's model that vote (comparison).
        single_rounds: T of the single global model (cost, convergence); by default five times T_e, as in the paper.
    """

    groups: tuple[Positive, ...] = ()
    malicious: tuple[Annotated[int, Field(ge=0)], ...] = ()
    repeats: int = Field(default=5, ge=2)
    beta: float = Field(default=0.1, gt=0, le=1)
    copies: int = Field(default=1000, gt=0)
    single_rounds: Positive | None = None


def checked(experiment: str, uses: Sequence[str], **values: object) -> Options:
    """Build an experiment's options from the given values; an error names the option, the rule and the value.

    Args:
        experiment: its name.
        uses: the options that apply to it.
        values: the value of each option; None if the user gave none.
    """
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        if name not in uses:
            raise InputError(f"--{name.replace('_', '-')} means nothing to {experiment}, got {value}")
    try:
        return Options.model_validate(given)
    except ValidationError as failure:
        name = str(failure.errors()[0]["loc"][0]).replace("_", "-")
        raise complaint(failure, f"--{name}") from None
