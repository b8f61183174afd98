"""Training a public model: AdamW with a one-cycle learning rate."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from flcert.core.determinism import one_thread, restored_generators, seed_everything
from flcert.core.seeding import derive
from flcert.core.settings import Strict
from flcert.errors import RunError
from flcert.training.device import array, tensor

Batch = tuple[Tensor, Tensor]  # inputs and labels
Report = Callable[[str, int, int], None]  # what is done, how many steps, of how many


class Fit(Strict):
    """How a public model is trained.

    Args:
        steps: steps of AdamW.
        batch_size: examples of a step.
        learning_rate: the largest of the one cycle.
        weight_decay: of AdamW.
        seed: decides the first weights, the held-out part, the batches and how they are varied.
    """

    steps: Annotated[int, Field(gt=0)] = 2000
    batch_size: Annotated[int, Field(gt=1)] = 128
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


def fit(module: nn.Module, batch: Callable[[int], Batch], settings: Fit, report: Report) -> None:
    """Train ``module`` in place.

    Args:
        module: the network with its first weights.
        batch: makes the batch of a step from the number of the step alone.
        settings: how to train.
        report: called after each step.
    """
    with one_thread(), restored_generators():
        seed_everything(derive(settings.seed, "pretraining"))
        optimiser = torch.optim.AdamW(module.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, settings.steps + 1)
        module.train()
        for step, (inputs, labels) in enumerate(_ahead(batch, settings.steps), 1):
            optimiser.zero_grad()
            loss = functional.cross_entropy(module(inputs), labels)
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
            report("pretraining", step, settings.steps)
    module.eval()
    if not all(bool(value.isfinite().all()) for value in module.state_dict().values()):
        raise RunError(f"the weights became NaN or infinite; is learning_rate={settings.learning_rate} too high?")


def _ahead(batch: Callable[[int], Batch], steps: int) -> Iterator[Batch]:
    """The batches of all steps, each made by another thread while the one before is used."""
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as maker:
        coming = maker.submit(batch, 0)
        for step in range(steps):
            made = coming.result()
            if step + 1 < steps:
                coming = maker.submit(batch, step + 1)
            yield made


def accuracy(module: nn.Module, inputs: NDArray[np.generic], labels: NDArray[np.int64]) -> float:
    """The share of inputs that get their label."""
    with one_thread(), torch.no_grad():
        parts = (tensor(inputs[start : start + 500]) for start in range(0, len(inputs), 500))
        labelled = torch.cat([module(part).argmax(dim=1) for part in parts])
    return float(np.mean(array(labelled) == labels))
