"""What trusted votes gain and cost: certified accuracy for several numbers of them, from the same votes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.accuracy import certified_accuracy
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Guarantee
from flcert.core.settings import validated


def trade(
    guarantee: Guarantee, evidence: Evidence, truth: ArrayLike, votes: Sequence[int]
) -> dict[int, NDArray[np.float64]]:
    """CA@m at index m for each number of trusted votes T, zero beyond; nothing is trained or voted on again.

    Choose T before you look at the test set. A curve of a probabilistic certificate holds by itself, not together with
    the others.

    Args:
        guarantee: the certificate, with any number of trusted votes of its own.
        evidence: the votes of the groups, and the labels of the trusted model.
        truth: the true labels.
        votes: the numbers of trusted votes T.

    >>> from flcert.certify import Disjoint
    >>> seen = Evidence(np.array([[3, 0], [1, 2]]), trusted=np.array([0, 0]))
    >>> trade(Disjoint(num_clients=3), seen, [0, 1], [0, 4])
    {0: array([1. , 0.5, 0. ]), 4: array([0.5, 0.5, 0.5, 0.5, 0. ])}
    """
    values = guarantee.model_dump()
    kinds = {number: validated(type(guarantee), {**values, "trusted": number}) for number in votes}
    return {number: certified_accuracy(one.certify(evidence), truth) for number, one in kinds.items()}
