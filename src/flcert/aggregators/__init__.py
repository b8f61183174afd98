"""Aggregation rules by name: how one group's updates become one."""

from flcert.aggregators.bulyan import bulyan
from flcert.aggregators.fedadam import fedadam
from flcert.aggregators.fedavg import fedavg
from flcert.aggregators.fedavgm import fedavgm
from flcert.aggregators.fedsum import fedsum
from flcert.aggregators.fedyogi import fedyogi
from flcert.aggregators.fltrust import fltrust
from flcert.aggregators.krum import krum
from flcert.aggregators.median import median
from flcert.aggregators.multi_krum import multi_krum
from flcert.aggregators.protocol import Aggregator, Memory, Round
from flcert.aggregators.trimmed_mean import trimmed_mean
from flcert.core import plugins
from flcert.core.settings import Choice

AGGREGATORS: dict[str, plugins.Factory] = {
    "bulyan": bulyan,
    "fedadam": fedadam,
    "fedavg": fedavg,
    "fedavgm": fedavgm,
    "fedsum": fedsum,
    "fedyogi": fedyogi,
    "fltrust": fltrust,
    "krum": krum,
    "median": median,
    "multi-krum": multi_krum,
    "trimmed-mean": trimmed_mean,
}
"""The aggregation rules by name."""

__all__ = ["AGGREGATORS", "Aggregator", "Memory", "Round", "build", "remembered", "substitute", "uses_root"]


def build(choice: Choice) -> Aggregator:
    """The aggregator with this name, or the one that a user's ``package.module:factory`` returns."""
    aggregator: Aggregator = plugins.build("aggregator", AGGREGATORS, choice)
    return aggregator


def remembered(aggregator: Aggregator, given: Round) -> Memory:
    """What the rule must know in the group's next round; empty for most rules."""
    remember = getattr(aggregator, "remember", None)
    return remember(given) if remember else ()


def uses_root(aggregator: Aggregator) -> bool:
    """Whether the rule needs the server's own update on its root set."""
    return bool(getattr(aggregator, "uses_root", False))


def substitute(aggregator: Aggregator, num_updates: int) -> str | None:
    """The name of the rule that replaces this one when a round has this few updates; None if none does."""
    named = getattr(aggregator, "substitute", None)
    return named(num_updates) if named else None
