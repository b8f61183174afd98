"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, no download."""

import numpy as np

from flcert.core.seeding import stream
from flcert.datasets.dataset import DataSet, Options
from flcert.datasets.federation import Federation
from flcert.errors import check_range


class DigitsOptions(Options):
    """Options of scikit-learn's digits.

    Args:
        num_clients: n; all clients get the same number of examples, give or take one.
        num_test: how many of the 1,797 examples form the test set.
        num_root: how many of the others the server keeps as its root set.
        seed: the seed of the shuffle.
    """

    num_clients: int = 200
    num_test: int = 450
    num_root: int = 0
    seed: int = 0


def load(options: DigitsOptions) -> Federation:
    """Scikit-learn's digits, shuffled and dealt out evenly to the clients.

    Pixels are divided by 16, their fixed maximum; nothing is fitted to clients' data.
    """
    from sklearn.datasets import load_digits  # slow to import, so only where it is needed

    bunch = load_digits()
    inputs, labels = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    num_test, held = options.num_test, options.num_test + options.num_root
    check_range("num_test", num_test, 1, len(inputs) - 1)
    check_range("num_root", options.num_root, 0, len(inputs) - num_test - 1)
    check_range("num_clients", options.num_clients, 1, len(inputs) - held, "number of training examples")
    order = stream(options.seed, "data", "digits").permutation(len(inputs))
    test, root, shares = order[:num_test], order[num_test:held], np.array_split(order[held:], options.num_clients)
    clients = {f"client-{i:04d}": (inputs[share], labels[share]) for i, share in enumerate(shares)}
    server = (inputs[root], labels[root]) if options.num_root else None
    held_out = (inputs[test], labels[test])
    return Federation.build("digits", clients, held_out, num_labels=10, root=server, image_shape=(8, 8))


DIGITS = DataSet(
    title="1,797 handwritten digits, 8 x 8 pixels, from scikit-learn",
    options=DigitsOptions,
    load=load,
    input_shape=(64,),
    num_labels=10,
    licence="BSD",
)
