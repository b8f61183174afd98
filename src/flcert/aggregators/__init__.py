"""Aggregation rules by name: how one group's updates become one."""

from flcert.aggregators.bulyan import bulyan
from flcert.aggregators.fedavg import fedavg
from flcert.aggregators.fltrust import fltrust
from flcert.aggregators.krum import krum
from flcert.aggregators.median import median
from flcert.aggregators.multi_krum import multi_krum
from flcert.aggregators.protocol import Aggregator, Round
from flcert.aggregators.trimmed_mean import trimmed_mean
from flcert.core import plugins
from flcert.core.settings import Choice

AGGREGATORS: dict[str, plugins.Factory] = {
    "bulyan": bulyan,
    "fedavg": fedavg,
    "fltrust": fltrust,
    "krum": krum,
    "median": median,
    "multi-krum": multi_krum,
    "trimmed-mean": trimmed_mean,
}
"""The aggregation rules by name."""

__all__ = ["AGGREGATORS", "Aggregator", "Round", "build", "substitute", "uses_root"]


def build(choice: Choice) -> Aggregator:
    """The aggregator with this name, or the one that a user's ``package.module:factory`` returns."""
    aggregator: Aggregator = plugins.build("aggregator", AGGREGATORS, choice)
    return aggregator


def uses_root(aggregator: Aggregator) -> bool:
    """Whether the rule needs the server's own update on its root set."""
    return bool(getattr(aggregator, "uses_root", False))


def substitute(aggregator: Aggregator, num_updates: int) -> str | None:
    """The name of the rule that replaces this one when a round has this few updates; None if none does."""
    named = getattr(aggregator, "substitute", None)
    return named(num_updates) if named else None
