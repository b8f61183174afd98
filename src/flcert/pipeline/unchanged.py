"""A finished run stays with the public knowledge it was made with: no command moves it to another one silently."""

from typing import NoReturn

from flcert.core.digest import digest_named
from flcert.core.store import Arrays
from flcert.datasets import Federation
from flcert.errors import FlcertError, InputError
from flcert.runs.config import Config
from flcert.runs.directory import RunDirectory
from flcert.runs.records import PublicFacts
from flcert.training.public import Public, public_of
from flcert.training.trusted import ROOT, ready_arrays


def public_for(directory: RunDirectory, config: Config, federation: Federation) -> Public:
    """What is public in a training that goes on in a directory, refused if its finished run was made with other things.

    Args:
        directory: the run directory; one without a finished run goes on with anything.
        config: what to do.
        federation: the data.
    """
    shape, labels, trusted = federation.input_shape, federation.num_labels, config.voting.trusted
    public = public_of(config.recipe, federation.test_inputs, labels)
    ready = trusted and trusted.model != ROOT  # one that the server trains is known only afterwards
    own = ready_arrays(trusted, config.recipe, public, shape, labels) if trusted and ready else None
    check_unchanged(directory, config, public, own)
    return public


def check_unchanged(directory: RunDirectory, config: Config, public: Public, trusted: Arrays | None) -> None:
    """Refuse a finished run whose public start, public function or trusted model is another one than now.

    Args:
        directory: the run directory; one without a finished run has nothing to compare with.
        config: what names them.
        public: the start and the function now.
        trusted: the weights of the trusted model now, if they are known.
    """
    recorded = _recorded(directory)
    if recorded is None:
        return
    if (public.start and digest_named(public.start)) != recorded.start:
        _refuse(directory, f"the weights of public model {config.recipe.initial or public.name!r}")
    if (public.function and public.function.identity) != (recorded.function and recorded.function.identity):
        name = config.recipe.features.name if config.recipe.features else ""
        of = f" of public model {config.recipe.initial!r}" if config.recipe.initial else ""
        _refuse(directory, f"the features {name!r}{of}")
    if trusted and digest_named(trusted) != recorded.trusted:
        name = config.voting.trusted.model if config.voting.trusted else ""
        _refuse(directory, f"the weights of trusted model {name!r}")


def _recorded(directory: RunDirectory) -> PublicFacts | None:
    """What a finished run recorded; a damaged record is written anew by the command that goes on."""
    try:
        return directory.manifest().public if directory.finished else None
    except FlcertError:
        return None


def _refuse(directory: RunDirectory, what: str) -> NoReturn:
    raise InputError(
        f"{directory.path}: {what} are not those that this run was made with; "
        "put those back, or make a new run in another directory"
    )
