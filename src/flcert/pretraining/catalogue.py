"""The public models that come with a name."""

from collections.abc import Sequence

from flcert.errors import unknown_name
from flcert.pretraining.digits import ADDITIONS
from flcert.pretraining.heads import HEADS
from flcert.public.names import BASE, NAMES

STEPS, MORE_STEPS = 2500, 6000
"""Steps of training, without and with additions."""


def catalogue() -> dict[str, str]:
    """The names of the catalogue, each with what the model is made of."""
    return {name: HEADS[name].title if name in HEADS else _drawn(additions(name)) for name in NAMES}


def _drawn(some: Sequence[str]) -> str:
    return "; ".join(["scikit-learn's digits", *(ADDITIONS[name].source.title for name in some)])


def additions(name: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """What a name adds to scikit-learn's digits, with further additions, each once.

    >>> additions("digits-28+fonts", ["pen"])
    ('pen', 'fonts')
    """
    base, *named = name.split("+")
    if base != BASE:
        raise unknown_name("public model", name, NAMES)
    for one in (*named, *more):
        if one not in ADDITIONS:
            raise unknown_name("public source", one, ADDITIONS)
    return tuple(one for one in ADDITIONS if one in (*named, *more))
