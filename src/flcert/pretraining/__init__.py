"""Training of public models, from public sources or from data that a user declares public."""

from flcert.pretraining.catalogue import MORE_STEPS, STEPS, additions, catalogue
from flcert.pretraining.fit import Fit
from flcert.pretraining.heads import HEADS, head
from flcert.pretraining.make import finished, pretrain
from flcert.pretraining.plan import Plan, of_data, of_digits

__all__ = [
    "HEADS",
    "MORE_STEPS",
    "STEPS",
    "Fit",
    "Plan",
    "additions",
    "catalogue",
    "finished",
    "head",
    "of_data",
    "of_digits",
    "pretrain",
]
