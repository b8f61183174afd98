"""Schedules by name: how the learning rate changes from the first step of a training to its last.

A schedule gives a factor on the learning rate for the progress of the training: (r - 1 + s / S) / R in step s = 0, 1,
... of the S steps that a client takes in round r of R. The first step has progress 0, and progress 1 is the end: no
step is taken there, so the smallest rate of ``linear`` and ``cosine`` is approached and not wasted on a step.
"""

from collections.abc import Callable
from itertools import pairwise
from math import cos, pi
from typing import Annotated

from pydantic import Field

from flcert.core import plugins
from flcert.core.settings import Choice
from flcert.errors import InputError

Schedule = Callable[[float], float]  # from the progress in [0, 1) to the factor

Share = Annotated[float, Field(ge=0, le=1)]
Inside = Annotated[float, Field(gt=0, lt=1)]


def constant() -> Schedule:
    """The full rate, always."""
    return lambda progress: 1.0  # noqa: ARG005


def linear(final: Share = 0.0) -> Schedule:
    """From the full rate down in a straight line.

    Args:
        final: the share of the rate at the end.
    """
    return lambda progress: 1 + (final - 1) * progress


def cosine(final: Share = 0.0) -> Schedule:
    """From the full rate down along half a cosine: slowly, then fast, then slowly.

    Args:
        final: the share of the rate at the end.
    """
    return lambda progress: _along_cosine(1, final, progress)


def one_cycle(warmup: Inside = 0.3, start: Share = 0.04, final: Share = 0.0) -> Schedule:
    """Up to the full rate and down again, each along half a cosine.

    Args:
        warmup: the share of the training until the full rate.
        start: the share of the rate at the start.
        final: the share of the rate at the end.
    """

    def factor(progress: float) -> float:
        if progress < warmup:
            return _along_cosine(start, 1, progress / warmup)
        return _along_cosine(1, final, (progress - warmup) / (1 - warmup))

    return factor


def steps(at: Annotated[tuple[Inside, ...], Field(min_length=1)] = (0.5, 0.75), factor: Share = 0.1) -> Schedule:
    """The full rate, multiplied by a factor at each of some points.

    Args:
        at: the points, rising, as shares of the training; round 61 of 100 begins at 0.6.
        factor: what the rate is multiplied by at each.
    """
    if any(later <= earlier for earlier, later in pairwise(at)):
        raise InputError(f"option 'at' of schedule 'steps' must rise from point to point, got {list(at)}")
    return lambda progress: float(factor ** sum(progress >= point for point in at))


def _along_cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + cos(pi * share)) / 2


SCHEDULES: dict[str, plugins.Factory] = {
    "constant": constant,
    "cosine": cosine,
    "linear": linear,
    "one-cycle": one_cycle,
    "steps": steps,
}
"""The schedules by name."""


def build(choice: Choice) -> Schedule:
    """The schedule with this name, or the one that a user's ``package.module:factory`` returns."""
    schedule: Schedule = plugins.build("schedule", SCHEDULES, choice)
    return schedule
