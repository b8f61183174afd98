"""From the bytes of a request to inputs: every refusal has a status and says what was wrong."""

import io
import json
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError
from flcert.serve.service import Limits
from flcert.training.ensemble import checked_inputs

NPY = ("application/x-npy", "application/octet-stream")


class RefusedError(Exception):
    """A request that is refused.

    Args:
        status: the HTTP status.
        message: what was wrong.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def read_inputs(
    body: bytes, content_type: str, limits: Limits, input_shape: tuple[int, ...], input_dtype: str
) -> NDArray[np.generic]:
    """Read the inputs of a request, (inputs x input shape).

    The content type is required: browsers send requests without one for any page that asks, and predictions may cost
    alpha.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in NPY:
        array = _from_npy(body)
    elif kind == "application/json":
        array = _from_json(body, input_dtype)
    else:
        raise RefusedError(415, f"Content-Type must be application/json or {NPY[0]}, got {kind!r}")
    if array.size == 0:
        raise RefusedError(422, "inputs must hold at least one input")
    if array.shape in (input_shape, (prod(input_shape),)):
        array = array[None]
    if array.ndim < 2:
        raise RefusedError(422, f"each input must have shape {input_shape}, got {array.shape}")
    if len(array) > limits.inputs:
        raise RefusedError(413, f"at most {limits.inputs} inputs in a request, got {len(array)}")
    try:
        return checked_inputs(array, input_shape, input_dtype)
    except InputError as error:
        raise RefusedError(422, str(error)) from None


def _from_json(body: bytes, input_dtype: str) -> NDArray[np.generic]:
    try:
        asked: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from None
    if not isinstance(asked, dict) or set(asked) != {"inputs"}:
        raise RefusedError(422, 'the body must be {"inputs": [...]}: one input, or a list of them')
    try:
        array = np.array(asked["inputs"])
    except (ValueError, OverflowError):  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise RefusedError(422, "inputs must be numbers of ordinary size, in lists of equal length")
    return array if input_dtype == "int64" else array.astype(np.float64)


def _from_npy(body: bytes) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    except Exception as error:  # whatever a header can make NumPy raise
        raise RefusedError(400, f"the body is not an npy file: {error}") from None
    return array
