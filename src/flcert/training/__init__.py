"""Training all groups, each a pure function of its clients, the recipe and the seed."""

from flcert.training.ensemble import Ensemble
from flcert.training.fill import Progress
from flcert.training.recipe import Recipe
from flcert.training.train import train

__all__ = ["Ensemble", "Progress", "Recipe", "train"]
