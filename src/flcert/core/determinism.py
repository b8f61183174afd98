"""Process-wide state that affects results: the number of torch threads, the kernels, and the random generators."""

import os
import platform
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from flcert.core.seeding import derive

SWITCHES = (
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"),
)
"""Environment variables by which libraries choose kernels; torch itself tells what ``ATEN_CPU_CAPABILITY`` did."""


def kernels() -> str:
    """The kind of kernels that compute in this process, for people to read: other kinds round sums otherwise."""
    switches = [f"{name}={os.environ[name]}" for name in SWITCHES if os.environ.get(name)]
    return " ".join([platform.machine(), torch.backends.cpu.get_cpu_capability(), *switches])


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
