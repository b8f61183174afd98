"""The paper's attack on FedAvg: the weighted mean of all updates becomes zero, so the group learns nothing."""

import torch

from flcert.aggregators import Round
from flcert.attacks.protocol import Attack, Scene


class ZeroUpdate(Attack):
    """Malicious clients send updates that cancel the benign ones in the mean weighted by data size."""

    def forge(self, scene: Scene) -> Round:
        """The round whose weighted mean is zero."""
        sizes, updates, others = scene.brought.sizes, scene.brought.updates, ~scene.malicious
        total = sizes[others].to(torch.float64) @ updates[others].double()
        return scene.forged(-total / sizes[scene.malicious].sum())
