"""A federation of three words each, for a model of words."""

import numpy as np

from flcert.datasets import Federation


def load():
    rng = np.random.default_rng(0)
    clients = {f"user-{i}": (rng.integers(1, 9, (12, 3)), rng.integers(1, 9, 12)) for i in range(6)}
    return Federation.build("words", clients, (rng.integers(1, 9, (20, 3)), rng.integers(1, 9, 20)), 9)
