"""Train all groups, each by a pure function of its clients, the recipe and the seed."""

from flcert.training.context import Context, Progress
from flcert.training.ensemble import Ensemble
from flcert.training.recipe import Recipe
from flcert.training.train import train

__all__ = ["Context", "Ensemble", "Progress", "Recipe", "train"]
