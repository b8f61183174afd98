"""From a plan to the file of a public model."""

from pathlib import Path
from typing import Any

from flcert import models
from flcert.core.files import first_difference, writable_directory
from flcert.errors import FlcertError, InputError
from flcert.pretraining.fit import Report, accuracy, fit
from flcert.pretraining.plan import Plan
from flcert.public import PublicModel, read, write
from flcert.public.card import Card
from flcert.public.model import DamagedError
from flcert.public.overlap import fingerprints
from flcert.training.device import DEVICE, tensor
from flcert.training.start import state_arrays


def pretrain(plan: Plan, path: Path, report: Report) -> PublicModel:
    """Train the model of a plan, measure it on what was kept apart, and write it.

    Args:
        plan: what to train on, and how.
        path: the file to write.
        report: called after each step of training.
    """
    card = plan.card
    module = models.build(card.model, card.input_shape, card.num_labels, plan.settings.seed).to(DEVICE)
    models.check_output(module, tensor(plan.held_out[0][0]), card.num_labels)
    fit(module, plan.batch, plan.settings, report)
    measured = card.model_copy(update={"accuracy": accuracy(module, *plan.held_out)})
    made = PublicModel(path.stem, state_arrays(module), measured, fingerprints(plan.inputs))
    write(path, made)
    return made


def finished(card: Card, path: Path, *, replace: bool = False) -> PublicModel | None:
    """The model with this card, if the file has it already.

    Args:
        card: the card, without an accuracy.
        path: the file.
        replace: whether a model of another training that is there may be replaced.

    Raises:
        InputError: the file has something else, or cannot be written.
    """
    if not path.exists():
        writable_directory(path.parent)
        return None
    try:
        there = read(path)
    except DamagedError as error:
        raise InputError(
            f"{path} is there, but {error.what}; delete it and run the same command again, or choose another file"
        ) from None
    except FlcertError:
        raise InputError(f"{path} is there, but is no public model; choose another file or delete it") from None
    if there.card is None:
        raise InputError(f"{path} is a model without a card, not of flcert pretrain; choose another file or delete it")
    known, wanted = _told(there.card), _told(card)
    if known != wanted and not replace:
        raise InputError(
            f"{path} was made with other settings ({first_difference(known, wanted)}); "
            "give another file (--out) or replace it (--replace)"
        )
    return there if known == wanted else None


def _told(card: Card) -> dict[str, Any]:
    """What a card says about a training, on whatever versions of the programs."""
    return card.model_dump(mode="json", exclude={"accuracy", "versions"})
