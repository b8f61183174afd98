"""What a run is about, without the clients' data: who they are, and the test set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Subject:
    """Clients by their ids, and a test set.

    Args:
        name: what to call it in reports.
        digest: a digest of all known data, or of the test set alone.
        ids: the user ids.
        test_inputs: inputs to predict and certify.
        test_labels: their true labels.
        num_labels: L.
        num_examples: examples of all clients; None if unknown.
        label_names: what people call the labels, and the tokens of text; may be empty.
        image_shape: the shape of an input as a picture, if inputs are pictures with values in [0, 1].
        excluded: ids of clients whose data cannot be used, each with the reason.
    """

    name: str
    digest: str
    ids: tuple[str, ...]
    test_inputs: NDArray[np.generic]
    test_labels: NDArray[np.int64]
    num_labels: int
    num_examples: int | None = None
    label_names: tuple[str, ...] = ()
    image_shape: tuple[int, ...] | None = None
    excluded: tuple[tuple[str, str], ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.test_inputs.shape[1:]

    @property
    def input_dtype(self) -> str:
        """float32 for features, int64 for tokens."""
        return self.test_inputs.dtype.name
