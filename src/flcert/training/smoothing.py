"""CRFL (Xie et al.), the baseline: clip and perturb the global model in training, smooth it at test time."""

from pydantic import Field
from torch import Generator, Tensor, randn

from flcert.core.seeding import derive
from flcert.core.settings import Strict


class Smoothing(Strict):
    """CRFL's settings; the defaults are the paper's.

    Args:
        clip: rho, the largest norm of the global parameters after a round.
        sigma: standard deviation of the noise added before the next round, and to each copy at test time.
        copies: M, how many noisy copies vote on an input.
        seed: the seed of the noise at test time.
    """

    clip: float = Field(default=15.0, gt=0)
    sigma: float = Field(default=0.01, gt=0)
    copies: int = Field(default=1000, gt=0)
    seed: int = Field(default=0, ge=0)

    def clipped(self, state: Tensor, num_parameters: int) -> Tensor:
        """The state with its parameters scaled down to norm ``clip`` if they exceed it; buffers stay."""
        norm = float(state[:num_parameters].norm())
        scaled = state.clone()
        if norm > self.clip:
            scaled[:num_parameters] *= self.clip / norm
        return scaled

    def perturbed(self, state: Tensor, num_parameters: int, seed: int, *path: int | str) -> Tensor:
        """The state with noise on its parameters, from the stream of this seed and path."""
        generator = Generator().manual_seed(derive(seed, "smoothing", *path))
        noisy = state.clone()
        noisy[:num_parameters] += self.sigma * randn(num_parameters, generator=generator)
        return noisy
