"""Certified accuracy: CA@m for every m."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.certificate import Certificate
from flcert.errors import InputError
from flcert.voting.count_table import BoolArray


def certified_accuracy(certificate: Certificate, truth: ArrayLike) -> NDArray[np.float64]:
    """The share of inputs that are right and have a level of at least m, at index m.

    The array ends at the first m that no input's level reaches (one past the largest level); beyond its end
    the share is zero too.

    >>> from flcert.certify import disjoint
    >>> certified_accuracy(disjoint([[7, 2, 1], [9, 1, 0]]), [0, 1])
    array([0.5, 0.5, 0.5, 0. , 0. , 0. ])
    """
    right = np.asarray(truth)
    if right.shape != certificate.labels.shape:
        raise InputError(f"truth must have one label for each of {len(certificate)} inputs, got shape {right.shape}")
    if not np.issubdtype(right.dtype, np.integer):
        raise InputError(f"truth must hold integer labels, got dtype {right.dtype}")
    return _share_at_each_level(certificate, certificate.labels == right)


def certified_share(certificate: Certificate) -> NDArray[np.float64]:
    """The share of inputs, right or wrong, with a level of at least m, at index m."""
    return _share_at_each_level(certificate, np.ones(len(certificate), dtype=np.bool_))


def _share_at_each_level(certificate: Certificate, counted: BoolArray) -> NDArray[np.float64]:
    certified = counted & ~certificate.abstained
    past_largest = int(certificate.levels.max()) + 2
    at_level = np.bincount(certificate.levels[certified], minlength=past_largest)
    at_least: NDArray[np.int64] = at_level[::-1].cumsum()[::-1]
    return at_least / len(certificate)
