"""The attack of "A Little Is Enough" (Baruch et al.): inside the spread of the benign updates, all on one side."""

from statistics import NormalDist

from flcert.aggregators import Round
from flcert.attacks.protocol import Attack, Scene


class LittleIsEnough(Attack):
    """Malicious clients send the benign mean minus z benign standard deviations, coordinate by coordinate.

    z is the largest deviation at which enough benign clients lie further out to make a majority with the malicious
    ones: with n clients, m of them malicious, s = floor(n / 2 + 1) - m supporters are needed, and z is the normal
    quantile of (n - m - s) / (n - m).

    Args:
        deviations: z; by default as above.
    """

    def __init__(self, deviations: float | None = None) -> None:
        self.deviations = deviations

    def forge(self, scene: Scene) -> Round:
        """The round with shifted malicious updates."""
        benign = scene.benign.updates
        spread = benign.std(dim=0, correction=0)
        return scene.forged(benign.mean(dim=0) - self._z(scene) * spread)

    def _z(self, scene: Scene) -> float:
        if self.deviations is not None:
            return self.deviations
        total = len(scene.malicious)
        supporters = max(1, total // 2 + 1 - scene.num_malicious)
        share = (total - scene.num_malicious - supporters) / max(1, total - scene.num_malicious)
        return NormalDist().inv_cdf(min(max(share, 0.5), 1 - 1e-6))
