"""The pure function: a group's clients and a recipe with a seed give a model, bit for bit.

Nothing else may enter: not the other groups, not the number of workers, not what ran before in this process. The
function's key is the digest of its inputs (``flcert.training.keys``), and a model is stored under that key.
"""

from dataclasses import replace

from torch import Tensor

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
from flcert.training.start import initial_digest, initial_module, part_name, state_arrays
from flcert.training.tasks import GroupTask


def train_group(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    """Train one group and return its model after each round of ``recipe.snapshots``."""
    with one_thread():
        _check_origin(task, _shape(federation, task), federation.num_labels)
        if task.recipe.models_per_group is None:
            return _trained(federation, task)
        return _several(federation, task, task.recipe.models_per_group)


def _check_origin(task: GroupTask, shape: tuple[int, ...], num_labels: int) -> None:
    """Refuse to train with other code or from other weights than the process that made the task knows."""
    if task.sources != recipe_sources(task.recipe, task.attack):
        raise RunError(
            "a module of the recipe or the attack was edited after it was imported, a worker has another text of it, "
            "or a value that the code of a notebook uses changed during training"
        )
    if task.initial and task.initial != initial_digest(task.recipe, shape, num_labels, task.start):
        raise RunError(f"model {task.recipe.model.name!r} does not start from the weights that it had at first")


def train_on_root(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    """Train a model on the server's root set alone, as if the server were a client in a group of its own."""
    recipe = task.recipe
    with one_thread():
        server = _server(federation, task)
        shape = tuple(server.inputs.shape[1:])
        _check_origin(task, shape, federation.num_labels)
        seed_everything(recipe.seed)
        module = initial_module(recipe, shape, federation.num_labels, task.start)
        for _ in run_rounds(Replica(module), [server], aggregators.build(recipe.aggregator), recipe):
            pass
        return {recipe.rounds: state_arrays(module)}


def _several(federation: Federation, task: GroupTask, number: int) -> dict[int, Arrays]:
    """Several models, one after the other, each in its own part of the arrays."""
    kept: dict[int, Arrays] = {}
    for one in range(number):
        for rounds, arrays in _trained(federation, replace(task, recipe=task.recipe.of_model(one))).items():
            kept.setdefault(rounds, {}).update({part_name(one, name): array for name, array in arrays.items()})
    return kept


def _trained(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    seed_everything(task.recipe.seed)
    attacker = _attacker(federation, task.attack) if task.attack else None
    clients = _clients(federation, task, attacker)
    module = initial_module(task.recipe, _shape(federation, task), federation.num_labels, task.start)
    aggregator = aggregators.build(task.recipe.aggregator)
    kept = {}
    server = _server(federation, task) if aggregators.uses_root(aggregator) else None
    for number in run_rounds(Replica(module), clients, aggregator, task.recipe, server=server, attacker=attacker):
        if number in task.recipe.snapshots:
            kept[number] = state_arrays(module)
    return kept


def _shape(federation: Federation, task: GroupTask) -> tuple[int, ...]:
    """The shape of what the model receives."""
    return federation.input_shape if task.examples is None else task.examples[0]["inputs"].shape[1:]


def _clients(federation: Federation, task: GroupTask, attacker: Attacker | None) -> list[Client]:
    if task.examples is None:
        return [_client(federation, position, attacker) for position in task.members]
    return [
        Client(federation.ids[position], *_tensors(owned), reported=len(federation.client(position)[1]))
        for position, owned in zip(task.members, task.examples, strict=True)
    ]


def _tensors(owned: Arrays) -> tuple[Tensor, Tensor]:
    return tensor(owned["inputs"]), tensor(owned["labels"])


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


def _server(federation: Federation, task: GroupTask) -> Client:
    """The server's root set, under a name that no user id can have in a stream."""
    plain: Arrays = {"inputs": federation.root_inputs, "labels": federation.root_labels}
    return Client("", *_tensors(plain if task.server is None else task.server), len(federation.root_labels))
