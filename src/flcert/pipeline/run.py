"""A whole run: data, groups, models, votes, certificate, report; every stage reuses what already exists."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flcert import datasets
from flcert.attacks import AttackPlan
from flcert.certify import Certificate, Evidence, Guarantee, count_ranks, kind_class
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Engine, Inline, Processes, Workers
from flcert.errors import FlcertError, InputError, check_range
from flcert.grouping import Grouping
from flcert.pipeline.attack import attack_plan, evaluate_attack
from flcert.pipeline.overlap import checked_overlap
from flcert.pipeline.results import FLOWER, Circumstances, TrainedRun, certified, needs_ranks, write_results
from flcert.pipeline.unchanged import public_for
from flcert.runs.config import Config
from flcert.runs.directory import RunDirectory
from flcert.runs.records import OverlapFacts, Summary
from flcert.training import Context, Ensemble, Progress
from flcert.training.checks import check_recipe
from flcert.training.context import silent
from flcert.training.public import Public, public_of
from flcert.training.train import compressed_ensemble, refuse_without_models, train_groups
from flcert.training.trusted import check_trusted, trusted_arrays
from flcert.training.votes import RANKS, Question, charged, evidence_on_test_set, public_labels, ranks_on_test_set


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        directory: where everything was written.
        summary: the main figures, as in summary.json.
        guarantee: which theorem, with its numbers.
        certificate: the certificate of the test inputs.
        ensemble: the trained groups, and how many were trained and reused.
        attacked: the same under the simulated attack, if there is one.
        overlap: how many inputs the public model had seen, if groups started from one.
    """

    directory: Path
    summary: Summary
    guarantee: Guarantee
    certificate: Certificate
    ensemble: Ensemble
    attacked: Ensemble | None = None
    overlap: OverlapFacts | None = None


