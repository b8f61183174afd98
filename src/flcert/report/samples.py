"""Some test inputs as people see them, with their votes: what the page offers to choose from."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify.result import Certificate, Counts
from flcert.datasets.subject import Subject

MOST_INPUTS = 200
MOST_VOTES = 10  # labels listed for an input


def chosen_samples(subject: Subject, certificate: Certificate, counts: Counts) -> dict[str, Any]:
    """Up to 200 test inputs from the lowest level to the highest, as ``rundir.Samples`` wants them."""
    order = np.lexsort((np.arange(len(certificate)), certificate.levels, ~certificate.abstained))
    picks = np.linspace(0, len(order) - 1, min(MOST_INPUTS, len(order))).round().astype(np.int64)
    inputs = [_sample(subject, certificate, counts, int(position)) for position in order[picks]]
    labels = {label for one in inputs for label in (one["truth"], one["label"], *dict(one["votes"]))}
    names = subject.label_names
    return {
        "kind": kind_of(subject),
        "shape": list(subject.image_shape or subject.input_shape),
        "names": {str(label): names[label] for label in sorted(labels)} if names else {},
        "inputs": inputs,
    }


def kind_of(subject: Subject) -> str:
    """Whether an input is a picture, a text or a list of features."""
    if subject.image_shape:
        return "image"
    return "text" if subject.input_dtype == "int64" and subject.label_names else "features"


def _sample(subject: Subject, certificate: Certificate, counts: Counts, position: int) -> dict[str, Any]:
    return {
        "position": position,
        "truth": int(subject.test_labels[position]),
        "label": int(certificate.labels[position]),
        "level": int(certificate.levels[position]),
        "abstained": bool(certificate.abstained[position]),
        "votes": most_votes(counts, position),
        "shown": _shown(subject, subject.test_inputs[position]),
    }


def most_votes(counts: Counts, position: int) -> list[tuple[int, int]]:
    """The labels of an input with most votes, and how many; the smaller label first on a tie."""
    row = counts[[position]]
    dense = np.asarray(row.todense() if hasattr(row, "todense") else row).reshape(-1)
    order = np.argsort(-dense, kind="stable")[:MOST_VOTES]
    return [(int(label), int(dense[label])) for label in order if dense[label]]


def _shown(subject: Subject, values: NDArray[np.generic]) -> str | list[float]:
    kind = kind_of(subject)
    if kind == "image":
        pixels = np.clip(values.astype(np.float64), 0, 1) * 255
        return base64.b64encode(pixels.round().astype(np.uint8).tobytes()).decode()
    if kind == "text":
        return " ".join(subject.label_names[int(token)] for token in values if token)
    return [float(f"{value:.4g}") for value in values.reshape(-1)]
