"""What server and clients agree on: the data, the model and the settings of local training."""

from functools import cache
from typing import Any

import flcert


@cache
def federation(num_clients: int) -> flcert.Federation:
    """Scikit-learn's digits. A real client loads its own data, and a real server its own test set."""
    return flcert.datasets.load("digits", num_clients=num_clients)


def recipe(settings: dict[str, Any]) -> flcert.Recipe:
    """The settings of the Flower run as a recipe of flcert."""
    return flcert.Recipe(
        rounds=int(settings["num-rounds"]),
        local_steps=int(settings["local-steps"]),
        learning_rate=float(settings["learning-rate"]),
        batch_size=int(settings["batch-size"]),
        participation=float(settings["participation"]),
        seed=int(settings["seed"]),
    )
