"""Aggregation rules by name: how one group's updates become one."""

from flcert import registry
from flcert.aggregators.fedavg import fedavg
from flcert.aggregators.protocol import Aggregator
from flcert.registry import Choice

AGGREGATORS: dict[str, registry.Factory] = {
    "fedavg": fedavg,
}

__all__ = ["AGGREGATORS", "Aggregator", "build"]


def build(choice: Choice) -> Aggregator:
    """The aggregator of this name, or what a user's ``package.module:factory`` returns."""
    aggregator: Aggregator = registry.build("aggregator", AGGREGATORS, choice)
    return aggregator
