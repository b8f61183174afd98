"""The pure function: a group's clients and a recipe with a seed give a model, bit for bit.

Nothing else may enter: not the other groups, not the number of workers, not what ran before in this process. The
function's key is the digest of its inputs (``flcert.training.keys``), and a model is stored under that key.
"""

from flcert import aggregators, attacks
from flcert.attacks import AttackPlan
from flcert.core.determinism import one_thread, seed_everything
from flcert.core.store import Arrays
from flcert.datasets import Federation
from flcert.errors import RunError
from flcert.training.device import tensor
from flcert.training.keys import recipe_sources
from flcert.training.local import Client, Replica
from flcert.training.rounds import Attacker, run_rounds
from flcert.training.start import initial_digest, initial_module, state_arrays
from flcert.training.tasks import GroupTask


def train_group(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    """Train one group and return its model after each round of ``recipe.snapshots``."""
    if task.sources != recipe_sources(task.recipe, task.attack):
        raise RunError(
            "a module of the recipe or the attack was edited after it was imported, or a worker has another text of it"
        )
    with one_thread():
        if task.initial and task.initial != initial_digest(task.recipe, federation.input_shape, federation.num_labels):
            raise RunError(f"model {task.recipe.model.name!r} does not start from the weights that it had at first")
        return _trained(federation, task)


def _trained(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    seed_everything(task.recipe.seed)
    attacker = _attacker(federation, task.attack) if task.attack else None
    clients = [_client(federation, position, attacker) for position in task.members]
    module = initial_module(task.recipe, federation.input_shape, federation.num_labels)
    aggregator = aggregators.build(task.recipe.aggregator)
    kept = {}
    server = _server(federation) if aggregators.uses_root(aggregator) else None
    for number in run_rounds(Replica(module), clients, aggregator, task.recipe, server=server, attacker=attacker):
        if number in task.recipe.snapshots:
            kept[number] = state_arrays(module)
    return kept


def _client(federation: Federation, position: int, attacker: Attacker | None) -> Client:
    user = federation.ids[position]
    inputs, labels = (tensor(array) for array in federation.client(position))
    reported = len(labels)
    if attacker and user in attacker.controlled:
        inputs, labels = attacker.attack.poison(inputs, labels, federation.num_labels)
    return Client(user, inputs, labels, reported)


def _attacker(federation: Federation, plan: AttackPlan) -> Attacker:
    controlled = frozenset(federation.ids[position] for position in plan.malicious)
    return Attacker(attacks.build(plan.choice), controlled, plan.seed)


def _server(federation: Federation) -> Client:
    """The server's root set, under a name that no user id can have in a stream."""
    inputs, labels = tensor(federation.root_inputs), tensor(federation.root_labels)
    return Client("", inputs, labels, len(labels))
