"""FLTrust (Cao et al.): updates are trusted as far as they point where the server's own update points."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from flcert.aggregators.protocol import Aggregator, Round
from flcert.errors import InputError


@dataclass(frozen=True)
class FLTrust:
    """The rule; the server trains on its root set as a client does on its data.

    With g0 the server's update and g_i a client's: trust_i = ReLU(cos(g0, g_i)), and the result is the mean of
    g_i |g0| / |g_i| weighted by trust. Cosine and norms are over the parameters; buffers are averaged with the same
    weights. Updates that are not finite, or zero, are not trusted; if none is trusted, the model stays as it is.
    """

    uses_root: ClassVar[bool] = True

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
        if given.server is None:
            raise InputError("aggregator 'fltrust' needs a data set with a root set of the server")
        finite = given.updates[given.updates.isfinite().all(dim=1)].double()
        parameters, server = finite[:, : given.num_parameters], given.server[: given.num_parameters].double()
        norms, server_norm = parameters.norm(dim=1), server.norm()
        trust = torch.nan_to_num((parameters @ server) / (norms * server_norm)).clamp(min=0)
        if trust.sum() == 0:
            return torch.zeros_like(given.updates[0])
        scale = torch.where(trust > 0, server_norm / norms, 0)
        moved = (trust * scale) @ parameters / trust.sum()
        buffers = trust @ finite[:, given.num_parameters :] / trust.sum()
        return torch.cat([moved, buffers]).to(given.updates.dtype)


def fltrust() -> Aggregator:
    """The rule, which has no options."""
    return FLTrust()
