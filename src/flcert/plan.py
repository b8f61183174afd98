"""What a federation will cost and can certify at most, before anything is trained."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from flcert import certify
from flcert.certify.sampled import Selection, least_groups
from flcert.errors import InputError, check_range
from flcert.grouping import MAX_GROUPS, num_participants

BYTES_OF_A_PARAMETER = 4
TAIL = 1e-15  # a probability that does not matter
MANY = 10**6


@dataclass(frozen=True)
class Sizes:
    """The sizes that a plan follows from.

    Args:
        num_clients: n.
        num_groups: N.
        group_size: k of FLCert-P.
        rounds: T_e.
        participation: beta_e, the share of a group's clients in a round.
        num_parameters: of the model, float32; running statistics of batch normalisation count too.
        num_inputs: D, test inputs that share alpha.
        alpha: failure probability of FLCert-P.
        selection: correction for choosing the label by its votes.
    """

    num_clients: int
    num_groups: int
    group_size: int
    rounds: int
    participation: float = 1.0
    num_parameters: int = 0
    num_inputs: int = 10_000
    alpha: float = 0.001
    selection: Selection = "safe"

    def __post_init__(self) -> None:
        check_range("num_clients", self.num_clients, 1, 2**40)
        check_range("num_groups", self.num_groups, 1, MAX_GROUPS)
        check_range("group_size", self.group_size, 1, self.num_clients, "num_clients")
        check_range("rounds", self.rounds, 1, 2**40)
        check_range("num_parameters", self.num_parameters, 0, 2**50)
        check_range("num_inputs", self.num_inputs, 1, 2**40)
        if not 0 < self.participation <= 1:
            raise InputError(f"participation must be in (0, 1], got {self.participation}")

    def bytes_of(self, rounds: float) -> int:
        """What a client sends and receives in so many rounds: the model, once each way."""
        return round(rounds * 2 * BYTES_OF_A_PARAMETER * self.num_parameters)


@dataclass(frozen=True)
class Plan:
    """What one client has to do, and the largest level that any input can have.

    Args:
        rounds_a_client: expected rounds in which a client takes part.
        bytes_a_client: expected bytes that it sends and receives.
        models_a_client: groups that it is in, on average.
        largest_level: of an input on which all groups agree; 0 if nothing can be certified.
        can_certify: whether any input can be certified at all, be it without malicious clients.
    """

    rounds_a_client: float
    bytes_a_client: int
    models_a_client: float
    largest_level: int
    can_certify: bool


def plan_disjoint(sizes: Sizes) -> Plan:
    """FLCert-D: each client is in one group, and takes part in about beta_e T_e rounds."""
    check_range("num_groups", sizes.num_groups, 1, sizes.num_clients, "num_clients")
    rounds = expected_share(sizes.num_clients, 1 / sizes.num_groups, sizes.participation) * sizes.rounds
    level = int(certify.disjoint([[sizes.num_groups, 0]]).levels[0])
    return Plan(rounds, sizes.bytes_of(rounds), 1.0, level, can_certify=True)


def plan_sampled(sizes: Sizes) -> Plan:
    """FLCert-P: each client is in k N / n groups on average, and takes part in about (k N / n) beta_e T_e rounds."""
    models = sizes.group_size * sizes.num_groups / sizes.num_clients
    rounds = models * share(sizes.group_size, sizes.participation) * sizes.rounds
    certificate = certify.sampled(
        [[sizes.num_groups, 0]],
        num_clients=sizes.num_clients,
        group_size=sizes.group_size,
        alpha=sizes.alpha,
        num_inputs=sizes.num_inputs,
        selection=sizes.selection,
    )
    can_certify = not certificate.abstained[0]
    return Plan(rounds, sizes.bytes_of(rounds), models, int(certificate.levels[0]), can_certify)


def plan_spread(sizes: Sizes, copies: int) -> Plan:
    """Finite aggregation: each client is in d groups, and takes part in about d beta_e T_e rounds."""
    check_range("num_groups", sizes.num_groups, 1, sizes.num_clients, "num_clients")
    check_range("copies", copies, 1, sizes.num_groups, "num_groups")
    rounds = copies * expected_share(sizes.num_clients, copies / sizes.num_groups, sizes.participation) * sizes.rounds
    level = (sizes.num_groups // 2) // copies  # a client that is in d groups moves a unanimous vote by 2 d
    return Plan(rounds, sizes.bytes_of(rounds), float(copies), level, can_certify=True)


def plan_single(sizes: Sizes, rounds: int, beta: float) -> Plan:
    """The single global model: about beta T rounds a client, and nothing certified against one malicious client."""
    check_range("single_rounds", rounds, 1, 2**40)
    if not 0 < beta <= 1:
        raise InputError(f"beta must be in (0, 1], got {beta}")
    rounds_a_client = share(sizes.num_clients, beta) * rounds
    return Plan(rounds_a_client, sizes.bytes_of(rounds_a_client), 1.0, 0, can_certify=True)


def share(group_size: int, participation: float) -> float:
    """The share of rounds in which a client of a group takes part: beta_e, but for whole numbers of clients."""
    return num_participants(group_size, participation) / group_size


def expected_share(num_clients: int, probability: float, participation: float) -> float:
    """The same for a client whose group each other client is in with this probability, on average.

    In small groups it is more than beta_e, because at least one client takes part in a round.

    >>> expected_share(1000, 1 / 500, 0.1)  # groups of two on average, and one of them in each round
    0.43...
    """
    if participation == 1:
        return 1.0
    others = binom(num_clients - 1, probability)
    least, most = (int(end) for end in others.ppf([TAIL, 1 - TAIL]))
    if most - least > MANY:
        return participation  # groups are so large that rounding does not matter
    numbers = np.arange(least, most + 1)
    return float(sum(others.pmf(numbers) * [share(1 + number, participation) for number in numbers.tolist()]))


def expected_empty_groups(sizes: Sizes) -> float:
    """How many groups a hash leaves without clients: N (1 - 1/N)^n on average."""
    number = sizes.num_groups
    return number * (1 - 1 / number) ** sizes.num_clients


def groups_needed(sizes: Sizes) -> int:
    """The smallest N with which FLCert-P can certify anything for so many inputs."""
    return least_groups(sizes.num_inputs, sizes.alpha, sizes.selection)
