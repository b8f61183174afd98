"""Sparse counts, for many labels, give the certificates of dense ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from flcert import certify, voting
from tests.theory.exact import sampled

TABLES = arrays(
    np.int64, st.tuples(st.integers(1, 12), st.integers(2, 6)), elements=st.sampled_from([0, 0, 0, 1, 2, 5])
)


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("labels", "levels", "abstained"))


@given(TABLES)
def test_disjoint(counts):
    assert same(certify.disjoint(counts), certify.disjoint(csr_array(counts)))
    assert same(certify.disjoint(counts, num_failed=2), certify.disjoint(csr_array(counts), num_failed=2))


@given(TABLES)
def test_sampled(counts):
    setting = {"num_clients": 40, "group_size": 2, "num_groups": 40, "alpha": 0.5}
    assert same(sampled(counts, **setting), sampled(csr_array(counts), **setting))


@given(st.integers(0, 10), st.integers(0, 10))
def test_enumerated(first, second):
    counts = np.array([[min(first, 10 - min(second, 10 - first)), 0, 0]])
    counts[0, 2] = 10 - counts[0, 0]
    setting = {"num_clients": 5, "group_size": 2}
    assert same(certify.enumerated(counts, **setting), certify.enumerated(csr_array(counts), **setting))


@given(TABLES, st.integers(0, 3))
def test_winners(counts, seed):
    for ties in ("smallest", "random"):
        assert np.array_equal(voting.winners(counts, ties, seed), voting.winners(csr_array(counts), ties, seed))


def test_stored_zeros_and_doubled_entries_do_not_matter():
    messy = csr_array(([2, 0, 3, 1], ([0, 0, 0, 0], [1, 2, 0, 1])), shape=(1, 4))
    assert same(certify.disjoint(messy), certify.disjoint([[3, 3, 0, 0]]))


def test_votes_for_fifty_thousand_words_are_counted_without_a_dense_table():
    votes = np.random.default_rng(0).zipf(1.3, size=(60, 2000)) % 50_000
    counts = voting.count(votes, 50_000)
    assert isinstance(counts, csr_array)
    assert counts.nnz <= votes.size
    narrow = voting.count(votes[:, :50], 50_000)
    assert isinstance(narrow, np.ndarray)
    certificate = certify.disjoint(counts)
    assert np.array_equal(certificate.levels[:50], certify.disjoint(narrow).levels)
    assert np.array_equal(voting.winners(counts)[:50], voting.winners(narrow))


def test_bad_sparse_counts_are_refused():
    with pytest.raises(ValueError, match="counts must be integers"):
        certify.disjoint(csr_array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="got -1"):
        certify.disjoint(csr_array([[-1, 2]]))