def run(
    config: Config | None = None,
    directory: Path | None = None,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Train, vote and certify as ``config`` says, and write a run directory.

    Args:
        config: what to do; by default scikit-learn's digits.
        directory: where to write; by default ``runs/<data>-<digest of the config>``.
        engine: where groups train; by default one process for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    config, store = config or Config(), store or Store()
    store.check_usable()
    federation = federation_of(config)
    ready = make_ready(config, federation, store, directory or default_directory(config, federation))
    ready.claim()
    with Workers(engine or Processes(), federation) as workers:
        return run_ready(Context(workers, store, progress), ready)


@dataclass(frozen=True)
class ReadyRun:
    """A run that was checked, but is not trained.

    Args:
        directory: the run directory; once claimed, it holds the configuration.
        config: what to do.
        grouping: who trains together.
        plan: the simulated attack, if there is one.
        overlap: how many inputs the public model had seen, if groups start from one.
        public: what groups share.
    """

    directory: RunDirectory
    config: Config
    grouping: Grouping
    plan: AttackPlan | None
    overlap: OverlapFacts | None
    public: Public

    def claim(self) -> None:
        """Claim the directory: write the configuration into it."""
        RunDirectory.claim(self.directory.path, self.config)


def make_ready(config: Config, federation: Federation, store: Store, directory: Path) -> ReadyRun:
    """Check everything about a run, but neither claim its directory nor train.

    Args:
        config: what to do.
        federation: its data; see ``federation_of``.
        store: where counts of what a public model had seen are kept.
        directory: where to write.
    """
    grouping, plan = checked_with(config, federation)
    overlap = checked_overlap(config, federation, store)
    place = RunDirectory(directory)
    place.check_free_for(config)
    return ReadyRun(place, config, grouping, plan, overlap, public_for(place, config, federation))


def run_ready(context: Context, ready: ReadyRun) -> RunResult:
    """Train, vote and certify a run that is ready, and write its directory.

    Args:
        context: where groups train; its workers hold the data that the run was checked with.
        ready: the run.
    """
    config = ready.config
    ensemble = train_groups(context, ready.grouping, config.recipe, public=ready.public)
    if config.compression:
        ensemble = compressed_ensemble(ensemble, config.compression, context.store)
    if trusted := config.voting.trusted:
        own = trusted_arrays(context, trusted, config.recipe, ensemble.public)
        ensemble = replace(ensemble, trusted=own)
    trained = TrainedRun(ready.directory, config, context.federation.subject, ensemble, ready.overlap)
    return certify_models(context, trained, ready.plan)


def certify_models(context: Context, trained: TrainedRun, plan: AttackPlan | None = None) -> RunResult:
    """Vote, certify and write the report after training, and simulate the attack if there is one.

    Args:
        context: where models vote.
        trained: the run, whose models are in the store.
        plan: the attack, if there is one.
    """
    config, directory = trained.config, trained.directory
    questions = {number: Question(rounds=number) for number in config.recipe.snapshots}
    ranked = [RANKS] if needs_ranks(config) else []
    refuse_without_models(trained.ensemble)
    ensemble = charged(context, trained.ensemble, [*questions.values(), *ranked])
    refuse_without_models(ensemble)
    trained = replace(trained, ensemble=ensemble)
    for group, key in ensemble.model_keys().items():
        directory.adopt_model(group, key, context.store)
    ranks = ranks_on_test_set(context, ensemble) if ranked else None
    last = config.recipe.rounds
    evidence = {
        number: evidence_on_test_set(context, ensemble, question, ranks if number == last else None)
        for number, question in questions.items()
    }
    found = certified(trained, evidence)
    figures, attacked = evaluate_attack(context, ensemble, plan, found) if plan else (None, None)
    circumstances = Circumstances(attack=figures, public=public_labels(context, ensemble))
    summary = write_results(trained, found, circumstances, context.progress)
    return RunResult(directory.path, summary, found.guarantee, found.certificate, ensemble, attacked, trained.overlap)


def prepare(config: Config, directory: Path | None = None) -> tuple[RunDirectory, Grouping]:
    """Check everything as ``run`` does and claim the run directory, but train nothing.

    Returns:
        The directory, which now holds the configuration, and the groups to train.
    """
    federation, grouping, _ = checked(config)
    return RunDirectory.claim(directory or default_directory(config, federation), config), grouping


def train_some(
    directory: Path, groups: Collection[int], *, store: Store | None = None, progress: Progress = silent
) -> list[Ensemble]:
    """Train some groups of a prepared run into the store, in this process; ``run`` then finds them there.

    Args:
        directory: the run directory, which holds the configuration.
        groups: the numbers of the groups.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.

    Returns:
        The ensemble of the chosen groups, and the one under attack if the configuration has an attack.
    """
    store = store or Store()
    store.check_usable()
    config = RunDirectory.prepared(directory).config()
    federation, grouping, plan = checked(config)
    for group in groups:
        check_range("group", group, 0, len(grouping) - 1)
    nobody = np.array([], dtype=np.int64)
    members = tuple(clients if group in groups else nobody for group, clients in enumerate(grouping.members))
    chosen = replace(grouping, members=members)  # they keep their numbers, which a recipe may depend on
    with Workers(Inline(), federation) as workers:
        context = Context(workers, store, progress)
        trained = [train_groups(context, chosen, config.recipe)]
        if plan:
            trained.append(train_groups(context.attacked(), chosen, config.recipe, plan))
    return trained


def federation_of(config: Config) -> Federation:
    """The data of a configuration, without pilot clients and forgotten ones."""
    everybody = everybody_of(config)
    if config.pilot and (apart := config.pilot.chosen(everybody.ids)):
        if len(apart) == everybody.num_clients:
            raise InputError(
                f"pilot.share {config.pilot.share} sets all {everybody.num_clients} clients apart; some must be left"
            )
        everybody, _ = everybody.set_apart(apart)
    return everybody.without(config.forget)


def everybody_of(config: Config) -> Federation:
    """The data of a configuration with all clients."""
    if config.data.name == FLOWER:
        raise InputError("the data of a run over Flower clients are theirs; only its ServerApp can go on with it")
    return datasets.load(config.data.name, **config.data.options)


def checked(config: Config) -> tuple[Federation, Grouping, AttackPlan | None]:
    """Data, groups and attack of a configuration, refused before anything is trained if they do not fit."""
    federation = federation_of(config)
    return federation, *checked_with(config, federation)


def checked_with(config: Config, federation: Federation) -> tuple[Grouping, AttackPlan | None]:
    """Groups and attack of a configuration on data that are already loaded, refused if they do not fit."""
    grouping = config.grouping.groups_of(federation.ids, federation.forgotten)
    check_recipe(federation, grouping, config.recipe)
    check_certificates(config, grouping)
    if config.voting.trusted:
        public = public_of(config.recipe, federation.test_inputs, federation.num_labels)
        check_trusted(config.voting.trusted, config.recipe, public, federation)
    if config.compression and config.attack:
        raise InputError("an attack is simulated on models as they are trained; leave out compression or attack")
    return grouping, attack_plan(config, federation)


def check_certificates(config: Config, grouping: Grouping) -> None:
    """Refuse certificates that do not hold for these groups, or that need something the models cannot tell."""
    own = config.grouping.certificate
    for choice in (Choice(name=own), *config.certificate.also):
        try_certificate(config.guarantee(choice, grouping), grouping)
    if own in (choice.name for choice in config.certificate.also):
        raise InputError(f"certificate {own!r} is the one that these groups get anyway; leave it out of also")
    if not kind_class(own).per_input:
        raise InputError(f"certificate {own!r} certifies a test set as a whole, which is not enough for a run's own")
    if kind_class(own).needs == "ranks" and (config.recipe.evaluate_at or config.attack):
        raise InputError(f"certificate {own!r} needs ranks, which are not kept of earlier rounds or attacked groups")
    if needs_ranks(config) and config.recipe.smoothing:
        names = [choice.name for choice in config.certificate.also if kind_class(choice.name).needs == "ranks"] or [own]
        raise InputError(
            f"certificate {names[0]!r} needs the scores of models; with recipe.smoothing there are only votes"
        )


def try_certificate(guarantee: Guarantee, grouping: Grouping) -> None:
    """Refuse a user's own certificate that fails on two inputs on which all groups agree."""
    if ":" not in guarantee.kind:
        return
    votes = np.zeros((len(grouping), 2), dtype=np.int64)
    ranks = count_ranks([np.array([[0, 1], [0, 1]])] * len(grouping), grouping.members)
    evidence = Evidence.of_votes(votes, 2, grouping.members, ranks)
    try:
        found = guarantee.certify(evidence) if guarantee.per_input else None
        if not guarantee.per_input:
            guarantee.figures(evidence, votes[0], [0, 1], lambda *_: None)
    except FlcertError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"certificate {guarantee.kind!r} raised {type(error).__name__}: {error}") from error
    if guarantee.per_input and not (isinstance(found, Certificate) and len(found) == len(found.levels) == 2):
        raise InputError(f"certificate {guarantee.kind!r} must give a Certificate with a level for each input")


def default_directory(config: Config, federation: Federation) -> Path:
    """``runs/<data>-<digest>``: the same configuration always gets the same directory."""
    name = re.sub(r"[^\w.-]+", "-", federation.name).strip("-.")
    return Path("runs") / f"{name}-{config.digest()}"
