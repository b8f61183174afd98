"""Facts that must be the same in all training processes, or models would depend on where they were trained."""

import platform
from functools import cache
from importlib.metadata import version

from flcert.core.plugins import source_digest


@cache
def facts() -> dict[str, str]:
    """Versions, a digest of flcert's source, and the kind of kernels that compute here."""
    import numpy as np
    import torch

    from flcert.core.determinism import kernels

    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "flcert": version("flcert"),
        "flcert's source": source_digest("flcert:")[:8],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "kernels": kernels(),
    }


def differences(there: dict[str, str], here: dict[str, str]) -> str:
    """The differences in words; empty if there are none.

    >>> differences({"torch": "2.6", "numpy": "2.4"}, {"torch": "2.13", "numpy": "2.4"})
    'torch 2.6 there, 2.13 here'
    """
    return "; ".join(
        f"{name} {there.get(name)} there, {here[name]} here" for name in here if there.get(name) != here[name]
    )
