"""Certified accuracy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flcert import certify
from flcert.errors import InputError


@given(arrays(np.int64, st.tuples(st.integers(1, 30), st.integers(2, 5)), elements=st.integers(0, 20)), st.data())
def test_it_is_the_share_that_is_right_certified_and_at_least_at_the_level(counts, data):
    certificate = certify.disjoint(counts)
    truth = data.draw(arrays(np.int64, len(counts), elements=st.integers(0, 4)))
    curve = certify.certified_accuracy(certificate, truth)
    for m, value in enumerate(curve):
        kept = [
            not abstained and label == right and level >= m
            for label, level, abstained, right in zip(
                certificate.labels, certificate.levels, certificate.abstained, truth, strict=True
            )
        ]
        assert value == sum(kept) / len(counts)
    assert curve[-1] == 0
    assert len(curve) == certificate.levels.max() + 2  # it ends one past the largest level
    assert (np.diff(curve) <= 0).all()


def test_abstained_inputs_do_not_count_even_if_their_label_is_right():
    certificate = certify.sampled([[26, 24], [50, 0]], num_clients=100, group_size=1)
    assert certificate.abstained.tolist() == [True, False]
    assert certify.certified_accuracy(certificate, [0, 0])[0] == 0.5
    assert certify.certified_share(certificate)[0] == 0.5


def test_the_share_counts_wrong_inputs_too():
    certificate = certify.disjoint([[9, 0], [0, 9]])
    assert certify.certified_share(certificate)[0] == 1
    assert certify.certified_accuracy(certificate, [0, 0])[0] == 0.5


@pytest.mark.parametrize(
    ("truth", "message"),
    [([0], "one label for each of 2 inputs"), ([0.0, 1.0], "integer labels, got dtype float64")],
)
def test_a_truth_that_does_not_fit_is_refused(truth, message):
    with pytest.raises(InputError, match=message):
        certify.certified_accuracy(certify.disjoint([[9, 0], [0, 9]]), truth)
