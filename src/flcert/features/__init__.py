"""Public features: frozen functions of an input that no client can influence."""

from flcert.features.function import FEATURES, PublicFunction, of_client, one_by_one
from flcert.features.settings import Features

__all__ = ["FEATURES", "Features", "PublicFunction", "of_client", "one_by_one"]
