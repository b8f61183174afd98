"""Where experiments are made: one federation and its workers, everything through the store, and a count of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from flcert import attacks, baselines, datasets
from flcert.attacks import AttackPlan
from flcert.ballots import Ballots
from flcert.certify import certified_accuracy
from flcert.certify.sampled import least_groups
from flcert.config import Config, Hashed, Sampled
from flcert.datasets import Federation
from flcert.engines import Engine, Workers
from flcert.errors import InputError
from flcert.experiments.outcome import Curve
from flcert.grouping import Grouping
from flcert.guarantee import Guarantee
from flcert.registry import Choice
from flcert.store import Store
from flcert.training import Ensemble, Progress
from flcert.training.train import check_recipe, refuse_without_models, train_groups, votes_on_test_set

Announce = Callable[[str], None]


class Lab:
    """Trains and certifies variations of one configuration.

    Args:
        config: the setting that is varied: FLCert-D with the preset's number of groups.
        workers: where groups train; they hold the federation.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
        announce: called with what is done next, in words.
    """

    def __init__(self, config: Config, workers: Workers, store: Store, progress: Progress, announce: Announce) -> None:
        self.config, self.workers, self.store = config, workers, store
        self.progress, self.announce = progress, announce
        self.trained = self.reused = 0
        self.failed: list[str] = []
        self.sampled: dict[int, Guarantee] = {}

    @property
    def federation(self) -> Federation:
        """The data."""
        return self.workers.federation

    @property
    def num_groups(self) -> int:
        """N of the setting."""
        return self.config.grouping.num_groups  # type: ignore[union-attr]

    @property
    def truth(self) -> NDArray[np.int64]:
        """The true labels of the test inputs."""
        return self.federation.test_labels

    def variants(self, num_groups: int | None = None) -> dict[str, Config]:
        """FLCert-D and FLCert-P with this number of groups and the same cost for a client: k = n / N, rounded."""
        number = num_groups or self.num_groups
        group_size = max(1, round(self.federation.num_clients / number))
        key = self.config.grouping.key if isinstance(self.config.grouping, Hashed) else "flcert"
        return {
            "FLCert-D": self.config.model_copy(update={"grouping": Hashed(num_groups=number, key=key)}),
            "FLCert-P": self.config.model_copy(
                update={"grouping": Sampled(kind="sampled", num_groups=number, group_size=group_size)}
            ),
        }

    def baseline(self, name: str, beta: float) -> Config:
        """A baseline in which a share beta of all clients takes part in a round."""
        config = baselines.baseline(name, self.config)
        return with_recipe(config, participation=beta)

    def ensemble(self, what: str, config: Config, plan: AttackPlan | None = None) -> Ensemble:
        """The trained groups of a configuration, under attack if there is a plan."""
        self.announce(what)
        return self.train(what, config.grouping.build(self.federation.ids), config, plan)

    def train(self, what: str, grouping: Grouping, config: Config, plan: AttackPlan | None = None) -> Ensemble:
        """The models of these groups; ``what`` they are is told if some of them fail."""
        check_recipe(self.federation, grouping, config.recipe)
        ensemble = train_groups(self.workers, grouping, config.recipe, self.store, self.progress, plan)
        self.trained += ensemble.trained
        self.reused += ensemble.reused
        refuse_without_models(ensemble)
        for group, reason in list(ensemble.failures.items())[:1]:
            count = len(ensemble.failures)
            self.failed.append(f"{what}: {count:,} of {len(grouping):,} groups failed; group {group}: {reason}")
        return ensemble

    def remarks(self) -> list[str]:
        """What to know of all figures: groups that failed, and how sure the certificates of sampled groups are."""
        if not self.sampled:
            return self.failed
        proof, inputs = self.config.certificate, len(self.truth)
        needed = least_groups(inputs, proof.alpha, proof.selection)
        few = [number for number in sorted(self.sampled) if number < needed]
        (probability,) = {one.failure_probability for one in self.sampled.values()}
        sure = f"Each curve of FLCert-P holds by itself, except with probability {probability}."
        too_few = (
            f"FLCert-P certifies nothing with N = {', '.join(map(str, few))}: "
            f"{inputs:,} inputs need at least {needed:,} groups."
        )
        return [*self.failed, sure, *([too_few] if few else [])]

    def ballots(self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None) -> Ballots:
        """Votes on the test inputs; stamped with a trigger, or after fewer rounds, if asked for."""
        after = rounds or ensemble.recipe.rounds
        votes = votes_on_test_set(self.workers, ensemble, after, self.store, self.progress, trigger)
        return Ballots.cast(votes, ensemble.num_labels, ensemble.grouping.members)

    def guarantee(self, ensemble: Ensemble) -> Guarantee:
        """Which theorem applies."""
        proof = self.config.certificate
        return Guarantee.of(
            ensemble.grouping,
            num_failed=len(ensemble.failures),
            alpha=proof.alpha,
            selection=proof.selection,
            tails=proof.tails,
        )

    def curve(self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None) -> Curve:
        """CA@m for every m."""
        ballots, guarantee = self.ballots(ensemble, trigger, rounds), self.guarantee(ensemble)
        if guarantee.kind == "sampled":
            self.sampled[len(ensemble.grouping)] = guarantee
        return certified_accuracy(guarantee.certify(ballots), self.truth)

    def labels(self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None) -> NDArray[np.int64]:
        """What the ensemble predicts for the test inputs."""
        return self.guarantee(ensemble).predict(self.ballots(ensemble, trigger, rounds))

    def plan(self, attack: Choice, malicious: int) -> AttackPlan | None:
        """An attack by this many clients; None for none."""
        return attacks.plan(attack, malicious, self.federation.ids) if malicious else None


@contextmanager
def open_lab(config: Config, engine: Engine, store: Store, progress: Progress, announce: Announce) -> Iterator[Lab]:
    """A lab with the configuration's data, until the end of the block."""
    if not isinstance(config.grouping, Hashed):
        raise InputError(f"experiments start from hashed groups and vary them, got kind {config.grouping.kind!r}")
    federation = datasets.load(config.data.name, **config.data.options)
    with Workers(engine, federation) as workers:
        yield Lab(config, workers, store, progress, announce)


def with_rule(config: Config, rule: str) -> Config:
    """The configuration with this aggregator, whose options are kept if the configuration has it already."""
    given = config.recipe.aggregator
    return config if given.name == rule else with_recipe(config, aggregator={"name": rule})


def with_recipe(config: Config, **changes: object) -> Config:
    """The configuration with some settings of its recipe changed."""
    recipe = type(config.recipe).model_validate({**config.recipe.model_dump(), **changes})
    return config.model_copy(update={"recipe": recipe})
