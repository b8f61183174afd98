"""How much m clients reach together in groups that they share: weighted maximum coverage."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flcert.voting.count_table import IntArray

SCALE = 2**16  # prices are whole multiples of 1 / SCALE
EFFORT = 2**22  # what one search may cost: the cells of the tables that it multiplies, and OVERHEAD for each
OVERHEAD = 2**12
SEARCHED = 2**15  # no search where kinds of clients x groups are more
PRICED = 2**14  # no prices where the groups have more clients together
REMEMBERED = 2**14  # how many answers are kept


class Coverage:
    """Groups that share clients, and what a number of clients can reach in them.

    Clients reach all groups that hold one of them, and what they reach is worth the sum of those groups' weights. How
    much m clients reach at most is hard to compute, but here it need only be compared with a limit.

    Args:
        seats: (kinds of clients x groups), 1 if the kind is in the group.
    """

    def __init__(self, seats: csr_array) -> None:
        self.seats = seats
        holders = np.asarray(seats.sum(axis=0)).reshape(-1)
        self.manned = holders > 0
        self.shared = bool((holders > 1).any())
        self._answers: dict[tuple[bytes, int, int], bool] = {}
        self._prices: dict[int, IntArray] = {}

    def withstood(self, weights: IntArray, limits: IntArray, level: int) -> int:
        """The largest number of kinds found that reach no more than the limit, for every column of the weights.

        Args:
            weights: what each group is worth, (groups x columns), not negative.
            limits: the limit of each column, not negative.
            level: a number that is known to do; it is the answer if no two kinds are in one group.
        """
        if not self.shared:
            return level
        columns = [
            (column, int(limit)) for column, limit in zip((weights * self.manned[:, None]).T, limits, strict=True)
        ]
        while level < self.seats.shape[0] and all(self._within(*one, level + 1) for one in columns):
            level += 1
        return level

    def _within(self, weights: IntArray, limit: int, number: int) -> bool:
        """Whether it is found that so many kinds reach no more than the limit."""
        if int(weights.sum()) <= limit:
            return True
        key = (weights.tobytes(), limit, number)
        if key not in self._answers:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            exceeded = exceeds(self._largest, weights, limit, number) if np.prod(self.seats.shape) <= SEARCHED else None
            found = self._priced(weights, limit, number) if exceeded is None else not exceeded
            self._answers[key] = found
        return self._answers[key]

    @cached_property
    def _largest(self) -> IntArray:
        """The seats of the kinds whose groups another kind is not in as well, as a dense table."""
        table: IntArray = self.seats.toarray()
        within = table @ table.T == table.sum(axis=1)[:, None]  # the groups of one are among those of another
        np.fill_diagonal(within, False)
        largest: IntArray = table[~within.any(axis=1)]
        return largest

    def _priced(self, weights: IntArray, limit: int, number: int) -> bool:
        """Whether prices prove that so many kinds reach no more than the limit."""
        if self.seats.nnz > PRICED:
            return False
        if number not in self._prices:
            self._prices[number] = _suggested(self.seats, number)
        return dual_bound(self._prices[number], self.seats, weights, number) <= limit


def exceeds(seats: IntArray, weights: IntArray, limit: int, number: int, effort: int = EFFORT) -> bool | None:
    """Whether some m kinds of clients reach more than a limit, by branch and bound; None if the search is too long.

    A set is continued with one kind at a time. What it reaches in the end is at most what it reaches now and the r
    largest of what the kinds that may follow would add now, if r are lacking. With one lacking this is exact.

    Args:
        seats: (kinds x groups), 1 if the kind is in the group.
        weights: what each group is worth, not negative.
        limit: what must not be exceeded.
        number: m.
        effort: the most that it may cost, so the result does not depend on the machine.

    >>> exceeds(np.array([[1, 1, 0], [0, 1, 1]]), np.array([2, 2, 2]), 6, 2)
    False
    """
    unfinished = [(weights, limit, np.arange(len(seats)), number)]
    while unfinished:
        left, spare, allowed, lacking = unfinished.pop()
        if spare < 0:
            return True
        table = seats[allowed] * left
        adds = table.sum(axis=1)
        order = np.argsort(-adds, kind="stable")
        leaders = int(adds[order[: lacking - 1]].sum())
        order = order[(leaders + adds[order] > spare) & (adds[order] > 0)]  # no other kind is in a set that exceeds it
        if len(order) == 0 or int(adds[order[:lacking]].sum()) <= spare:
            continue
        if lacking == 1:
            return True
        effort -= OVERHEAD + table.size + len(order) ** 2 * len(left)
        if effort < 0:
            return None
        allowed, adds = allowed[order], adds[order]
        for place in _open(table[order] @ seats[allowed].T, adds, spare, lacking)[::-1]:
            rest = left * (1 - seats[allowed[place]])
            unfinished.append((rest, spare - int(adds[place]), allowed[place + 1 :], lacking - 1))
    return False


def _open(both: IntArray, adds: IntArray, spare: int, lacking: int) -> list[int]:
    """The kinds after which later ones may still reach more than ``spare``.

    Args:
        both: what each two kinds have in common.
        adds: what each kind adds, in descending order.
        spare: how much may be added.
        lacking: how many kinds are to be chosen.
    """
    later = np.triu(adds - both, 1)
    later[:, ::-1].sort(axis=1)
    bounds = adds + later[:, : lacking - 1].sum(axis=1)
    found: list[int] = np.flatnonzero(bounds > spare).tolist()
    return found


def dual_bound(prices: IntArray, seats: csr_array, weights: IntArray, number: int) -> int:
    """A bound on what m kinds reach, by weak duality: each group's weight is split by its price p_g in [0, 1].

    One part is paid at most once, as if all groups were reached; the other by every kind that reaches the group:

        reached <= sum of (1 - p_g) w_g + the m largest of P_c,    P_c = sum over the groups g of kind c of p_g w_g.

    It holds for any prices. With all at 1 it is the plain sum over kinds, with all at 0 the weight of all groups.

    Args:
        prices: p_g of each group in units of 1 / SCALE; those outside of [0, SCALE] are moved into it.
        seats: (kinds x groups), 1 if the kind is in the group.
        weights: what each group is worth, not negative; 0 if no kind is in it.
        number: m.
    """
    allowed = np.clip(prices, 0, SCALE)
    paid = np.asarray(seats @ (allowed * weights))
    once = int(((SCALE - allowed) * weights).sum())
    return (once + int(np.sort(paid)[::-1][:number].sum())) // SCALE


def _suggested(seats: csr_array, number: int) -> IntArray:
    """Prices that are good if all groups weigh the same, from the linear relaxation; all at 1 if HiGHS finds none."""
    from scipy.optimize import linprog  # slow to import, so only where it is needed
    from scipy.sparse import eye_array, hstack, vstack

    kinds, groups = seats.shape
    reaching = hstack([-seats.T, eye_array(groups)])
    budget = hstack([csr_array(np.ones((1, kinds))), csr_array((1, groups))])
    solved = linprog(
        np.concatenate([np.zeros(kinds), -np.ones(groups)]),
        A_ub=vstack([reaching, budget]).tocsr(),
        b_ub=np.concatenate([np.zeros(groups), [number]]),
        bounds=(0, 1),
        method="highs-ds",
    )
    if solved.ineqlin is None or solved.ineqlin.marginals is None:
        return np.full(groups, SCALE, dtype=np.int64)
    marginals: NDArray[np.float64] = -solved.ineqlin.marginals[:groups] * SCALE
    return np.round(marginals).astype(np.int64)
