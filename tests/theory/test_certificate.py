"""When one certificate says all that another does."""

from itertools import product

import numpy as np

from flcert.certify import Certificate

LEVELS = (-1, 0, 1, 2)  # -1: abstained


def claims(levels):
    """Everything that is claimed: that m clients cannot change the label of an input."""
    return {(row, m) for row, level in enumerate(levels) for m in range(level + 1)}


def test_a_certificate_covers_another_with_the_same_labels_if_every_claim_of_the_other_is_its_own():
    labels = np.array([1, 0])
    for own, other in product(product(LEVELS, repeat=2), repeat=2):
        found = Certificate.build(labels, np.array(own)).covers(Certificate.build(labels, np.array(other)))
        assert found == (claims(own) >= claims(other))


def test_a_certificate_of_other_labels_covers_nothing():
    levels = np.array([5, 5])
    high, low = Certificate.build(np.array([1, 0]), levels), Certificate.build(np.array([1, 1]), levels - 5)
    assert not high.covers(low)
    assert not low.covers(high)
