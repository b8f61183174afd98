"""What a simulated attacker sees in a round, and what it can do."""

from dataclasses import dataclass, replace

from torch import Tensor

from flcert.aggregators import Aggregator, Round


@dataclass(frozen=True)
class Scene:
    """One round of one group, as seen by an attacker who knows everything.

    Args:
        brought: what each client would send, in order of id; a malicious one trains on its poisoned data.
        malicious: (clients), True for those that the attacker controls.
        state: the group's model before the round.
        aggregator: the rule that will be used.
        seed: the seed of the attacker's own draws in this round.
    """

    brought: Round
    malicious: Tensor
    state: Tensor
    aggregator: Aggregator
    seed: int

    @property
    def benign(self) -> Round:
        """The round without the malicious clients; if there are no others, what the malicious ones would send."""
        kept = ~self.malicious if not self.malicious.all() else self.malicious
        return replace(self.brought, updates=self.brought.updates[kept], sizes=self.brought.sizes[kept])

    @property
    def num_malicious(self) -> int:
        """How many clients of this round the attacker controls."""
        return int(self.malicious.sum())

    def forged(self, rows: Tensor) -> Round:
        """The round with the malicious clients' parameters replaced; one row serves all of them.

        Buffers stay as trained: statistics that training never gives, such as a negative variance, would break a model
        instead of steering it.
        """
        updates, parameters = self.brought.updates.clone(), self.brought.num_parameters
        forged = rows.to(updates.dtype)[..., :parameters]
        updates[self.malicious, :parameters] = forged
        return replace(self.brought, updates=updates)

    def honest_direction(self) -> Tensor:
        """The sign of the update that the rule would make from the benign ones."""
        return self.aggregator(self.benign).sign()


class Attack:
    """An attacker; a method that is not overridden changes nothing.

    An attack must be a pure function of its arguments, so that an attacked group is as reproducible as any other.
    """

    def poison(self, inputs: Tensor, labels: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:  # noqa: ARG002 (for subclasses)
        """The data that a malicious client trains on in place of its own."""
        return inputs, labels

    def forge(self, scene: Scene) -> Round:
        """The round after the malicious clients changed what they send."""
        return scene.brought
