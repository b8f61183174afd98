"""Random streams, derived by name and never by order of calls.

Every stream belongs to one purpose and, where it applies, one client and one round. No client can shift the stream of
another, and a resumed run draws the same numbers as an uninterrupted one.
"""

import json

import numpy as np

from flcert.core.digest import named_number

Step = int | str


def derive(seed: int, *path: Step) -> int:
    """A 63-bit integer derived from this seed and path.

    >>> derive(0, "batches", "user-1", 3) == derive(0, "batches", "user-1", 3)
    True
    >>> derive(0, "a", "bc") == derive(0, "ab", "c")
    False
    """
    return named_number(json.dumps([seed, *path]), b"flcert-seed") >> 1


def stream(seed: int, *path: Step) -> np.random.Generator:
    """A separate random generator for this seed and path."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))
