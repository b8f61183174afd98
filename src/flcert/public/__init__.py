"""Public models: weights that are fixed before the federation begins and that no client can influence."""

from flcert.public.card import Card, SourceFacts
from flcert.public.model import PublicModel, find, read, write

__all__ = ["Card", "PublicModel", "SourceFacts", "find", "read", "write"]
