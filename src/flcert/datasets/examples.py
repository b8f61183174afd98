"""Examples that one client, the test set or the server's root set brings, and the rules that they must keep."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError

Examples = tuple[NDArray[np.generic], NDArray[np.int64]]


def input_dtype(given: np.dtype[np.generic]) -> type[np.int64] | type[np.float32]:
    """In which type inputs of a given one are kept: tokens as int64, features as float32."""
    return np.int64 if _whole(given) else np.float32


def first_row(marked: NDArray[np.bool_]) -> int:
    """The first row in which something is marked."""
    return int(marked.reshape(len(marked), -1).any(axis=1).argmax())


def check_examples(
    owner: str, inputs: Sequence[object] | NDArray[np.generic], labels: object, like: NDArray[np.generic]
) -> None:
    """Refuse examples that cannot be stacked with the test inputs ``like``, naming their owner."""
    x, y = np.asarray(inputs), np.asarray(labels)
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
        raise InputError(f"{owner} must have one label for each input, got shapes {x.shape} and {y.shape}")
    if len(x) == 0:
        raise InputError(f"{owner} has no examples")
    if x.shape[1:] != like.shape[1:]:
        raise InputError(f"{owner} has inputs of shape {x.shape[1:]}, but the test inputs have {like.shape[1:]}")
    if not (_whole(x.dtype) or np.issubdtype(x.dtype, np.floating)):
        raise InputError(f"{owner} must have real numbers as inputs, got dtype {x.dtype}")
    if _whole(x.dtype) != _whole(like.dtype):
        raise InputError(f"{owner} has inputs of dtype {x.dtype}, but the test inputs have {like.dtype}")
    _check_size(owner, x)
    if y.dtype.kind not in "iu":  # numpy counts spans of time among the integers too
        raise InputError(f"{owner} must have integer labels, got dtype {y.dtype}")
    if int(y.min()) < 0 or int(y.max()) > 2**31:
        raise InputError(f"{owner} must have labels in [0, 2**31], got {int(y.min())} to {int(y.max())}")


def check_client(owner: str, examples: Examples, like: NDArray[np.generic], num_labels: int) -> None:
    """Refuse examples of one client by everything that a federation asks of them, without a look at other clients."""
    inputs, labels = examples
    check_examples(owner, inputs, labels, like)
    if int(labels.max()) >= num_labels:
        raise InputError(f"{owner} must have labels in [0, {num_labels - 1}], got {int(labels.max())}")
    if np.issubdtype(inputs.dtype, np.floating) and not np.isfinite(inputs).all():
        row = first_row(~np.isfinite(inputs))
        raise InputError(f"{owner} must have finite inputs, got NaN or infinity in row {row}")


def _check_size(owner: str, inputs: NDArray[np.generic]) -> None:
    """Refuse finite inputs that do not fit into the type in which they are kept."""
    kept = input_dtype(inputs.dtype)
    if np.can_cast(inputs.dtype, kept, casting="safe"):
        return
    if kept is np.int64:
        outside = inputs.astype(np.uint64) > np.iinfo(np.int64).max
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            outside = np.isinf(inputs.astype(np.float32)) & np.isfinite(inputs)
    if outside.any():
        row = first_row(outside)
        value = inputs[row][outside[row]].flat[0]
        raise InputError(f"{owner} must have inputs that fit into {kept.__name__}, got {value} in row {row}")


def _whole(given: np.dtype[np.generic]) -> bool:
    return given.kind in "biu"  # numpy counts spans of time among the integers too
