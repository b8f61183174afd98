"""How many groups must agree on an input before it is certified, from the certificate itself."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Evidence, count_ranks
from flcert.errors import FlcertError, InputError
from flcert.grouping import Outlook
from flcert.voting.counting import NO_VOTE

MOST_POINTS = 400  # of a curve
MOST_RANKED = 4  # labels in a made-up ranking: the first, its rival, and two that nobody votes for


@dataclass(frozen=True)
class Reach:
    """What an input gets.

    Args:
        level: how many malicious clients cannot change its label; 0 if it is not certified.
        certified: whether anything is certified, even with no malicious client.
        wins: whether the label that the groups agree on wins; a trusted model may outvote them.
    """

    level: int
    certified: bool
    wins: bool = True


@dataclass(frozen=True)
class Agreement:
    """The levels of inputs on which some groups agree and all others vote for one rival: no other vote is worse.

    Labels are numbered so that the label on which groups agree wins ties, where a certificate breaks them by number.

    Args:
        outlook: the groups and their certificate.
        num_clients: n.
        num_inputs: D, the number of inputs that share a failure probability.
        num_labels: L.
        opposed: whether the trusted model, if there is one, votes for the rival too.
    """

    outlook: Outlook
    num_clients: int
    num_inputs: int = 1
    num_labels: int = 2
    opposed: bool = False
    _known: dict[int, Reach] = field(default_factory=dict, compare=False)

    @cached_property
    def total(self) -> int:
        """How many groups vote."""
        return self.outlook.num_voting

    def reach(self, agreeing: int) -> Reach:
        """What an input gets on which this many groups agree."""
        if agreeing not in self._known:
            self._known[agreeing] = self._computed(agreeing)
        return self._known[agreeing]

    @property
    def best(self) -> Reach:
        """What an input gets on which all groups agree."""
        return self.reach(self.total)

    def fewest(self, level: int) -> int | None:
        """The fewest groups that must agree to certify a level, whatever the others vote; None if all do not suffice.

        Raises:
            InputError: it depends on which groups agree, not only on how many.
        """
        if not self.outlook.any_order:
            raise InputError("it depends on which groups agree, not only on how many")
        if not self._certifies(self.total, level):
            return None
        low, high = -1, self.total  # low does not suffice, high does
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._certifies(middle, level) else (middle, high)
        return high

    def curve(self) -> list[tuple[int, int]]:
        """(level, fewest groups that must agree for it) for every level, or for some of very many."""
        if not self.best.certified or not self.best.wins:
            return []
        levels = _spread(self.best.level, MOST_POINTS)
        return [(level, votes) for level in levels if (votes := self.fewest(level)) is not None]

    def _certifies(self, agreeing: int, level: int) -> bool:
        reach = self.reach(agreeing)
        return reach.wins and reach.certified and reach.level >= level

    def _computed(self, agreeing: int) -> Reach:
        guarantee = self.outlook.guarantee
        try:
            found = guarantee.certify(self._evidence(agreeing), self.num_inputs)
            label, level, abstained = int(found.labels[0]), int(found.levels[0]), bool(found.abstained[0])
        except FlcertError:
            raise
        except Exception as error:  # a user's certificate may raise anything
            raise InputError(f"certificate {guarantee.kind!r} raised {type(error).__name__}: {error}") from error
        if label != 0 or abstained:
            return Reach(0, certified=False, wins=label == 0)
        everybody = guarantee.num_clients or self.num_clients  # one made-up client may stand for many real ones
        return Reach(level if level < everybody else self.num_clients, certified=True)

    def _evidence(self, agreeing: int) -> Evidence:
        """The votes: label 0 of the groups that agree, label 1 of the others."""
        needs, trusted = self.outlook.guarantee.needs, np.array([int(self.opposed)])
        counts = np.zeros((1, max(2, self.num_labels)), dtype=np.int64)
        counts[0, :2] = agreeing, self.total - agreeing
        votes = self._votes(agreeing) if needs == "votes" else None
        ranks = count_ranks(self._ranks(agreeing), self.outlook.members) if needs == "ranks" else None
        return Evidence(counts, votes, self.outlook.members, ranks, trusted)

    def _votes(self, agreeing: int) -> NDArray[np.int64]:
        members = self.outlook.members
        voting = np.array([len(group) > 0 for group in members] or [True] * self.outlook.num_groups)
        votes = np.full((len(voting), 1), NO_VOTE, dtype=np.int64)
        votes[voting, 0] = np.arange(self.total) >= agreeing
        return votes

    def _ranks(self, agreeing: int) -> list[NDArray[np.integer] | None]:
        ours = np.arange(min(max(2, self.num_labels), MOST_RANKED))[None, :]
        theirs = ours.copy()
        theirs[0, :2] = 1, 0
        ranks = {0: ours, 1: theirs, NO_VOTE: None}
        return [ranks[vote] for vote in self._votes(agreeing)[:, 0].tolist()]


def _spread(last: int, most: int) -> list[int]:
    """Whole numbers from 0 to ``last``, at most this many of them.

    >>> _spread(3, 9), _spread(10, 3)
    ([0, 1, 2, 3], [0, 5, 10])
    """
    return sorted({round(number) for number in np.linspace(0, last, min(last + 1, most)).tolist()})
