"""Smaller models: numbers of 16 or 8 bits in place of 32.

A model's compression is a function of that model alone, the last step of its group's training, so all certificates
hold for compressed models as they do for others. They are stored small and expanded to 32 bits for use.
"""

from typing import Literal, get_args

import numpy as np

from flcert.core.store import Arrays

LARGEST = float(np.finfo(np.float32).max)
SCALE = " scale"  # ends the name of an array's scales; no array of a module has a space in its name

Dtype = Literal["float16", "int8"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


def compressed(arrays: Arrays, dtype: Dtype) -> Arrays:
    """A model with smaller numbers.

    "float16" rounds every 32-bit number. "int8" turns each row of a matrix (a neuron's or a filter's weights) into
    whole numbers from -127 to 127 with a scale of its own; vectors, and arrays that are not finite, become float16.
    """
    small: Arrays = {}
    for name, array in arrays.items():
        if array.dtype != np.float32:
            small[name] = array
        elif dtype == "int8" and array.ndim > 1 and np.isfinite(array).all():
            largest = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True)
            scale = (largest / 127).astype(np.float32)
            scale[scale == 0] = 1  # a row of zeros
            small[name] = np.clip(np.rint(array / scale), -127, 127).astype(np.int8)
            small[name + SCALE] = scale
        else:
            with np.errstate(over="ignore"):
                small[name] = array.astype(np.float16)
    return small


def expanded(arrays: Arrays) -> Arrays:
    """A compressed model as 32-bit numbers."""
    large: Arrays = {}
    for name, array in arrays.items():
        if name.endswith(SCALE):
            continue
        if name + SCALE in arrays:
            exact = array.astype(np.float64) * arrays[name + SCALE].astype(np.float64)
            large[name] = np.clip(exact, -LARGEST, LARGEST).astype(np.float32)
        else:
            large[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return large
