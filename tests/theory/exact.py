"""Rational arithmetic for the tests: slow, and right by inspection."""

from fractions import Fraction
from math import comb

from flcert import certify


def binomial_tail(successes: int, trials: int, p: Fraction) -> Fraction:
    """P[Binomial(trials, p) >= successes], exactly."""
    a, b = p.numerator, p.denominator
    total, power = 0, 1  # Horner's rule in a, with the powers of b - a built up on the way
    for i in range(trials, successes - 1, -1):
        total = total * a + comb(trials, i) * power
        power *= b - a
    return Fraction(total * a**successes, b**trials)


def exact_level_holds(m: int, votes: int, trials: int, alpha: Fraction, num_clients: int, group_size: int) -> bool:
    """Whether Theorem 1 grants m for the exact Clopper-Pearson bound p, which is never computed.

    m holds if ceil(p C) >= t for the smallest integer t with 2 t + 2 C(n-m, k) > 3 C. That is p > (t - 1) / C, and p is
    above a number exactly if the tail at that number is below alpha.
    """
    total = comb(num_clients, group_size)
    needed = (3 * total - 2 * comb(num_clients - m, group_size)) // 2 + 1
    threshold = Fraction(needed - 1, total)
    return threshold < 1 and binomial_tail(votes, trials, threshold) < alpha


def sampled(counts, *, num_groups=None, tails="one", distinct=False, **paper):
    """``certify.sampled`` with what goes beyond the paper as keywords beside the paper's."""
    return certify.sampled(counts, **paper, options=certify.SampledOptions(num_groups, tails, distinct))
