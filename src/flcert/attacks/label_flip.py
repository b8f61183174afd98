"""Label flipping: malicious clients train on wrong labels and send the resulting updates unchanged."""

from torch import Tensor

from flcert.attacks.protocol import Attack


class LabelFlip(Attack):
    """Label l becomes L - 1 - l (Tolpegin et al. and others flip labels; this map is Fang et al.'s)."""

    def poison(self, inputs: Tensor, labels: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:
        """The data with flipped labels."""
        return inputs, num_labels - 1 - labels
