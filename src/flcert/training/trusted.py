"""A model of the server's own that votes beside the groups: no client can change it."""

from dataclasses import replace
from functools import partial

from pydantic import Field

from flcert.core.digest import digest_json
from flcert.core.settings import Choice, Strict
from flcert.core.store import Arrays, Entry
from flcert.datasets import Federation
from flcert.errors import InputError, RunError
from flcert.public import find
from flcert.training.context import Context
from flcert.training.examples import features_of_clients
from flcert.training.fill import Job, fill
from flcert.training.group import train_on_root
from flcert.training.keys import SERVER, features_digest, model_entry, recipe_sources
from flcert.training.public import Public, fitted
from flcert.training.recipe import Recipe
from flcert.training.start import initial_digest, initial_module
from flcert.training.tasks import GroupTask

INITIAL, ROOT = "initial", "root"


class TrustedModel(Strict):
    """A model of the server's own, and how many votes it casts.

    Args:
        model: "initial" for the public model that groups start from; "root" for one that is trained on the root set of
            the server as a group is trained; or a name from the catalogue of ``flcert pretrain`` or the path of a
            safetensors file, whose weights fit the recipe's model.
        votes: T, its votes on each input.
    """

    model: str = Field(default=INITIAL, min_length=1)
    votes: int = Field(ge=0)


class Voting(Strict):
    """Who votes besides the groups.

    Args:
        trusted: a model of the server's own; by default none.
    """

    trusted: TrustedModel | None = None

    @property
    def num_trusted(self) -> int:
        """T, the number of trusted votes."""
        return self.trusted.votes if self.trusted else 0


def check_trusted(trusted: TrustedModel, recipe: Recipe, public: Public, federation: Federation) -> None:
    """Refuse a trusted model that there is not, before anything is trained."""
    if trusted.model != ROOT:
        ready_arrays(trusted, recipe, public, federation.input_shape, federation.num_labels)
    elif len(federation.root_labels) == 0:
        raise InputError("voting.trusted.model = 'root' needs a root set of the server (data.options.num_root)")


def trusted_arrays(context: Context, trusted: TrustedModel, recipe: Recipe, public: Public) -> Arrays:
    """The weights of the trusted model, trained if need be."""
    federation = context.federation
    check_trusted(trusted, recipe, public, federation)
    if trusted.model == ROOT:
        return _trained_on_root(context, recipe, public)
    return ready_arrays(trusted, recipe, public, federation.input_shape, federation.num_labels)


def ready_arrays(
    trusted: TrustedModel, recipe: Recipe, public: Public, input_shape: tuple[int, ...], num_labels: int
) -> Arrays:
    """The weights of a trusted model that need not be trained: the public start, or those of a file.

    Args:
        trusted: which model; not "root".
        recipe: how groups train.
        public: what they share.
        input_shape: shape of one input.
        num_labels: L.
    """
    if trusted.model != INITIAL:
        found = find(trusted.model, others=(INITIAL, ROOT))
        return fitted(found.arrays, initial_module(recipe, public.shape(input_shape), num_labels), found.name)
    if public.start is None:
        raise InputError("voting.trusted.model = 'initial' is the public start of the groups: set recipe.initial")
    return public.start


def _trained_on_root(context: Context, recipe: Recipe, public: Public) -> Arrays:
    """A model that only the server's root set has trained, as if the server were a group of one client."""
    federation = context.federation
    changes = {"aggregator": Choice(name="fedavg"), "variants": (), "evaluate_at": (), "models_per_group": None}
    alone = recipe.model_copy(update={**changes, "smoothing": None, "participation": 1.0})
    shape = public.shape(federation.input_shape)
    task = GroupTask(
        members=(),
        recipe=alone,
        sources=recipe_sources(alone),
        initial=initial_digest(alone, shape, federation.num_labels, public.start),
        start=public.start,
        features=features_digest(public.function, recipe.features) if public.function and recipe.features else "",
    )
    key = digest_json(["root model", model_entry(federation, task, {}, recipe.rounds).key, federation.root_digest()])
    server = None
    if public.function and recipe.features:
        featured = features_of_clients(context, public.function, recipe.features, {SERVER: None})
        server = featured.keys[SERVER]
    job = Job({recipe.rounds: Entry(key, ())}, partial(_with_root, context, task, server))
    filled = fill(context, train_on_root, {key: job}, context.stage("trusted model"))
    for reason in filled.failures.values():
        raise RunError(f"the trusted model cannot be trained on the root set: {reason}")
    return context.store.load(key)


def _with_root(context: Context, task: GroupTask, server: str | None) -> GroupTask:
    return replace(task, server=context.store.load(server) if server else None)
