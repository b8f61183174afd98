"""Where experiments run: one federation and its workers, with all training through the store and counted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flcert import attacks
from flcert.attacks import AttackPlan
from flcert.certify import Evidence, Guarantee, certified_accuracy
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Engine, Workers
from flcert.errors import InputError
from flcert.experiments.outcome import Curve
from flcert.grouping import Grouping, kind_class, paper_variants
from flcert.pipeline.baselines import baseline
from flcert.pipeline.run import federation_of
from flcert.runs.config import Config
from flcert.runs.records import above_until
from flcert.training import Context, Ensemble, Progress
from flcert.training.checks import check_recipe
from flcert.training.train import refuse_without_models, train_groups
from flcert.training.trusted import trusted_arrays
from flcert.training.votes import Question, charged, evidence_on_test_set, public_labels

Announce = Callable[[str], None]


class Lab:
    """Trains and certifies variations of one configuration.

    Args:
        config: the setting that is varied: FLCert-D with the preset's number of groups.
        context: where groups train, and where models and votes are kept.
        announce: called with a description of each step.
        setting: what to call the setting in titles.
    """

    def __init__(self, config: Config, context: Context, announce: Announce, setting: str) -> None:
        self.config, self.context, self.announce, self.setting = config, context, announce, setting
        self.trained = self.reused = 0
        self.failed: list[str] = []
        self.public: NDArray[np.int64] | None = None  # labels of the public model that groups start from
        self.probabilistic: dict[str, dict[int, Guarantee]] = {}  # by method and number of groups
        self.certified: dict[tuple[str, int], list[Curve]] = {}  # by the same; not on inputs with a trigger

    @property
    def federation(self) -> Federation:
        """The data."""
        return self.context.federation

    @property
    def num_groups(self) -> int:
        """N of the setting."""
        number: int = self.config.grouping.num_groups  # type: ignore[attr-defined]
        return number

    @property
    def truth(self) -> NDArray[np.int64]:
        """The true labels of the test inputs."""
        return self.federation.test_labels

    def variants(self, num_groups: int | None = None) -> dict[str, Config]:
        """FLCert-D and FLCert-P with this number of groups and the same cost for a client: k = n / N, rounded."""
        number = num_groups or self.num_groups
        group_size = max(1, round(self.federation.num_clients / number))
        variants = paper_variants(self.config.grouping, number, group_size)
        return {name: self.config.model_copy(update={"grouping": grouping}) for name, grouping in variants.items()}

    def baseline(self, name: str, beta: float) -> Config:
        """A baseline in which a share beta of all clients takes part in a round."""
        return with_recipe(baseline(name, self.config), participation=beta)

    def ensemble(self, what: str, config: Config, plan: AttackPlan | None = None) -> Ensemble:
        """The trained groups of a configuration, under attack if there is a plan."""
        self.announce(what)
        return self.train(what, self.grouping(config), config, plan)

    def grouping(self, config: Config) -> Grouping:
        """The groups of a configuration."""
        return config.grouping.groups_of(self.federation.ids, self.federation.forgotten)

    def train(self, what: str, grouping: Grouping, config: Config, plan: AttackPlan | None = None) -> Ensemble:
        """Train these groups; ``what`` describes them if some of them fail."""
        check_recipe(self.federation, grouping, config.recipe)
        ensemble = train_groups(self.context, grouping, config.recipe, plan)
        if trusted := config.voting.trusted:
            ensemble = replace(ensemble, trusted=trusted_arrays(self.context, trusted, config.recipe, ensemble.public))
        self.trained += ensemble.trained
        self.reused += ensemble.reused
        self.public = public_labels(self.context, ensemble)
        refuse_without_models(ensemble)
        self._note_failures(what, None, ensemble)
        return ensemble

    def _note_failures(self, what: str, before: Ensemble | None, after: Ensemble) -> None:
        """Keep a remark on groups that have failed since, with one of the reasons."""
        known = before.failures if before else {}
        failures = [(group, reason) for group, reason in after.failures.items() if group not in known]
        for group, reason in failures[:1]:
            count, number = len(failures), len(after.grouping)
            remark = f"{what}: {count:,} of {number:,} groups failed; group {group}: {reason}"
            if remark not in self.failed:
                self.failed.append(remark)

    @property
    def public_accuracy(self) -> float | None:
        """The accuracy of the public model alone; None if groups do not start from one."""
        return None if self.public is None else float(np.mean(self.public == self.truth))

    def remarks(self) -> list[str]:
        """Notes on all figures: groups that failed, and how sure probabilistic certificates are."""
        remarks, inputs = list(self.failed), len(self.truth)
        if self.public_accuracy is not None:
            remarks.append(f"The public model alone is right on {self.public_accuracy:.1%}, whatever clients do.")
            remarks += self._above(self.public_accuracy)
        for method, guarantees in self.probabilistic.items():
            (probability,) = {one.failure_probability for one in guarantees.values()}
            remarks.append(
                f"Each curve of {method} speaks of the ensemble of all possible groups and holds by itself, "
                f"except with probability {probability} over the draw of the groups."
            )
            needed = max(one.least_groups(inputs) for one in guarantees.values())
            few = ", ".join(str(number) for number in sorted(guarantees) if number < needed)
            if few:
                remarks.append(
                    f"{method} certifies nothing with N = {few}: {inputs:,} inputs need at least {needed:,} groups."
                )
        return remarks

    def _above(self, accuracy: float) -> list[str]:
        """Up to which m the certified accuracy of each method is above that of the public model."""
        told = []
        for (method, number), curves in self.certified.items():
            reached = sorted({above_until(curve, accuracy) for curve in curves}, key=lambda m: -1 if m is None else m)
            levels = " or ".join("never" if m is None else f"up to m = {m:,}" for m in reached)
            several = ", depending on the curve" if len(reached) > 1 else ""
            name = f"{method} with N = {number:,}" if number > 1 else "one model of all clients"
            told.append(f"{name} {levels}{several}")
        return [f"The certified accuracy is above that: {'; '.join(told)}."] if told else []

    def asked(
        self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None
    ) -> tuple[Evidence, Guarantee]:
        """Votes on the test inputs, stamped or after fewer rounds if asked for, and which theorem applies to them.

        A group whose model cannot vote counts as failed, as in a run.
        """
        question = Question(rounds=rounds, trigger=trigger)
        voting = charged(self.context, ensemble, [question])
        refuse_without_models(voting)
        kind = kind_class(ensemble.grouping.kind)
        self._note_failures(kind.title, ensemble, voting)
        guarantee = self.config.guarantee(kind.certificate, ensemble.grouping, len(voting.failures))
        return evidence_on_test_set(self.context, voting, question), guarantee

    def curve(self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None) -> Curve:
        """CA@m for every m."""
        evidence, guarantee = self.asked(ensemble, trigger, rounds)
        method, number = kind_class(ensemble.grouping.kind).title, len(ensemble.grouping)
        if guarantee.probabilistic:
            self.probabilistic.setdefault(method, {})[number] = guarantee
        curve = certified_accuracy(guarantee.certify(evidence), self.truth)
        if trigger is None and rounds is None:
            self.certified.setdefault((method, number), []).append(curve)
        return curve

    def labels(self, ensemble: Ensemble, trigger: Choice | None = None, rounds: int | None = None) -> NDArray[np.int64]:
        """What the ensemble predicts for the test inputs."""
        evidence, guarantee = self.asked(ensemble, trigger, rounds)
        return guarantee.predict(evidence)

    def plan(self, attack: Choice, malicious: int) -> AttackPlan | None:
        """An attack by this many clients, or None for no clients."""
        return attacks.plan(attack, malicious, self.federation.ids) if malicious else None


@contextmanager
def opened(config: Config, engine: Engine, store: Store, progress: Progress) -> Iterator[Context]:
    """Where labs of a configuration train, with its data and workers for the duration of the block."""
    check_config(config)
    with Workers(engine, federation_of(config)) as workers:
        yield Context(workers, store, progress)


def check_config(config: Config) -> None:
    """Refuse settings that experiments do not support: they show the paper's methods on models as trained."""
    paper_variants(config.grouping, 1, 1)
    if config.compression:
        raise InputError(f"experiments do not compress models; leave out compression={config.compression!r}")
    if config.certificate.also:
        names = ", ".join(choice.name for choice in config.certificate.also)
        raise InputError(f"experiments show the certificates of the paper; leave out certificate.also={names}")


def with_rule(config: Config, rule: str) -> Config:
    """The configuration with this aggregator; if it already has this one, the options are kept."""
    given = config.recipe.aggregator
    return config if given.name == rule else with_recipe(config, aggregator={"name": rule})


def with_recipe(config: Config, **changes: object) -> Config:
    """The configuration with some settings of its recipe changed."""
    recipe = type(config.recipe).model_validate({**config.recipe.model_dump(), **changes})
    return config.model_copy(update={"recipe": recipe})
