"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, no download."""

import numpy as np

from flcert.datasets.federation import Federation
from flcert.errors import check_range
from flcert.seeding import stream


def digits(num_clients: int = 200, num_test: int = 450, num_root: int = 0, seed: int = 0) -> Federation:
    """Scikit-learn's digits, dealt out evenly to the clients after a shuffle.

    Pixels are divided by 16, their fixed maximum; nothing is fitted to what clients hold.

    Args:
        num_clients: n; each client gets the same number of examples, give or take one.
        num_test: how many of the 1,797 examples form the test set.
        num_root: how many of the others the server keeps as its root set.
        seed: of the shuffle.
    """
    from sklearn.datasets import load_digits  # it loads slowly, so it waits until it is needed

    bunch = load_digits()
    inputs, labels = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    check_range("num_test", num_test, 1, len(inputs) - 1)
    check_range("num_root", num_root, 0, len(inputs) - num_test - 1)
    held = num_test + num_root
    check_range("num_clients", num_clients, 1, len(inputs) - held, "number of training examples")
    order = stream(seed, "data", "digits").permutation(len(inputs))
    test, root, shares = order[:num_test], order[num_test:held], np.array_split(order[held:], num_clients)
    clients = {f"client-{i:04d}": (inputs[share], labels[share]) for i, share in enumerate(shares)}
    server = (inputs[root], labels[root]) if num_root else None
    held_out = (inputs[test], labels[test])
    return Federation.build("digits", clients, held_out, num_labels=10, root=server, image_shape=(8, 8))
