"""From the bytes of a request to inputs: every refusal has a status and says what was wrong.

Whoever sends a body chooses what is in it, so its size is known before anything is built from it: a JSON body is
counted before it is parsed and made into an array only if it holds nothing but numbers, in lists of the right shape;
an npy body is a view of the bytes that arrived.
"""

import io
import json
from itertools import accumulate, chain
from math import prod
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError
from flcert.serve.service import Limits
from flcert.training.ensemble import checked_inputs

NPY = ("application/x-npy", "application/octet-stream")
NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
LONGEST_NPY_HEADER = 10_000
SPARE_VALUES = 250_000
"""How many more values than allowed a JSON body is parsed with, so that its refusal can name the shape."""


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
        array = _from_npy(body, limits, input_shape, input_dtype)
    elif kind == "application/json":
        array = _from_json(body, limits, input_shape, input_dtype)
    else:
        raise RefusedError(415, f"Content-Type must be application/json or {NPY[0]}, got {kind[:100]!r}")
    try:
        return checked_inputs(array, input_shape, input_dtype)
    except InputError as error:
        raise RefusedError(422, str(error)) from None


def _from_json(body: bytes, limits: Limits, input_shape: tuple[int, ...], input_dtype: str) -> NDArray[np.generic]:
    _check_count(body, limits, input_shape)
    try:
        asked: Any = json.loads(body)
    except RecursionError:
        raise RefusedError(422, "the body must have no lists within lists beyond the shape of an input") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from None
    except ValueError:  # Python reads no whole number of thousands of digits
        raise _not_numbers() from None
    if not isinstance(asked, dict) or set(asked) != {"inputs"}:
        raise RefusedError(422, 'the body must be {"inputs": [...]}: one input, or a list of them')
    shape, numbers = _flattened(asked["inputs"], input_shape)
    kinds = set(map(type, numbers))
    if not kinds <= {int, float, bool} or kinds == {bool}:
        raise _not_numbers()
    shape = _table_shape(shape, limits, input_shape)
    dtype = np.int64 if input_dtype == "int64" and float not in kinds else np.float64
    try:
        return np.array(numbers, dtype=dtype).reshape(shape)
    except OverflowError:
        raise _not_numbers() from None


def _check_count(body: bytes, limits: Limits, input_shape: tuple[int, ...]) -> None:
    """Refuse JSON of many more values and lists than the inputs of a request have, before it is parsed.

    Each value follows a comma or an opening bracket, so their number bounds what parsing can make.
    """
    lists = 1 + sum(accumulate(input_shape[:-1], mul, initial=1)) * limits.inputs
    most = lists + prod(input_shape) * limits.inputs + SPARE_VALUES
    found = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if found > most:
        raise RefusedError(
            413,
            f"at most {limits.inputs} inputs of shape {input_shape} in a request: they have fewer than {most:,} commas "
            f"and opening brackets, got {found:,}",
        )


def _flattened(inputs: Any, input_shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested lists and what is in them; one level more than an input has is the deepest."""
    shape: list[int] = []
    level = [inputs]
    while any(isinstance(one, list) for one in level):
        if not all(isinstance(one, list) for one in level) or len({len(one) for one in level}) > 1:
            raise _not_numbers()
        if len(shape) > len(input_shape):
            raise RefusedError(
                422, f"each input must have shape {input_shape}, got lists of more than {len(shape)} levels"
            )
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    return tuple(shape), level


def _not_numbers() -> RefusedError:
    return RefusedError(422, "inputs must be numbers of ordinary size, in lists of equal length")


def _from_npy(body: bytes, limits: Limits, input_shape: tuple[int, ...], input_dtype: str) -> NDArray[np.generic]:
    file = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(file)
        if version not in NPY_HEADERS:
            raise ValueError(f"its version must be 1.0 or 2.0, got {version[0]}.{version[1]}")
        shape, by_column, dtype = NPY_HEADERS[version](file, max_header_size=LONGEST_NPY_HEADER)
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never loaded")
        size, there = prod(shape) * dtype.itemsize, len(body) - file.tell()
        if min(shape, default=0) < 0 or size > there:
            raise ValueError(f"shape {shape} of {dtype.name} needs {size:,} bytes, got {there:,}")
    except Exception as error:  # whatever a header can make NumPy raise
        raise RefusedError(400, f"the body is not an npy file: {str(error)[:300]}") from None
    if dtype.kind not in "biuf":
        raise RefusedError(422, f"inputs must be of dtype {input_dtype}, got {dtype.name}")
    wanted = _table_shape(shape, limits, input_shape)
    values: NDArray[np.generic] = np.frombuffer(body, dtype, prod(shape), file.tell())
    return values.reshape(shape, order="F" if by_column else "C").reshape(wanted)


def _table_shape(shape: tuple[int, ...], limits: Limits, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a table with one row for each input, for what a request holds; refuse any other shape."""
    flat = (prod(input_shape),)
    if 0 in shape:
        raise RefusedError(422, "inputs must hold at least one input")
    if shape in (input_shape, flat):
        return (1, *shape)
    if len(shape) > 1 and shape[0] > limits.inputs:
        raise RefusedError(413, f"at most {limits.inputs} inputs in a request, got {shape[0]}")
    if len(shape) < 2 or shape[1:] not in (input_shape, flat):
        raise RefusedError(
            422, f"each input must have shape {input_shape}, got {shape[1:] if len(shape) > 1 else shape}"
        )
    return shape
