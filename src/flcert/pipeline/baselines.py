"""The paper's baselines, which train one global model. Nothing is certified for them from m = 1 on."""

from collections.abc import Callable
from typing import Any

from flcert.errors import InputError, unknown_name
from flcert.grouping import disjoint_groups
from flcert.runs.config import Config
from flcert.training.smoothing import Smoothing


def single(config: Config) -> Config:
    """The single global model: one group of all clients, a share ``recipe.participation`` (beta) of them per round."""
    return _with_one_group(config)


def crfl(config: Config) -> Config:
    """CRFL: the single global model, clipped and perturbed in each round, whose noisy copies vote.

    Its own guarantee is against bounded changes of training data, so it proves nothing about clients that send
    whatever they like.
    """
    return _with_one_group(config, smoothing=config.recipe.smoothing or Smoothing())


BASELINES: dict[str, Callable[[Config], Config]] = {"single": single, "crfl": crfl}


def baseline(name: str, config: Config) -> Config:
    """The configuration of the baseline called ``name``, with the same data, recipe and attack."""
    if name not in BASELINES:
        raise unknown_name("baseline", name, BASELINES)
    return BASELINES[name](config)


def _with_one_group(config: Config, **recipe: Any) -> Config:
    if config.recipe.variants:
        raise InputError("a baseline has one model, so recipe.variants must be empty")
    alone = config.recipe.model_copy(update={"seeds": "shared", **recipe})
    return config.model_copy(update={"grouping": disjoint_groups(1), "recipe": alone})
