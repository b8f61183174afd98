"""What a federation will cost and the most it can certify, before anything is trained."""

from dataclasses import dataclass, field

from flcert.certify import kind_class
from flcert.core.settings import Choice
from flcert.errors import InputError, check_range
from flcert.grouping import KINDS, GroupingKind, Outlook, Sizes, share_of_rounds
from flcert.pipeline.agreement import Agreement, Reach
from flcert.pipeline.plan_setting import Setting

MOST_MORE = 100  # groups to try beyond what a certificate names as the least number


@dataclass(frozen=True)
class Plan:
    """What one client has to do, and the largest level that any input can have.

    Args:
        num_groups: N.
        group_size: the number of clients in a group, on average.
        rounds_a_client: expected number of rounds in which a client takes part.
        bytes_a_client: expected number of bytes that it sends and receives.
        bytes_stored: the bytes of the models of the groups that are likely to vote.
        models_a_client: average number of groups that it is in.
        largest_level: the level of an input on which all groups agree, and the trusted model with them if there is one;
            0 if nothing can be certified.
        can_certify: whether any input can be certified at all, even with no malicious client.
        opposed: the same if the trusted model votes against all groups; None without trusted votes.
        expected_empty_groups: average number of groups without clients.
        likely_votes: number of groups that vote then, rounded to a whole number.
        likely_level: the largest level with this many votes.
        least_groups: the fewest groups of this size with which anything can be certified; None if none suffice.
        needed: for the level that was asked for, the fewest groups that must agree, see ``Needed``.
        also: the level of an input on which all groups agree, by the title of each further certificate.
        unplanned: why other certificates cannot be planned, by title.
        probabilistic: whether the certificate holds except with probability alpha.
        certifies_ties: whether a label that wins ties may be certified with as many votes as another.
    """

    num_groups: int
    group_size: float
    rounds_a_client: float
    bytes_a_client: int
    bytes_stored: int
    models_a_client: float
    largest_level: int
    can_certify: bool
    opposed: Reach | None = None
    expected_empty_groups: float = 0.0
    likely_votes: int = 0
    likely_level: int = 0
    least_groups: int | None = 1
    needed: "Needed | None" = None
    also: dict[str, Reach] = field(default_factory=dict)
    unplanned: dict[str, str] = field(default_factory=dict)
    probabilistic: bool = False
    certifies_ties: bool = True


@dataclass(frozen=True)
class Needed:
    """How many of the groups that are likely to vote must agree to certify a level.

    Args:
        level: m.
        agreeing: the fewest groups, whatever the others vote; None if not even all suffice, or if it is unknown.
        opposed: the same if the trusted model votes against them; None without trusted votes, too.
        unknown: why it is unknown; empty if it is known.
    """

    level: int
    agreeing: int | None
    opposed: int | None = None
    unknown: str = ""


@dataclass(frozen=True)
class Overview:
    """The plans for one setting.

    Args:
        setting: what they were computed from.
        groupings: the configured grouping, and then those beside it, by label.
        plans: for each grouping that is possible, by label.
        obstacles: why the others are not.
    """

    setting: Setting
    groupings: dict[str, GroupingKind]
    plans: dict[str, Plan]
    obstacles: dict[str, str]

    @property
    def own(self) -> str:
        """The label of the configured grouping."""
        return next(iter(self.groupings))


def overview(own: GroupingKind, setting: Setting, target: int | None = None) -> Overview:
    """Plan a grouping, and every other kind that was asked for beside it.

    Args:
        own: the configured grouping.
        setting: what to compute the plans from.
        target: the level to count the groups for that must agree.
    """
    if target is not None:
        check_range("target_m", target, 0, setting.sizes.num_clients, "num_clients")
    groupings, plans, obstacles = beside(own, setting.sizes), {}, {}
    for label, grouping in groupings.items():
        try:
            plans[label] = plan_of(grouping, setting, target, setting.certificate.also if grouping is own else ())
        except InputError as error:
            obstacles[label] = str(error)
    return Overview(setting, groupings, plans, obstacles)


def beside(own: GroupingKind, sizes: Sizes) -> dict[str, GroupingKind]:
    """A grouping and the other kinds to compare it with, by label."""
    groupings = {own.label: own}
    for name, kind in KINDS.items():
        other = kind.proposed(sizes) if name != own.kind else None
        if other is not None:
            groupings[other.label if other.label not in groupings else f"{other.label} ({name})"] = other
    return groupings


