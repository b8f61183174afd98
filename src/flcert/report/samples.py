"""Some test inputs as people see them, with their votes, to choose from on the page."""

import base64
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Certificate
from flcert.datasets.subject import Subject
from flcert.runs.records import Sample, Samples
from flcert.voting import most_votes
from flcert.voting.count_table import Counts

MOST_INPUTS = 200


def chosen_samples(subject: Subject, certificate: Certificate, counts: Counts) -> Samples:
    """Up to 200 test inputs, evenly spread from the lowest level to the highest."""
    order = np.lexsort((np.arange(len(certificate)), certificate.levels, ~certificate.abstained))
    picks = np.linspace(0, len(order) - 1, min(MOST_INPUTS, len(order))).round().astype(np.int64)
    inputs = [_sample(subject, certificate, counts, int(position)) for position in order[picks]]
    labels = {label for one in inputs for label in (one.truth, one.label, *dict(one.votes))}
    names = subject.label_names
    return Samples(
        kind=kind_of(subject),
        shape=subject.image_shape or subject.input_shape,
        names={label: names[label] for label in sorted(labels)} if names else {},
        inputs=tuple(inputs),
    )


def kind_of(subject: Subject) -> Literal["image", "text", "features"]:
    """Whether an input is a picture, a text or a list of features."""
    if subject.image_shape:
        return "image"
    return "text" if subject.input_dtype == "int64" and subject.label_names else "features"


def _sample(subject: Subject, certificate: Certificate, counts: Counts, position: int) -> Sample:
    return Sample(
        position=position,
        truth=int(subject.test_labels[position]),
        label=int(certificate.labels[position]),
        level=int(certificate.levels[position]),
        abstained=bool(certificate.abstained[position]),
        votes=tuple(most_votes(counts, position)),
        shown=_shown(subject, subject.test_inputs[position]),
    )


def _shown(subject: Subject, values: NDArray[np.generic]) -> str | tuple[float, ...]:
    kind = kind_of(subject)
    if kind == "image":
        pixels = np.clip(values.astype(np.float64), 0, 1) * 255
        return base64.b64encode(pixels.round().astype(np.uint8).tobytes()).decode()
    if kind == "text":
        return " ".join(subject.label_names[int(token)] for token in values if token)
    return tuple(float(f"{value:.4g}") for value in values.reshape(-1))
