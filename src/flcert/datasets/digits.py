"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, no download."""

import numpy as np
from sklearn.datasets import load_digits

from flcert.datasets.federation import Federation
from flcert.errors import check_range
from flcert.seeding import stream


def digits(num_clients: int = 200, num_test: int = 450, seed: int = 0) -> Federation:
    """Scikit-learn's digits, dealt out evenly to the clients after a shuffle.

    Pixels are divided by 16, their fixed maximum; nothing is fitted to what clients hold.

    Args:
        num_clients: n; each client gets the same number of examples, give or take one.
        num_test: how many of the 1,797 examples form the test set.
        seed: of the shuffle.
    """
    bunch = load_digits()
    inputs, labels = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    check_range("num_test", num_test, 1, len(inputs) - 1)
    check_range("num_clients", num_clients, 1, len(inputs) - num_test, "number of training examples")
    order = stream(seed, "data", "digits").permutation(len(inputs))
    test, shares = order[:num_test], np.array_split(order[num_test:], num_clients)
    clients = {f"client-{i:04d}": (inputs[share], labels[share]) for i, share in enumerate(shares)}
    return Federation.build("digits", clients, (inputs[test], labels[test]), num_labels=10)
