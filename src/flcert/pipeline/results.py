"""From votes to results: certificates, figures and the report, written into a run directory."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Certificate, Evidence, Figures, Guarantee, certified_accuracy, kind_class
from flcert.core.digest import digest_named
from flcert.datasets.subject import Subject
from flcert.runs.config import Config
from flcert.runs.directory import RunDirectory
from flcert.runs.records import (
    AttackFigures,
    DataFacts,
    DroppedReply,
    FunctionFacts,
    GroupFacts,
    GroupIds,
    Manifest,
    NetworkFacts,
    OverlapFacts,
    PublicFacts,
    PublicFigures,
    Summary,
)
from flcert.training import Ensemble, Progress
from flcert.training.keys import recipe_sources
from flcert.training.rounds import substitutes
from flcert.training.start import model_bytes

FLOWER = "flower"  # in a configuration: data and algorithm are those of Flower clients and a Flower strategy
VERSIONED = ("flcert", "torch", "numpy", "scipy", "safetensors", "scikit-learn")


@dataclass(frozen=True)
class TrainedRun:
    """A run whose groups are trained.

    Args:
        directory: the run directory, which already holds the models.
        config: what was asked for.
        subject: clients and test set.
        ensemble: the trained groups.
        overlap: how many inputs the public model that they start from had seen.
    """

    directory: RunDirectory
    config: Config
    subject: Subject
    ensemble: Ensemble
    overlap: OverlapFacts | None = None


@dataclass(frozen=True)
class Certified:
    """Votes on the test inputs and what is proved about them.

    Args:
        guarantee: which theorem.
        evidence: the votes after the last round.
        labels: the labels that the ensemble predicts.
        certificate: the certificate that follows from them.
        curves: certified accuracy by the number of rounds after which votes were cast; the last is after all rounds.
    """

    guarantee: Guarantee
    evidence: Evidence
    labels: NDArray[np.int64]
    certificate: Certificate
    curves: Mapping[int, NDArray[np.float64]]

    @property
    def curve(self) -> NDArray[np.float64]:
        """Certified accuracy after the last round."""
        return self.curves[max(self.curves)]


@dataclass(frozen=True)
class Circumstances:
    """What else to report about a run.

    Args:
        attack: what a simulated attack did.
        public: the labels that the public model alone gives to the test inputs.
        dropped: replies from real clients that were not used, by group.
        network: what is known about real clients.
    """

    attack: AttackFigures | None = None
    public: NDArray[np.int64] | None = None
    dropped: Mapping[int, Sequence[DroppedReply]] | None = None
    network: NetworkFacts | None = None


def own_guarantee(config: Config, ensemble: Ensemble) -> Guarantee:
    """The certificate that the groups of a configuration call for."""
    return config.guarantee(config.grouping.certificate, ensemble.grouping, len(ensemble.failures))


def also_guarantees(config: Config, ensemble: Ensemble) -> dict[str, Guarantee]:
    """Further certificates of the same models that a configuration asks for, by kind."""
    also, failed = config.certificate.also, len(ensemble.failures)
    return {choice.name: config.guarantee(choice, ensemble.grouping, failed) for choice in also}


def needs_ranks(config: Config) -> bool:
    """Whether a certificate of this configuration needs to know how models rank the labels."""
    kinds = [config.grouping.certificate, *(choice.name for choice in config.certificate.also)]
    return any(kind_class(kind).needs == "ranks" for kind in kinds)


def certified(trained: TrainedRun, evidence: Mapping[int, Evidence]) -> Certified:
    """Certify the votes of a run, once for each number of rounds after which they were cast."""
    guarantee, truth = own_guarantee(trained.config, trained.ensemble), trained.subject.test_labels
    answers = {number: guarantee.answer(one) for number, one in evidence.items()}
    curves = {number: certified_accuracy(certificate, truth) for number, (_, certificate) in answers.items()}
    last = max(evidence)
    return Certified(guarantee, evidence[last], *answers[last], curves)


def write_results(trained: TrainedRun, found: Certified, circumstances: Circumstances, progress: Progress) -> Summary:
    """Write everything that follows from the votes; the report comes last, because it needs the manifest.

    Args:
        trained: the run.
        found: its votes and their certificate.
        circumstances: what else to report.
        progress: called with a stage, the number done and the total.

    Returns:
        The main figures.
    """
    from flcert.report.page import write_report  # Matplotlib loads slowly, so import it only when needed
    from flcert.report.samples import chosen_samples

    directory, subject, truth = trained.directory, trained.subject, trained.subject.test_labels
    summary = _summary(trained, found, circumstances, progress)
    directory.write_evidence(found.evidence)
    directory.write_array("truth", truth)
    directory.write_certificate(found.certificate, truth)
    directory.write_csv("curve", ("m", "certified_accuracy"), enumerate(found.curve))
    if len(found.curves) > 1:
        rows = ((number, m, value) for number, curve in found.curves.items() for m, value in enumerate(curve))
        directory.write_csv("rounds", ("round", "m", "certified_accuracy"), rows)
    directory.write(summary)
    samples = chosen_samples(subject, found.certificate, found.guarantee.counted(found.evidence))
    directory.write(samples)
    directory.write_array("inputs", subject.test_inputs[[sample.position for sample in samples.inputs]])
    directory.write(_group_ids(trained))
    directory.write_public(trained.ensemble.public, trained.ensemble.trusted)
    if circumstances.public is not None:
        directory.write_array("public", circumstances.public)
    directory.write_manifest(_manifest(trained, found.guarantee, circumstances))
    write_report(directory)
    return summary


def _summary(trained: TrainedRun, found: Certified, circumstances: Circumstances, progress: Progress) -> Summary:
    """The main figures of a run."""
    certificate, truth = found.certificate, trained.subject.test_labels
    return Summary(
        certificate=found.guarantee.kind,
        inputs=len(certificate),
        accuracy=float(np.mean(found.labels == truth)),
        abstained=int(certificate.abstained.sum()),
        median_level=int(np.median(certificate.levels)),
        largest_level=int(certificate.levels.max()),
        certified_accuracy=tuple(found.curve.tolist()),
        also=_also(trained, found, progress),
        attack=circumstances.attack,
        excluded=len(trained.subject.excluded) or None,
        public=None
        if circumstances.public is None
        else PublicFigures.of(trained.ensemble.public.name, circumstances.public, truth, found.curve),
    )


def _also(trained: TrainedRun, found: Certified, progress: Progress) -> dict[str, Figures]:
    """The figures of each further certificate that the configuration asks for."""
    from flcert.report.points import chosen_levels

    levels, truth = chosen_levels(found.curve), trained.subject.test_labels
    also = {}
    for kind, guarantee in also_guarantees(trained.config, trained.ensemble).items():
        figures = guarantee.figures(found.evidence, truth, levels, partial(progress, guarantee.title))
        notes = (figures.note, guarantee.note_beside(found.guarantee))
        also[kind] = figures.model_copy(update={"note": " ".join(filter(None, notes))})
    return also


def _manifest(trained: TrainedRun, guarantee: Guarantee, circumstances: Circumstances) -> Manifest:
    config, subject = trained.config, trained.subject
    return Manifest(
        versions={name: version(name) for name in VERSIONED} | {"python": platform.python_version()},
        platform=f"{platform.system()} {platform.machine()}",
        sources=recipe_sources(config.recipe),
        seeds={"recipe": config.recipe.seed, "grouping": config.grouping.model_dump(include={"key", "seed"})},
        data=DataFacts(
            name=subject.name,
            digest=subject.digest,
            clients=len(subject.ids),
            examples=subject.num_examples,
            test_inputs=len(subject.test_labels),
            input_shape=subject.input_shape,
            input_dtype=subject.input_dtype,
            labels=subject.num_labels,
            excluded=dict(subject.excluded),
        ),
        guarantee=guarantee,
        groups=_group_facts(trained, circumstances.dropped or {}),
        network=circumstances.network,
        public=_public_facts(trained),
        kernels=dict(trained.ensemble.kernels),
    )


def _public_facts(trained: TrainedRun) -> PublicFacts | None:
    """What groups shared, and what it saves."""
    ensemble, config = trained.ensemble, trained.config
    public = ensemble.public
    if public.start is None and public.function is None and ensemble.trusted is None:
        return None
    labels, voters = ensemble.num_labels, len(ensemble.model_keys())
    sent = model_bytes(config.recipe, ensemble.model_shape, labels)
    whole = public.card.model if public.function and public.card else None
    plain = config.recipe.model_copy(update={"model": whole}) if whole else None
    without = model_bytes(plain, ensemble.input_shape, labels) if plain else None
    function = public.function
    return PublicFacts(
        name=public.name or None,
        start=digest_named(public.start) if public.start else None,
        card=public.card,
        function=function
        and FunctionFacts(
            choice=function.choice,
            identity=function.identity,
            width=function.width,
            weights=function.weights is not None,
        ),
        trusted=digest_named(ensemble.trusted) if ensemble.trusted else None,
        overlap=trained.overlap,
        bytes_a_round=sent,
        bytes_stored=sent * voters,
        bytes_without=(without, without * voters) if without else None,
    )


def _group_facts(trained: TrainedRun, dropped: Mapping[int, Sequence[DroppedReply]]) -> tuple[GroupFacts, ...]:
    recipe, ensemble = trained.config.recipe, trained.ensemble
    keys, sizes = ensemble.model_keys(), ensemble.grouping.sizes.tolist()
    left_out = [at for at, user in enumerate(trained.subject.ids) if user in dict(trained.subject.excluded)]
    training = [int(np.isin(group, left_out, invert=True).sum()) for group in ensemble.grouping.members]
    stand_ins = {} if recipe.aggregator.name == FLOWER else substitutes(recipe, training)
    return tuple(
        GroupFacts(
            clients=size,
            model=keys.get(group),
            failure=ensemble.failures.get(group),
            finite=group not in ensemble.diverged,
            substitute=stand_ins.get(group),
            dropped=tuple(dropped.get(group, ())),
        )
        for group, size in enumerate(sizes)
    )


def _group_ids(trained: TrainedRun) -> GroupIds:
    ids, grouping = trained.subject.ids, trained.ensemble.grouping
    return GroupIds(
        groups=tuple(tuple(ids[client] for client in group) for group in grouping.members),
        group_size=grouping.group_size,
        drawn=grouping.drawn,
        distinct=grouping.distinct,
    )
