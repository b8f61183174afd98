"""A data set of one's own: a function that returns a Federation."""

import numpy as np
from sklearn.datasets import load_wine

from flcert import Federation

# Public constants that bring the features to about the same size. Never fit them to the clients' data: one client
# could then influence every group, and the certificate would be worth nothing.
CENTRE = np.array([13, 2.3, 2.4, 19, 100, 2.3, 2, 0.4, 1.6, 5, 1, 2.6, 750])
SPREAD = np.array([0.8, 1.1, 0.3, 3.3, 14, 0.6, 1, 0.1, 0.6, 2.3, 0.2, 0.7, 315])


def load(num_clients: int = 40, seed: int = 0) -> Federation:
    """Scikit-learn's wines, dealt out to the clients."""
    bunch = load_wine()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    inputs, labels = ((bunch.data - CENTRE) / SPREAD)[order], bunch.target[order]
    shares = np.array_split(np.arange(58, len(labels)), num_clients)
    clients = {f"cellar-{i:02d}": (inputs[share], labels[share]) for i, share in enumerate(shares)}
    return Federation.build("wine", clients, test=(inputs[:58], labels[:58]))
