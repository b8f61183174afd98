"""The paper's experiments by name: one file per figure."""

from collections.abc import Callable
from dataclasses import dataclass

from flcert.errors import unknown_name
from flcert.experiments.backdoor import backdoor
from flcert.experiments.base_algorithms import base_algorithms
from flcert.experiments.comparison import comparison
from flcert.experiments.convergence import convergence
from flcert.experiments.cost import cost
from flcert.experiments.empirical import empirical
from flcert.experiments.groups import groups
from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome
from flcert.experiments.seeds import seeds


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper.

    Args:
        function: the function that makes it.
        uses: the options that apply to it.
        presets: the settings that the paper used; Chit-Chat stands in for Reddit, whose corpus you have to provide.
    """

    function: Callable[[Lab, Options], Outcome]
    uses: tuple[str, ...]
    presets: tuple[str, ...] = ("mnist-0.5",)


EXPERIMENTS = {
    "comparison": Experiment(comparison, ("beta", "copies"), ("mnist-0.1", "mnist-0.5", "cifar10", "har", "chitchat")),
    "groups": Experiment(groups, ("groups",)),
    "backdoor": Experiment(backdoor, ()),
    "seeds": Experiment(seeds, ("repeats",)),
    "base-algorithms": Experiment(base_algorithms, ("groups",)),
    "empirical": Experiment(empirical, ("groups", "malicious", "beta")),
    "cost": Experiment(cost, ("malicious", "beta", "single_rounds")),
    "convergence": Experiment(convergence, ("beta", "single_rounds")),
}
"""The experiments by name."""

IN_ORDER = ("convergence", "cost", "comparison", "groups", "backdoor", "seeds", "base-algorithms", "empirical")
"""All of them, in the order in which they share most: the first two keep models of earlier rounds, too, and the others
find the same groups in the store, the single global model included. The other way round they would be trained again."""

__all__ = ["EXPERIMENTS", "IN_ORDER", "Experiment", "Lab", "Options", "Outcome", "experiment"]


def experiment(name: str) -> Experiment:
    """The experiment with this name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
