"""The numbers that a plan is computed from."""

from dataclasses import dataclass

from flcert.certify import CertificateSettings
from flcert.errors import InputError, check_range
from flcert.grouping import MAX_GROUPS, Sizes

BYTES_OF_A_PARAMETER = 4


@dataclass(frozen=True)
class ModelSize:
    """How large a group's model is.

    Args:
        numbers: float32 numbers that a client sends in a round, including running statistics of batch normalisation; 0
            if unknown.
        stored: the bytes that the server stores, less than it receives if models are compressed.
    """

    numbers: int = 0
    stored: int = 0

    def __post_init__(self) -> None:
        check_range("num_parameters", self.numbers, 0, 2**50)

    @classmethod
    def plain(cls, numbers: int) -> "ModelSize":
        """A model that is stored as it is sent."""
        return cls(numbers, BYTES_OF_A_PARAMETER * numbers)

    @property
    def sent(self) -> int:
        """The bytes that a client sends in a round."""
        return BYTES_OF_A_PARAMETER * self.numbers


@dataclass(frozen=True)
class Setting:
    """What a plan is computed from.

    Args:
        sizes: clients and groups.
        rounds: T_e.
        participation: beta_e, the share of a group's clients in a round.
        model: the size of the model.
        without: its size without public features, where groups train a head on them.
        num_inputs: D, the number of test inputs that share a failure probability.
        num_labels: L.
        certificate: alpha and other settings of certificates, and which to plan in addition.
        trusted: T, the votes of a model of the server's own.
        forgotten: registered clients that are left out and not among ``sizes.num_clients``.
    """

    sizes: Sizes
    rounds: int
    participation: float = 1.0
    model: ModelSize = ModelSize()
    without: ModelSize | None = None
    num_inputs: int = 10_000
    num_labels: int = 2
    certificate: CertificateSettings = CertificateSettings()  # noqa: RUF009 (frozen)
    trusted: int = 0
    forgotten: int = 0

    def __post_init__(self) -> None:
        check_range("num_clients", self.sizes.num_clients, 1, 2**40)
        check_range("num_groups", self.sizes.num_groups, 1, MAX_GROUPS)
        check_range("group_size", self.sizes.group_size, 1, self.sizes.num_clients, "num_clients")
        check_range("rounds", self.rounds, 1, 2**40)
        check_range("num_inputs", self.num_inputs, 1, 2**40)
        if not 0 < self.participation <= 1:
            raise InputError(f"participation must be in (0, 1], got {self.participation}")

    def bytes_of(self, rounds: float) -> int:
        """The bytes that a client sends and receives in this many rounds: the model, once each way."""
        return round(rounds * 2 * self.model.sent)
