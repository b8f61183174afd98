"""Federated learning whose predictions are provably unaffected by a bounded number of malicious clients."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flcert import certify, datasets, engines, grouping, training, voting
    from flcert.core.settings import Choice
    from flcert.datasets import Federation
    from flcert.pipeline.run import RunResult, run
    from flcert.runs.config import Config, load_config
    from flcert.training import Recipe

__version__ = version("flcert")

# Loaded when first used, so that `import flcert` and checking a vote table need no torch.
_HOME = {
    "Choice": "flcert.core.settings",
    "Config": "flcert.runs.config",
    "Federation": "flcert.datasets",
    "Recipe": "flcert.training",
    "RunResult": "flcert.pipeline.run",
    "load_config": "flcert.runs.config",
    "run": "flcert.pipeline.run",
}
_MODULES = ("certify", "datasets", "engines", "grouping", "training", "voting")

__all__ = [
    "Choice",
    "Config",
    "Federation",
    "Recipe",
    "RunResult",
    "certify",
    "datasets",
    "engines",
    "grouping",
    "load_config",
    "run",
    "training",
    "voting",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"flcert.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'flcert' has no attribute {name!r}")
