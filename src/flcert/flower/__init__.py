"""The same groups over real Flower clients (``pip install 'flcert[flower]'``): only the ServerApp changes."""

from flcert.errors import InputError

try:
    import flwr  # noqa: F401 (only checks that it is installed)
except ModuleNotFoundError:
    raise InputError("flcert.flower needs Flower: pip install 'flcert[flower]'") from None

from flcert.flower.examples import examples
from flcert.flower.grid import Exchange, GroupGrid
from flcert.flower.log import explain_errors
from flcert.flower.options import Clients, Learning, Options, TestSet, Timing
from flcert.flower.strategy import RuleStrategy
from flcert.flower.train import train
from flcert.flower.users import by_name, by_public_key, by_query

__all__ = [
    "Clients",
    "Exchange",
    "GroupGrid",
    "Learning",
    "Options",
    "RuleStrategy",
    "TestSet",
    "Timing",
    "by_name",
    "by_public_key",
    "by_query",
    "examples",
    "train",
]

explain_errors()
