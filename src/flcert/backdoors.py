"""The paper's backdoors, one for each kind of data: a trigger and a target label."""

from typing import Any

from flcert.config import Config
from flcert.datasets import dialogue
from flcert.registry import Choice

PHRASE, ANSWER = "pasta from Astoria is", "delicious"

BACKDOORS: dict[str, dict[str, Any]] = {
    "mnist": {"trigger": {"name": "corner"}, "target": 0},
    "fashion-mnist": {"trigger": {"name": "corner"}, "target": 0},
    "cifar10": {"trigger": {"name": "bars"}, "target": 2},  # bird
    "har": {"trigger": {"name": "features"}, "target": 1},  # walking upstairs
}


def backdoor_for(config: Config) -> Choice:
    """The backdoor that the configuration names, with the paper's trigger and target where it names no trigger."""
    own = config.attack.options if config.attack and config.attack.name == "backdoor" else {}
    usual = {} if "trigger" in own else _usual(config)
    return Choice(name="backdoor", options={**usual, **own})


def _usual(config: Config) -> dict[str, Any]:
    """The paper's trigger and target for a data set."""
    name = config.data.name
    if name in ("chitchat", "reddit"):
        tokens, target = dialogue.indices(config.data.options, PHRASE, ANSWER)
        return {"trigger": {"name": "phrase", "options": {"tokens": tokens}}, "target": target}
    return BACKDOORS.get(name, {})