def plan_of(grouping: GroupingKind, setting: Setting, target: int | None = None, also: tuple[Choice, ...] = ()) -> Plan:
    """The plan for one grouping.

    Args:
        grouping: the grouping.
        setting: what to compute the plan from.
        target: the level to count the groups for that must agree.
        also: further certificates.
    """
    clients = setting.sizes.num_clients
    outlook = possible(grouping, setting)
    everybody, load = agreement(outlook, setting), grouping.load(clients, setting.participation)
    rounds, empty = load.groups * load.share_of_rounds * setting.rounds, grouping.expected_empty(clients)
    likely = likely_outlook(grouping, outlook, clients)
    votes = likely.num_voting
    levels, unplanned = _further(grouping, setting, also)
    return Plan(
        num_groups=outlook.num_groups,
        group_size=load.groups * clients / outlook.num_groups,
        rounds_a_client=rounds,
        bytes_a_client=setting.bytes_of(rounds),
        bytes_stored=votes * setting.model.stored,
        models_a_client=load.groups,
        largest_level=everybody.best.level,
        can_certify=everybody.best.certified,
        opposed=agreement(outlook, setting, opposed=True).best if setting.trusted else None,
        expected_empty_groups=empty,
        likely_votes=votes,
        likely_level=agreement(likely, setting).best.level,
        least_groups=_least_groups(outlook, setting),
        needed=None if target is None else _needed(likely, setting, target),
        also=levels,
        unplanned=unplanned,
        probabilistic=outlook.guarantee.probabilistic,
        certifies_ties=outlook.guarantee.ties != "random",
    )


def possible(grouping: GroupingKind, setting: Setting, certificate: Choice | None = None) -> Outlook:
    """The groups as a certificate will see them, refused if they are not possible."""
    clients = setting.sizes.num_clients
    grouping.check(clients + setting.forgotten if grouping.can_forget else clients)
    return grouping.outlook(clients, setting.certificate, setting.trusted, certificate)


def likely_outlook(grouping: GroupingKind, outlook: Outlook, num_clients: int) -> Outlook:
    """The same with as many empty groups as there are on average, rounded to a whole number."""
    voting = max(1, round(outlook.num_groups - grouping.expected_empty(num_clients)))
    return outlook.with_voting(min(outlook.num_voting, voting))


def agreement(outlook: Outlook, setting: Setting, *, opposed: bool = False) -> Agreement:
    """The levels that agreement of some groups is worth."""
    return Agreement(outlook, setting.sizes.num_clients, setting.num_inputs, setting.num_labels, opposed)


def agreement_curve(grouping: GroupingKind, setting: Setting, *, opposed: bool = False) -> list[tuple[int, float]]:
    """For each m the share of the groups with clients that must agree, with as many empty groups as on average.

    Args:
        grouping: the grouping.
        setting: what to compute the curve from.
        opposed: whether the trusted model votes against them.
    """
    likely = likely_outlook(grouping, possible(grouping, setting), setting.sizes.num_clients)
    points = agreement(likely, setting, opposed=opposed).curve()
    return [(level, votes / likely.num_voting) for level, votes in points]


def plan_single(setting: Setting, rounds: int, beta: float) -> Plan:
    """The plan for the single global model: about beta T rounds per client, and nothing certified from m = 1 on."""
    check_range("single_rounds", rounds, 1, 2**40)
    if not 0 < beta <= 1:
        raise InputError(f"beta must be in (0, 1], got {beta}")
    clients = setting.sizes.num_clients
    rounds_a_client = share_of_rounds(clients, beta) * rounds
    return Plan(
        num_groups=1,
        group_size=clients,
        rounds_a_client=rounds_a_client,
        bytes_a_client=setting.bytes_of(rounds_a_client),
        bytes_stored=setting.model.stored,
        models_a_client=1.0,
        largest_level=0,
        can_certify=True,
    )


def _further(
    grouping: GroupingKind, setting: Setting, also: tuple[Choice, ...]
) -> tuple[dict[str, Reach], dict[str, str]]:
    """What further certificates give to an input on which all groups agree, and why some cannot be planned."""
    levels, unplanned = {}, {}
    for choice in also:
        kind = kind_class(choice.name)
        if not kind.per_input:
            unplanned[kind.title] = "it counts inputs of a test set, and needs the votes on them"
            continue
        try:
            levels[kind.title] = agreement(possible(grouping, setting, choice), setting).best
        except InputError as error:
            unplanned[kind.title] = str(error)
    return levels, unplanned


def _needed(outlook: Outlook, setting: Setting, level: int) -> Needed:
    try:
        agreeing = agreement(outlook, setting).fewest(level)
    except InputError as error:
        return Needed(level, None, unknown=str(error))
    return Needed(level, agreeing, agreement(outlook, setting, opposed=True).fewest(level) if setting.trusted else None)


def _least_groups(outlook: Outlook, setting: Setting) -> int | None:
    """The fewest groups that certify an input on which all of them agree, by the same certificate as all else."""
    guarantee = outlook.guarantee
    if not guarantee.probabilistic:
        return 1

    def certified(groups: int) -> bool:
        fewer = Outlook(guarantee.model_copy(update={"num_groups": groups}), groups)
        try:
            return agreement(fewer, setting).best.certified
        except InputError:  # more groups than there are different ones; all of them leave nothing to bound
            return True

    least = max(1, guarantee.least_groups(setting.num_inputs))
    while least > 1 and certified(least - 1):
        least -= 1
    beyond = (number for number in range(least, least + MOST_MORE) if certified(number))
    return next(beyond, None)
