"""How many inputs m attacked groups can break at most, by weak duality."""

import numpy as np
from numpy.typing import NDArray

from flcert.certify.threats import Threats
from flcert.voting.count_table import IntArray

SCALE = 2**32  # multipliers of the dual are whole multiples of 1 / SCALE


def relaxed_bound(threats: Threats, num_malicious: int) -> int:
    """An upper bound on the number of inputs that can break, from multipliers that HiGHS suggests."""
    return min(len(threats.starts), dual_bound(_multipliers(threats, num_malicious), threats, num_malicious))


def dual_bound(multipliers: IntArray, threats: Threats, num_malicious: int) -> int:
    """The weak-duality bound for multipliers in units of 1 / SCALE, rounded down: a number of inputs is whole.

    If input i breaks, the attacked groups g close the gap of one of its rivals z: the sum of their
    a_ig = max over z of reach_gz / (gap_z + 1) is at least 1, also if each is taken as 1 at most. So for any l_i in
    [0, 1], whatever the attacker does,

        broken <= sum of (1 - l_i) + the m largest of S_g,    S_g = sum over i of l_i a_ig.

    Every l_i a_ig is rounded up.

    Args:
        multipliers: l_i of each input; those outside of [0, SCALE] are moved into it.
        threats: the ways in which the inputs can break.
        num_malicious: how many groups can be attacked.
    """
    allowed = np.clip(multipliers, 0, SCALE)
    whole = allowed[threats.places]
    sums = []
    for reach in threats.reach:
        shares = -(-whole * reach // (threats.gaps + 1))
        sums.append(int(np.minimum(np.maximum.reduceat(shares, threats.starts), allowed).sum()))
    unused = SCALE * len(allowed) - int(allowed.sum())
    return (unused + sum(sorted(sums, reverse=True)[:num_malicious])) // SCALE


def _multipliers(threats: Threats, num_malicious: int) -> IntArray:
    """Good multipliers from the linear program; zeros, which are sound too, if HiGHS finds none.

    Its variables are the share of each group that is attacked and the share of each input that breaks.
    """
    from scipy.optimize import linprog  # slow to import, so only where it is needed
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    shares = _shares(threats)
    groups, inputs = shares.shape
    breaking = hstack([csr_array(-shares.T), eye_array(inputs)])
    budget = hstack([csr_array(np.ones((1, groups))), csr_array((1, inputs))])
    solved = linprog(
        np.concatenate([np.zeros(groups), -np.ones(inputs)]),
        A_ub=vstack([breaking, budget]).tocsr(),
        b_ub=np.concatenate([np.zeros(inputs), [num_malicious]]),
        bounds=(0, 1),
        method="highs-ds",
    )
    if solved.ineqlin is None or solved.ineqlin.marginals is None:
        return np.zeros(inputs, dtype=np.int64)
    multipliers: IntArray = np.floor(-solved.ineqlin.marginals[:inputs] * SCALE).astype(np.int64)
    return multipliers


def _shares(threats: Threats) -> NDArray[np.float64]:
    """The a_ig of ``dual_bound``, (groups x inputs)."""
    rows = [np.maximum.reduceat(reach / (threats.gaps + 1), threats.starts) for reach in threats.reach]
    shares: NDArray[np.float64] = np.minimum(np.array(rows), 1)
    return shares
