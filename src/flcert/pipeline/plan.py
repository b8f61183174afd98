"""What a federation will cost and the most it can certify, before anything is trained."""

from dataclasses import dataclass

from flcert.certify import CertificateSettings, kind_class
from flcert.errors import InputError, check_range
from flcert.grouping import KINDS, MAX_GROUPS, GroupingKind, Sizes, share_of_rounds

BYTES_OF_A_PARAMETER = 4


@dataclass(frozen=True)
class Setting:
    """What a plan is computed from.

    Args:
        sizes: clients and groups.
        rounds: T_e.
        participation: beta_e, the share of a group's clients in a round.
        num_parameters: float32 numbers in the model, including running statistics of batch normalisation.
        num_without: the same without public features, where groups train a head on them; 0 if there are none.
        num_inputs: D, the number of test inputs that share a failure probability.
        certificate: alpha and other settings of certificates.
    """

    sizes: Sizes
    rounds: int
    participation: float = 1.0
    num_parameters: int = 0
    num_without: int = 0
    num_inputs: int = 10_000
    certificate: CertificateSettings = CertificateSettings()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        check_range("num_clients", self.sizes.num_clients, 1, 2**40)
        check_range("num_groups", self.sizes.num_groups, 1, MAX_GROUPS)
        check_range("group_size", self.sizes.group_size, 1, self.sizes.num_clients, "num_clients")
        check_range("rounds", self.rounds, 1, 2**40)
        check_range("num_parameters", self.num_parameters, 0, 2**50)
        check_range("num_inputs", self.num_inputs, 1, 2**40)
        if not 0 < self.participation <= 1:
            raise InputError(f"participation must be in (0, 1], got {self.participation}")

    def bytes_sent(self, *, without: bool = False) -> int:
        """The bytes that a client sends in a round, with or without public features."""
        return BYTES_OF_A_PARAMETER * (self.num_without if without else self.num_parameters)

    def bytes_stored(self, *, without: bool = False) -> int:
        """The bytes of all groups' models."""
        return self.sizes.num_groups * self.bytes_sent(without=without)

    def bytes_of(self, rounds: float) -> int:
        """The bytes that a client sends and receives in this many rounds: the model, once each way."""
        return round(rounds * 2 * BYTES_OF_A_PARAMETER * self.num_parameters)


@dataclass(frozen=True)
class Plan:
    """What one client has to do, and the largest level that any input can have.

    Args:
        rounds_a_client: expected number of rounds in which a client takes part.
        bytes_a_client: expected number of bytes that it sends and receives.
        models_a_client: average number of groups that it is in.
        largest_level: the level of an input on which all groups agree; 0 if nothing can be certified.
        can_certify: whether any input can be certified at all, even with no malicious client.
        expected_empty_groups: average number of groups without clients.
        likely_votes: number of groups that vote then, rounded to a whole number.
        likely_level: the largest level with this many votes.
        least_groups: the fewest groups with which anything can be certified.
    """

    rounds_a_client: float
    bytes_a_client: int
    models_a_client: float
    largest_level: int
    can_certify: bool
    expected_empty_groups: float = 0.0
    likely_votes: int = 0
    likely_level: int = 0
    least_groups: int = 1


def plans(setting: Setting) -> dict[str, Plan]:
    """A plan for every kind of grouping that these sizes allow, by label."""
    proposed = (kind.proposed(setting.sizes) for kind in KINDS.values())
    return {grouping.label: plan_of(grouping, setting) for grouping in proposed if grouping}


def obstacles(sizes: Sizes) -> list[str]:
    """Which kinds of grouping are not possible, and why."""
    reasons = {kind.title: kind.obstacle(sizes) for kind in KINDS.values()}
    return [f"{title} is not possible: {reason}." for title, reason in reasons.items() if reason]


def plan_of(grouping: GroupingKind, setting: Setting) -> Plan:
    """The plan for one grouping."""
    clients, settings, inputs = setting.sizes.num_clients, setting.certificate, setting.num_inputs
    load = grouping.load(clients, setting.participation)
    rounds = load.groups * load.share_of_rounds * setting.rounds
    best = grouping.unanimous(clients, settings, inputs)
    empty = grouping.expected_empty(clients)
    votes = max(1, round(setting.sizes.num_groups - empty))
    likely = grouping.model_copy(update={"num_groups": votes}).unanimous(clients, settings, inputs)
    kind = kind_class(grouping.certificate)
    chosen = settings.model_dump(include=set(kind.model_fields))
    return Plan(
        rounds_a_client=rounds,
        bytes_a_client=setting.bytes_of(rounds),
        models_a_client=load.groups,
        largest_level=int(best.levels[0]),
        can_certify=not best.abstained[0],
        expected_empty_groups=empty,
        likely_votes=votes,
        likely_level=int(likely.levels[0]),
        least_groups=kind(kind=grouping.certificate, **chosen).least_groups(inputs),
    )


def plan_single(setting: Setting, rounds: int, beta: float) -> Plan:
    """The plan for the single global model: about beta T rounds per client, and nothing certified from m = 1 on."""
    check_range("single_rounds", rounds, 1, 2**40)
    if not 0 < beta <= 1:
        raise InputError(f"beta must be in (0, 1], got {beta}")
    rounds_a_client = share_of_rounds(setting.sizes.num_clients, beta) * rounds
    return Plan(rounds_a_client, setting.bytes_of(rounds_a_client), 1.0, 0, can_certify=True)
