"""Process-wide state that affects results: the number of torch threads, and the random generators."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from flcert.core.seeding import derive


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread in the block: with more, the order of additions would depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def restored_generators() -> Iterator[None]:
    """Restore the process-wide random generators when the block ends."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (users' code may draw from it)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def seed_everything(seed: int) -> None:
    """Seed the process-wide generators, for user code that draws from them."""
    torch.manual_seed(derive(seed, "torch"))
    random.seed(derive(seed, "python"))
    np.random.seed(derive(seed, "numpy") % 2**32)  # noqa: NPY002 (for users' code)
