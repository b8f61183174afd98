"""What a certificate is: a label and a level for each input."""

from dataclasses import dataclass

import numpy as np

from flcert.voting.count_table import BoolArray, IntArray


@dataclass(frozen=True)
class Certificate:
    """The predicted label of each input, and how many malicious clients provably cannot change it.

    Args:
        labels: the predicted label y of each input.
        levels: m*, the certified security level of each input; 0 where abstained.
        abstained: True where nothing is certified, not even with no malicious client.
    """

    labels: IntArray
    levels: IntArray
    abstained: BoolArray

    def __len__(self) -> int:
        return len(self.labels)

    def covers(self, other: "Certificate") -> bool:
        """Whether everything that another certificate claims follows from this one."""
        claimed = ~other.abstained
        lower = claimed & (self.abstained | (self.levels < other.levels))
        return np.array_equal(self.labels, other.labels) and not lower.any()

    @classmethod
    def build(cls, labels: IntArray, levels: IntArray) -> "Certificate":
        """A certificate from levels in which a negative number means that not even level 0 holds."""
        return cls(labels, np.maximum(levels, 0), levels < 0)
