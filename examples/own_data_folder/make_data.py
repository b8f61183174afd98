"""Write a folder of npz files from scikit-learn's breast cancer data: one for each of 60 clients, and a test set."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

PUBLIC_SCALE = 100.0  # a constant; scaling fitted to what clients hold would let one client influence all groups

bunch = load_breast_cancer()
order = np.random.default_rng(0).permutation(len(bunch.target))
inputs, labels = (bunch.data / PUBLIC_SCALE).astype(np.float32)[order], bunch.target[order]

folder = Path(__file__).parent / "data"
(folder / "clients").mkdir(parents=True, exist_ok=True)
np.savez(folder / "test.npz", inputs=inputs[:149], labels=labels[:149])
for number, share in enumerate(np.array_split(np.arange(149, len(labels)), 60)):
    np.savez(folder / "clients" / f"hospital-{number:02d}.npz", inputs=inputs[share], labels=labels[share])
print(f"60 clients in {folder}")
