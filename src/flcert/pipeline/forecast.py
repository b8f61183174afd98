"""What certified accuracy many groups will reach, from the votes of a few.

A pilot trains a dozen or two groups. On an input the shares of *all* possible groups that vote for each label are
unknown; the pilot's votes are a small draw from them. Taking the votes for the shares makes inputs look more extreme
than they are: of 12 groups that are right nine times out of ten, all 12 agree on every fourth input. So the forecast
asks which distribution of shares over the inputs makes the votes that were seen most likely (the nonparametric
maximum likelihood estimate of a mixture of narrow bumps, by expectation maximisation), and lets the full number of
groups vote with shares of that distribution. The bumps keep it smooth: a dozen votes cannot tell a smooth distribution
from one of a few spikes, and spikes would make a curve of steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from flcert.core.seeding import stream
from flcert.voting import NO_VOTE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Curve = Callable[[Integers], tuple[Integers, Integers]]
"""Labels and levels of the inputs with these counts of votes, (inputs x labels); level -1 where one abstains."""

RIGHT_SHARES = 61  # values on the grid of shares
CONCENTRATIONS = (0.03, 0.1, 0.25, 0.6, 1.5, 6.0)  # of the wrong votes on one label
DRAWS = 200  # draws of all groups' votes for each point of the grid
MOST_WRONG = 30  # wrong labels that get votes of their own
WIDTH = 0.08  # of a bump, in the angle whose squared sine is the share of right votes
ROUNDS = 200  # rounds of expectation maximisation
WARM_ROUNDS = 50  # the same when it starts from the estimate of nearly the same votes
FOLDS = 20  # parts of the inputs for their jackknife


@dataclass(frozen=True)
class Ballots:
    """The votes of a pilot's groups on inputs whose labels are known.

    Args:
        votes: the label that each group gives to each input, (groups x inputs); -1 for a group without a model.
        truth: the true labels.
        num_labels: L.
        shared: the share of two groups' clients that they have in common, (groups x groups).
        inside: whether the client that an input belongs to is in a group, (groups x inputs).
        owners: for each input, the number of the client that it belongs to, or of any other unit that inputs come in.
        own: whether the owner's group votes on an input in the federation, as it does if test inputs are clients'.
        reuse: how many times a client is used in all groups, on average.
    """

    votes: NDArray[np.integer]
    truth: Integers
    num_labels: int
    shared: Floats
    inside: NDArray[np.bool_]
    owners: Integers
    own: bool = False
    reuse: float = 1.0

    def without_group(self, group: int) -> "Ballots":
        """The same without one group."""
        kept = np.arange(len(self.votes)) != group
        return replace(self, votes=self.votes[kept], inside=self.inside[kept], shared=self.shared[np.ix_(kept, kept)])

    def of_inputs(self, kept: NDArray[np.bool_]) -> "Ballots":
        """The same on some of the inputs."""
        votes, inside = self.votes[:, kept], self.inside[:, kept]
        return replace(self, votes=votes, inside=inside, truth=self.truth[kept], owners=self.owners[kept])


@dataclass(frozen=True)
class Patterns:
    """The different ways in which groups voted on an input, as far as they matter.

    Args:
        right: votes for the true label.
        wrong: at column c, how many wrong labels got c votes; column 0 is not used.
        weights: the share of the inputs that look so.
        own_right: among those, how often the owner's group was right, on average.
    """

    right: Integers
    wrong: Integers
    weights: Floats
    own_right: Floats


def patterns_of(ballots: Ballots) -> Patterns:
    """Count the votes of the groups without the owner.

    A group is not asked about its own clients' inputs: it has seen them, or others of the same client.
    """
    rows = _rows(np.where(ballots.inside, NO_VOTE, ballots.votes), ballots.truth)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    times = np.bincount(which.reshape(-1), minlength=len(distinct))
    own_right = np.bincount(which.reshape(-1), weights=_own_right(ballots), minlength=len(distinct)) / times
    return Patterns(distinct[:, 0], distinct[:, 1:], times / times.sum(), own_right)


def worth(ballots: Ballots) -> float:
    """How much a vote is worth beside one of groups that share no client, in (0, 1].

    Groups with clients in common err on the same inputs more often than others do, so their votes scatter more than as
    many votes of other groups would. How much more is read off the votes: whether a group is right, less the average
    of the group and that of the input, goes together in two groups the more, the more clients they share. G votes with
    the correlation r on average are worth G / (1 + (G - 1) r).
    """
    pairs = np.triu_indices(len(ballots.votes), 1)
    shared = ballots.shared[pairs]
    if not shared.any():
        return 1.0
    asked = ~ballots.inside
    right = np.where(asked, ballots.votes == ballots.truth, 0.0)
    of_group = right.sum(axis=1, keepdims=True) / np.maximum(1, asked.sum(axis=1, keepdims=True))
    of_input = right.sum(axis=0) / np.maximum(1, asked.sum(axis=0))
    residual = np.where(asked, right - of_group - of_input + right.sum() / asked.sum(), 0.0)
    both = np.maximum(1, asked.astype(np.float64) @ asked.T)[pairs]
    variance = (residual**2).sum() / asked.sum() * len(asked) / (len(asked) - 1)  # the averages took a part of it
    together = (residual @ residual.T)[pairs] / both / variance
    scatter = shared - shared.mean()
    slope = float(scatter @ together / (scatter @ scatter)) if scatter.any() else 1.0
    correlation = min(1.0, max(0.0, slope)) * float(shared.mean())
    return 1 / (1 + (len(ballots.votes) - 1) * correlation)


def _own_right(ballots: Ballots) -> Floats:
    """For each input, the share of the groups with its owner that are right; the average of all if it has none."""
    voted = ballots.inside & (ballots.votes != NO_VOTE)
    groups, right = voted.sum(axis=0), (voted & (ballots.votes == ballots.truth)).sum(axis=0)
    average = right.sum() / max(1, groups.sum())
    found: Floats = np.where(groups > 0, right / np.maximum(groups, 1), average)
    return found


def _rows(votes: NDArray[np.integer], truth: Integers) -> Integers:
    """For each input the right votes, and how many wrong labels got 0 (which is not counted), 1, 2, ... votes."""
    same = (votes[:, None] == votes[None]).sum(axis=0)  # for each vote, the votes for the same label
    wrong = (votes != truth) & (votes != NO_VOTE)
    rows = np.zeros((len(truth), len(votes) + 2), dtype=np.int64)
    rows[:, 0] = (votes == truth).sum(axis=0)
    for times in range(1, len(votes) + 1):
        rows[:, times + 1] = (wrong & (same == times)).sum(axis=0) // times
    return rows


@dataclass(frozen=True)
class Grid:
    """Shares of votes that an input may have: that of the true label, and how concentrated the wrong votes are.

    The shares of the wrong labels among the wrong votes are those of a symmetric Dirichlet distribution: with a small
    parameter nearly all wrong votes go to one rival, with a large one all wrong labels get as many.

    Args:
        num_labels: L.
    """

    num_labels: int

    @property
    def num_wrong(self) -> int:
        """Wrong labels; of very many, those beyond some would get no votes anyway."""
        return min(MOST_WRONG, self.num_labels - 1)

    @cached_property
    def points(self) -> Floats:
        """All pairs of right share and parameter, (points x 2); shares are closer to each other near 0 and 1."""
        right = np.sin(np.linspace(0, np.pi / 2, RIGHT_SHARES)) ** 2
        return np.stack(np.meshgrid(right, CONCENTRATIONS, indexing="ij"), axis=-1).reshape(-1, 2)

    def likelihoods(self, patterns: Patterns) -> Floats:
        """How likely each pattern is at each point, (patterns x points), up to a factor of the pattern."""
        right, each = self.points.T
        total = patterns.wrong @ np.arange(patterns.wrong.shape[1])
        logs = gammaln(self.num_wrong * each) - gammaln(self.num_wrong * each + total[:, None])
        for count in range(1, patterns.wrong.shape[1]):
            logs += patterns.wrong[:, count, None] * (gammaln(each + count) - gammaln(each))
        logs -= logs.max(axis=1, keepdims=True)
        found: Floats = right ** patterns.right[:, None] * (1 - right) ** total[:, None] * np.exp(logs)
        return found

    @cached_property
    def bumps(self) -> Floats:
        """The distribution of each bump over the points, (points x bumps); one bump around each point."""
        angles, each = np.arcsin(np.sqrt(self.points[:, 0])), self.points[:, 1]
        near = angles[:, None] - angles
        far = angles[:, None] + angles  # what lies beyond an end is reflected
        heights = sum(np.exp(-0.5 * (distance / WIDTH) ** 2) for distance in (near, far, np.pi - far))
        heights = heights * (each[:, None] == each)
        whole: Floats = heights / heights.sum(axis=0)
        return whole

    def draws(self, num_votes: int, generator: np.random.Generator) -> Integers:
        """Votes of many groups at each point, (points x draws x labels); the true label is the first."""
        among = {each: generator.dirichlet([each] * self.num_wrong, DRAWS) for each in CONCENTRATIONS}
        wrong = np.stack([among[each] for each in self.points[:, 1]])
        right = np.broadcast_to(self.points[:, :1, None], (*wrong.shape[:2], 1))
        shares = np.concatenate([right, (1 - right) * wrong], axis=2)
        shares /= shares.sum(axis=2, keepdims=True)
        return np.asarray(generator.multinomial(num_votes, shares), dtype=np.int64)


def mixed(likelihoods: Floats, weights: Floats, start: Floats | None = None) -> Floats:
    """The distribution over bumps that makes the patterns most likely, by expectation maximisation.

    Args:
        likelihoods: of each pattern in each bump.
        weights: the share of each pattern.
        start: a distribution to start from; by default all bumps alike.
    """
    bumps = likelihoods.shape[1]
    mixture = np.full(bumps, 1 / bumps) if start is None else start
    for _ in range(ROUNDS if start is None else WARM_ROUNDS):
        mixture = mixture * ((weights / (likelihoods @ mixture)) @ likelihoods)
    return mixture


@dataclass(frozen=True)
class Federated:
    """The votes of all groups, drawn at each point of the grid, and what is certified of them.

    Args:
        grid: the shares.
        right: CA@m at each point if the owner's group is right, (points x levels).
        wrong: the same if it votes for the rival; equal to ``right`` where no group is the owner's.
    """

    grid: Grid
    right: Floats
    wrong: Floats

    @classmethod
    def of(cls, ballots: Ballots, num_votes: int, certify: Curve) -> "Federated":
        """Draw the votes of ``num_votes`` groups at each point, and certify them."""
        grid = Grid(ballots.num_labels)
        drawn = grid.draws(num_votes - ballots.own, stream(0, "forecast"))
        if not ballots.own:
            alone = _certified(drawn, num_votes, certify)
            return cls(grid, alone, alone)
        rivals = 1 + drawn[:, :, 1:].argmax(axis=2, keepdims=True)
        own = (np.zeros_like(rivals), rivals)  # the label for which the owner's group votes
        return cls(grid, *(_certified(drawn + (np.arange(drawn.shape[2]) == one), num_votes, certify) for one in own))

    def curve(self, patterns: Patterns, likelihoods: Floats, shares: Floats) -> Floats:
        """The average CA@m of inputs on which groups voted in these patterns.

        Args:
            patterns: the patterns.
            likelihoods: of each pattern at each point.
            shares: the distribution over the points.
        """
        joint = likelihoods * shares
        joint *= (patterns.weights / joint.sum(axis=1))[:, None]
        found: Floats = (patterns.own_right @ joint) @ self.right + ((1 - patterns.own_right) @ joint) @ self.wrong
        return found


def _certified(drawn: Integers, num_votes: int, certify: Curve) -> Floats:
    """At each point the share of draws that are right with a level of at least m, for every m."""
    points, draws, labels = drawn.shape
    placed, truth = drawn.copy(), np.zeros((points, draws), dtype=np.int64)
    for label in range(labels):  # ties go to the smaller label, so the true one is in each place as often
        placed[:, label::labels, 0], placed[:, label::labels, label] = drawn[:, label::labels, [label, 0]].transpose(
            2, 0, 1
        )
        truth[:, label::labels] = label
    answers, levels = certify(placed.reshape(-1, labels))
    reached = np.where(answers == truth.reshape(-1), levels, -1).reshape(points, draws)
    return np.stack([(reached >= m).mean(axis=1) for m in range(num_votes + 1)], axis=1)


@dataclass(frozen=True)
class Forecast:
    """Predicted certified accuracy.

    Args:
        curve: CA@m at index m.
        error: the standard error at each m of what a run will measure, from the choice of groups and inputs, both of
            the pilot and of the run; what the estimate itself gets wrong is not in it.
    """

    curve: Floats
    error: Floats

    def at(self, m: int) -> float:
        """CA@m; zero past the end."""
        return float(self.curve[m]) if m < len(self.curve) else 0.0

    @property
    def area(self) -> float:
        """The area under the curve: the sum of CA@m over all m."""
        return float(self.curve.sum())

    @property
    def area_interval(self) -> tuple[float, float]:
        """At least as wide as where about 95 % of all runs would be, as if errors at all m went together."""
        ends = [self.interval(m) for m in range(len(self.curve))]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def interval(self, m: int) -> tuple[float, float]:
        """Where about 95 % of all runs would be."""
        if m >= len(self.curve):
            return 0.0, 0.0
        low, high = self.curve[m] - 1.96 * self.error[m], self.curve[m] + 1.96 * self.error[m]
        return max(0.0, float(low)), min(1.0, float(high))


def forecast(ballots: Ballots, num_votes: int, num_inputs: int, certify: Curve) -> Forecast:
    """Predict the certified accuracy of ``num_votes`` groups that are like those of the pilot.

    Args:
        ballots: the pilot's votes.
        num_votes: how many groups will vote.
        num_inputs: on how many test inputs.
        certify: labels and levels of counts.
    """
    federated, each = Federated.of(ballots, num_votes, certify), worth(ballots)
    curve, mixture = _estimate(ballots, federated, each)
    again = [_estimate(part, federated, each, mixture)[0] for part in _less_a_group(ballots)]
    folds = [_estimate(part, federated, each, mixture)[0] for part in _less_a_fold(ballots)]
    of_groups = max(1.0, ballots.reuse) + len(ballots.votes) / num_votes  # those of the pilot, and those of the run
    of_inputs = 1 + len(ballots.truth) / num_inputs
    variance = of_groups * _jackknife(again) + of_inputs * _jackknife(folds)
    return Forecast(np.clip(np.minimum.accumulate(curve), 0, 1), np.sqrt(variance))


def _estimate(
    ballots: Ballots, federated: Federated, each: float, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """The curve and the mixture, if each vote is worth so much."""
    patterns = patterns_of(ballots)
    likelihoods = federated.grid.likelihoods(patterns) ** each
    bumps = federated.grid.bumps
    mixture = mixed(likelihoods @ bumps, patterns.weights, start)
    return federated.curve(patterns, likelihoods, bumps @ mixture), mixture


def _less_a_group(ballots: Ballots) -> Iterator[Ballots]:
    return (ballots.without_group(group) for group in range(len(ballots.votes)))


def _less_a_fold(ballots: Ballots) -> Iterator[Ballots]:
    folds = ballots.owners % FOLDS
    return (ballots.of_inputs(folds != fold) for fold in np.unique(folds).tolist())


def _jackknife(estimates: list[Floats]) -> Floats:
    """The variance of an estimate, from what it is without each part."""
    if len(estimates) < 2:
        return np.zeros_like(estimates[0])
    spread: Floats = (len(estimates) - 1) * np.var(np.stack(estimates), axis=0)
    return spread
