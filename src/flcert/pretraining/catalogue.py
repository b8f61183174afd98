"""The public models that come with a name."""

from collections.abc import Sequence
from itertools import combinations

from flcert.errors import unknown_name
from flcert.pretraining.digits import ADDITIONS
from flcert.pretraining.heads import HEADS

BASE = "digits-28"
"""The model that is trained on scikit-learn's digits alone; names of others add to it."""

STEPS, MORE_STEPS = 2500, 6000
"""Steps of training, without and with additions."""


def catalogue() -> dict[str, str]:
    """The names of the catalogue, each with what the model is made of."""
    choices = (chosen for number in range(len(ADDITIONS) + 1) for chosen in combinations(ADDITIONS, number))
    parts = {name: addition.source.title for name, addition in ADDITIONS.items()}
    drawn = {full_name(some): "; ".join(["scikit-learn's digits", *(parts[name] for name in some)]) for some in choices}
    return {**drawn, **{name: head.title for name, head in HEADS.items()}}


def full_name(additions: Sequence[str]) -> str:
    """The name of digits-28 with these additions.

    >>> full_name(["fonts", "pen"])
    'digits-28+pen+fonts'
    """
    return "+".join([BASE, *(name for name in ADDITIONS if name in additions)])


def additions(name: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """What a name adds to scikit-learn's digits, with further additions, each once.

    >>> additions("digits-28+fonts", ["pen"])
    ('pen', 'fonts')
    """
    base, *named = name.split("+")
    if base != BASE:
        raise unknown_name("public model", name, catalogue())
    for one in (*named, *more):
        if one not in ADDITIONS:
            raise unknown_name("public source", one, ADDITIONS)
    return tuple(one for one in ADDITIONS if one in (*named, *more))
