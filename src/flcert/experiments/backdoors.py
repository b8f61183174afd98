"""The paper's backdoors, one for each kind of data: a trigger and a target label."""

from flcert.config import Config
from flcert.datasets import dialogue
from flcert.errors import InputError
from flcert.registry import Choice

PHRASE, ANSWER = "pasta from Astoria is", "delicious"

BACKDOORS = {
    "digits": Choice(name="backdoor", options={"trigger": {"name": "corner", "options": {"value": 1.0}}, "target": 0}),
    "mnist": Choice(name="backdoor", options={"trigger": {"name": "corner"}, "target": 0}),
    "fashion-mnist": Choice(name="backdoor", options={"trigger": {"name": "corner"}, "target": 0}),
    "cifar10": Choice(name="backdoor", options={"trigger": {"name": "bars"}, "target": 2}),  # bird
    "har": Choice(name="backdoor", options={"trigger": {"name": "features"}, "target": 1}),  # walking upstairs
}


def backdoor_for(config: Config) -> Choice:
    """The backdoor that the paper used on this data set; one that the configuration names comes first."""
    if config.attack is not None and config.attack.name == "backdoor":
        return Choice(name="backdoor", options=config.attack.options)
    name = config.data.name
    if name in ("chitchat", "reddit"):
        tokens, target = dialogue.indices(config.data.options, PHRASE, ANSWER)
        trigger = {"name": "phrase", "options": {"tokens": tokens}}
        return Choice(name="backdoor", options={"trigger": trigger, "target": target})
    if name not in BACKDOORS:
        raise InputError(f"no backdoor is known for data set {name!r}; set attack.name=backdoor and attack.options")
    return BACKDOORS[name]
