"""Lower confidence bounds on a probability, rounded against us."""

from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import comb

from scipy.special import betaincinv

from flcert.errors import InputError, check_range

Probability = float | Fraction | Decimal

# Arithmetic in which every result is at or above (below) the true one.
_UP = Context(prec=50, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_DOWN = Context(prec=50, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def failure_probability(alpha: Probability) -> Fraction:
    """``alpha`` as the exact fraction of its decimal digits, checked to be inside (0, 1).

    >>> failure_probability(0.001)
    Fraction(1, 1000)
    """
    try:
        exact = Fraction(str(alpha))
    except ValueError:
        raise InputError(f"alpha must be in (0, 1), got {alpha}") from None
    if not 0 < exact < 1:
        raise InputError(f"alpha must be in (0, 1), got {alpha}")
    return exact


def clopper_pearson(successes: int, trials: int, alpha: Fraction) -> Fraction:
    """A lower bound that exceeds p with probability at most alpha, when successes ~ Binomial(trials, p).

    The Clopper-Pearson bound is the p at which P[Binomial(trials, p) >= successes] = alpha. SciPy's
    quantile of the beta distribution finds it in floating point. That float, lowered by one part in
    2^40, is returned once ``tail_bound`` has proved that it is at or below the exact bound; if it is
    not, it is lowered further.

    >>> float(clopper_pearson(10, 10, Fraction(1, 1024)))  # the exact bound is 1/2
    0.49999999999954525
    """
    check_range("trials", trials, 1, 2**31)
    check_range("successes", successes, 0, trials, "trials")
    if successes == 0:
        return Fraction(0)
    estimate = float(betaincinv(successes, trials - successes + 1, float(alpha)))
    if not estimate > 0:  # alpha is below what a float can hold
        return Fraction(0)
    for exponent in range(40, 0, -1):
        bound = Fraction(estimate * (1 - 2.0**-exponent))
        if bound == 0 or tail_bound(successes, trials, bound) <= alpha:
            return bound
    return Fraction(0)


def tail_bound(successes: int, trials: int, p: Fraction) -> Fraction:
    """A tight upper bound on P[Binomial(trials, p) >= successes], for 0 < p < 1.

    Each term of the sum is computed from its neighbour and rounded up. The ratio of neighbours falls, so
    once it is below one, the rest of the sum is at most that of a geometric series.
    """
    success, failure = _ratio(p, _UP), _ratio(1 - p, _UP)
    odds = _UP.divide(success, _ratio(1 - p, _DOWN))
    term = _UP.multiply(_power_up(success, successes), _power_up(failure, trials - successes))
    term = _UP.multiply(term, _UP.create_decimal(comb(trials, successes)))
    steps = (_UP.multiply(odds, _UP.divide(Decimal(trials - i), Decimal(i + 1))) for i in range(successes, trials))
    return _sum_up(term, steps)


def _sum_up(term: Decimal, growths: Iterator[Decimal]) -> Fraction:
    """The sum, rounded up, of terms that are each the previous one times its growth; growths never rise."""
    total = term
    for growth in growths:
        term = _UP.multiply(term, growth)
        total = _UP.add(total, term)
        if growth < 1 and (rest := _geometric_rest(term, growth)) < total.scaleb(-25, _UP):
            total = _UP.add(total, rest)
            break
    return Fraction(total)


def _ratio(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _power_up(base: Decimal, exponent: int) -> Decimal:
    """Base ** exponent by repeated squaring, rounded up (``Context.power`` does not guarantee a direction)."""
    result = Decimal(1)
    while exponent:
        if exponent & 1:
            result = _UP.multiply(result, base)
        base = _UP.multiply(base, base)
        exponent >>= 1
    return result


def _geometric_rest(term: Decimal, growth: Decimal) -> Decimal:
    """An upper bound on term * (growth + growth^2 + ...)."""
    return _UP.divide(_UP.multiply(term, growth), _DOWN.subtract(Decimal(1), growth))


def hypergeometric(successes: int, trials: int, population: int, alpha: Fraction) -> int:
    """A lower bound on the number K of marked items that exceeds K with probability at most alpha.

    Of the ``population``, ``trials`` items were drawn without replacement; ``successes`` of these are marked. The
    exact bound is the smallest K with P[Hypergeometric >= successes] > alpha. The result is found by bisection with a
    tail that is rounded up, so it is never above the exact bound, and below it by at most one part in 2^48 of the
    population. It is ``successes`` if everything was drawn.

    >>> hypergeometric(10, 10, 10, Fraction(1, 1000)), hypergeometric(10, 10, 10**6, Fraction(1, 1000))
    (10, 501190)
    """
    check_range("trials", trials, 1, min(population, 2**31), "population")
    check_range("successes", successes, 0, trials, "trials")
    if successes == 0 or trials == population:
        return successes

    def too_few(marked: int) -> bool:
        return hypergeometric_tail(successes, trials, marked, population) <= alpha

    low = successes - 1  # with fewer marked items, this many successes are impossible
    start = int(clopper_pearson(successes, trials, alpha) * population)  # replacement gives only slightly less
    if start > low and too_few(start):
        low = start
    stride, precision = max(1, population >> 24), max(1, population >> 48)
    while (high := low + stride) <= population and too_few(high):
        low, stride = high, 2 * stride
    high = min(high, population - (trials - successes))
    while high - low > precision:
        middle = (low + high) // 2
        low, high = (middle, high) if too_few(middle) else (low, middle)
    return low + 1


def hypergeometric_tail(successes: int, trials: int, marked: int, population: int) -> Fraction:
    """A tight upper bound on the probability of at least this many marked items among those drawn.

    The first term is C(trials, s) times the chance of one order of draws; the others follow from their neighbours.
    """
    if marked < successes:
        return Fraction(0)
    plain = population - marked
    first = max(successes, trials - plain)
    term = _UP.create_decimal(comb(trials, first))
    for draw in range(trials):
        chance = (marked - draw, population - draw) if draw < first else (plain - draw + first, population - draw)
        term = _UP.multiply(term, _UP.divide(Decimal(chance[0]), Decimal(chance[1])))
    steps = (
        _UP.divide(Decimal((marked - i) * (trials - i)), Decimal((i + 1) * (plain - trials + i + 1)))
        for i in range(first, min(trials, marked))
    )
    return _sum_up(term, steps)
