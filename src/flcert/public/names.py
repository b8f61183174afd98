"""The names of the catalogue of public models, which ``flcert pretrain`` makes and everybody else only names."""

from collections.abc import Collection
from itertools import combinations

BASE = "digits-28"
"""The model that is trained on scikit-learn's digits alone; names of others add to it."""

ADDITIONS = ("pen", "fonts")
"""What may be added to it, in the order in which names have them."""

HEADS = ("cifar10-imagenet",)
"""Heads that are made of published weights, without training."""


def full_name(additions: Collection[str]) -> str:
    """The name of digits-28 with these additions.

    >>> full_name(["fonts", "pen"])
    'digits-28+pen+fonts'
    """
    return "+".join([BASE, *(name for name in ADDITIONS if name in additions)])


NAMES = (
    *(full_name(some) for number in range(len(ADDITIONS) + 1) for some in combinations(ADDITIONS, number)),
    *HEADS,
)
"""All names of the catalogue."""
