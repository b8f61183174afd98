"""Where tensors live: the one place that moves arrays to a device and back."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

DEVICE = torch.device("cpu")


def tensor(array: ArrayLike) -> torch.Tensor:
    """A new tensor with the array's values, in memory that torch has aligned."""
    return torch.tensor(np.array(array), device=DEVICE)


def array(tensor: torch.Tensor) -> NDArray[np.generic]:
    """A new array with the tensor's values."""
    copied: NDArray[np.generic] = tensor.detach().to("cpu").contiguous().numpy().copy()
    return copied
