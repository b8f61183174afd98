"""Dealing by degree of non-iid does what its definition says."""

import numpy as np
import pytest

from flcert.core.seeding import stream
from flcert.datasets.partition import by_degree
from flcert.errors import InputError

LABELS = np.arange(60_000) % 10


def deal(labels=LABELS, num_clients=1000, degree=0.5, num_labels=10, seed=0):
    return by_degree(labels, num_clients, degree, num_labels, stream(seed, "tests"))


def share_in_each_group(shares, num_labels=10):
    """The share of each label (row) that each label group (column) holds."""
    table = np.zeros((num_labels, num_labels))
    for client, share in enumerate(shares):
        counts = np.bincount(LABELS[share], minlength=num_labels)
        group = max(g for g in range(num_labels) if g * len(shares) // num_labels <= client)
        table[:, group] += counts
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("degree", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("num_clients", [1000, 103])
def test_a_label_s_own_group_holds_the_degree_and_the_others_share_the_rest(degree, num_clients):
    table = share_in_each_group(deal(degree=degree, num_clients=num_clients))
    expected = np.where(np.eye(10, dtype=bool), degree, (1 - degree) / 9)
    np.testing.assert_allclose(table, expected, atol=0.03)  # 6,000 examples a label: 4.6 standard deviations


def test_degree_one_gives_a_group_its_own_label_only():
    for client, share in enumerate(deal(degree=1.0, num_clients=100)):
        assert set(LABELS[share]) == {client // 10}


def test_one_over_the_number_of_labels_is_iid():
    shares = deal(degree=0.1, num_clients=20)
    for share in shares:  # about 3,000 examples, each label about 300 times
        np.testing.assert_allclose(np.bincount(LABELS[share], minlength=10), 300, atol=5 * 300**0.5)


@pytest.mark.parametrize("num_clients", [10, 17, 1000])
def test_every_example_is_dealt_once(num_clients):
    shares = deal(num_clients=num_clients)
    assert len(shares) == num_clients
    assert np.array_equal(np.sort(np.concatenate(shares)), np.arange(len(LABELS)))


def test_clients_of_one_group_are_alike_in_size():
    sizes = np.array([len(share) for share in deal(num_clients=100)])  # 600 on average
    np.testing.assert_allclose(sizes, 600, atol=5 * 600**0.5)


def test_dealing_depends_on_the_generator_alone():
    first, again, other = deal(seed=1), deal(seed=1), deal(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clients": 9}, r"num_labels must be in \[2, num_clients=9\], got 10"),
        ({"num_clients": 0}, r"num_labels must be in \[2, num_clients=2\], got 10"),
        ({"degree": 1.5}, r"degree must be in \[1/num_labels=0.1, 1\], got 1.5"),
        ({"degree": 0.05}, r"degree must be in \[1/num_labels=0.1, 1\], got 0.05"),
        ({"degree": float("nan")}, r"degree must be in .* got nan"),
        (
            {"labels": LABELS[:30], "num_clients": 100},
            r"of num_clients=100 clients would hold none of 30 examples; use fewer",
        ),
    ],
)
def test_what_cannot_be_dealt_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        deal(**options)
