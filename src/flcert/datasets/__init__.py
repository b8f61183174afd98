"""Data sets spread over clients, by name."""

from collections.abc import Callable
from typing import Any

from flcert import registry
from flcert.datasets.cifar10 import cifar10
from flcert.datasets.dialogue import chitchat, reddit
from flcert.datasets.digits import digits
from flcert.datasets.federation import Federation
from flcert.datasets.folder import folder
from flcert.datasets.har import har
from flcert.datasets.mnist import fashion_mnist, mnist
from flcert.errors import InputError

DATASETS: dict[str, Callable[..., Federation]] = {
    "digits": digits,
    "folder": folder,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "har": har,
    "chitchat": chitchat,
    "reddit": reddit,
}

__all__ = ["DATASETS", "Federation", "load"]


def load(name: str, **options: Any) -> Federation:
    """The federation called ``name``, or what a user's function ``package.module:function`` returns.

    >>> load("digits", num_clients=10).num_clients
    10
    """
    federation = registry.build("data set", DATASETS, registry.Choice(name=name, options=options))
    if not isinstance(federation, Federation):
        raise InputError(f"data set {name!r} must return a flcert.Federation, got {type(federation).__name__}")
    return federation
