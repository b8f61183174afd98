"""From a plan to the file of a public model."""

from pathlib import Path

from flcert import models
from flcert.core.files import writable_directory
from flcert.errors import FlcertError, InputError
from flcert.pretraining.fit import Report, accuracy, fit
from flcert.pretraining.plan import Plan
from flcert.public import PublicModel, read, write
from flcert.public.card import Card
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


def finished(card: Card, path: Path) -> PublicModel | None:
    """The model with this card, if the file has it already.

    Raises:
        InputError: the file is something else than a model that ``flcert pretrain`` wrote, or cannot be written.
    """
    if not path.exists():
        writable_directory(path.parent)
        return None
    try:
        there = read(path)
    except FlcertError:
        raise InputError(f"{path} is there, but is no public model; choose another file or delete it") from None
    if there.card is None:
        raise InputError(f"{path} is a model without a card, not of flcert pretrain; choose another file or delete it")
    return there if _same(there.card, card) else None


def _same(one: Card, other: Card) -> bool:
    """Whether two cards are of the same training, on whatever versions of the programs."""
    left, right = (card.model_dump(mode="json", exclude={"accuracy", "versions"}) for card in (one, other))
    return left == right
