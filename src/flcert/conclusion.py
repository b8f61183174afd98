"""What follows from the votes: certificates, figures and the report, written into a run directory."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.ballots import Ballots
from flcert.certify import Certificate, Tally, certified_accuracy
from flcert.config import Config
from flcert.datasets.subject import Subject
from flcert.files import write_json
from flcert.further import collective_curve, further_certificate, further_curve
from flcert.guarantee import Guarantee
from flcert.rundir import RunDirectory
from flcert.training import Ensemble, Progress
from flcert.training.fill import silent
from flcert.training.group import recipe_sources
from flcert.training.panel import Votes
from flcert.training.rounds import substitutes

FLOWER = "flower"  # in a configuration: data and algorithm are those of Flower clients and a Flower strategy
VERSIONED = ("flcert", "torch", "numpy", "scipy", "safetensors", "scikit-learn")


@dataclass(frozen=True)
class Conclusion:
    """What a run came to.

    Args:
        summary: the figures in short, as in summary.json.
        certificate: of the test inputs.
    """

    summary: dict[str, Any]
    certificate: Certificate


def conclude(
    run_directory: RunDirectory,
    config: Config,
    subject: Subject,
    ensemble: Ensemble,
    votes: Mapping[int, Votes],
    guarantee: Guarantee,
    *,
    counted: Tally | None = None,
    attack_figures: dict[str, Any] | None = None,
    dropped: Mapping[int, Sequence[dict[str, Any]]] | None = None,
    network: dict[str, Any] | None = None,
    progress: Progress = silent,
) -> Conclusion:
    """Certify and write everything that follows from the votes; the manifest before the report, which needs it.

    Args:
        run_directory: where; the models are there already.
        config: of the run.
        subject: clients and test set.
        ensemble: the trained groups.
        votes: on the test inputs, by the number of rounds after which they were cast.
        guarantee: which theorem.
        counted: how the models rank the labels, if the configuration asks for a run-off.
        attack_figures: what a simulated attack did.
        dropped: replies of real clients that were not used, by group.
        network: what else the manifest tells of real clients.
        progress: called with a stage, the number done and the total.
    """
    from flcert.report.page import write_report  # Matplotlib loads slowly, so it waits until it is needed
    from flcert.report.points import chosen_levels
    from flcert.report.samples import chosen_samples

    truth, last = subject.test_labels, config.recipe.rounds
    groups = ensemble.grouping.members
    cast = {number: Ballots.cast(table, subject.num_labels, groups) for number, table in votes.items()}
    ballots = cast[last]
    curves = {number: certified_accuracy(guarantee.certify(one), truth) for number, one in cast.items()}
    certificate, curve = guarantee.certify(ballots), curves[last]
    accuracy = float(np.mean(guarantee.predict(ballots) == truth))
    summary = summarise(certificate, curve, accuracy, guarantee)
    also = _further(config, ballots, truth, chosen_levels(curve), guarantee, counted, progress)
    summary |= {"also": also} if also else {}
    summary |= {"attack": attack_figures} if attack_figures else {}
    run_directory.write_array("votes", votes[last])
    run_directory.write_array("truth", truth)
    if counted:
        run_directory.write_tally(counted)
    run_directory.write_certificate(certificate, truth)
    run_directory.write_csv("curve", ("m", "certified_accuracy"), enumerate(curve))
    if len(curves) > 1:
        rows = ((number, m, value) for number, one in curves.items() for m, value in enumerate(one))
        run_directory.write_csv("rounds", ("round", "m", "certified_accuracy"), rows)
    write_json(run_directory.path / "summary.json", summary)
    samples = chosen_samples(subject, certificate, ballots.counts)
    write_json(run_directory.path / "samples.json", samples)
    run_directory.write_array("inputs", subject.test_inputs[[one["position"] for one in samples["inputs"]]])
    write_json(run_directory.path / "groups.json", _group_ids(ensemble, subject))
    manifest = _manifest(config, subject, ensemble, guarantee)
    if dropped is not None:
        for group, entry in enumerate(manifest["groups"]):
            entry["dropped"] = list(dropped.get(group, ()))
    manifest |= {"network": network} if network else {}
    write_json(run_directory.path / "manifest.json", manifest)
    write_report(run_directory)
    return Conclusion(summary, certificate)


def summarise(
    certificate: Certificate, curve: NDArray[np.float64], accuracy: float, guarantee: Guarantee
) -> dict[str, Any]:
    """The figures of a run in short."""
    return {
        "certificate": guarantee.kind,
        "inputs": len(certificate),
        "accuracy": accuracy,
        "abstained": int(certificate.abstained.sum()),
        "median_level": int(np.median(certificate.levels)),
        "largest_level": int(certificate.levels.max()),
        "certified_accuracy": curve.tolist(),
    }


def _further(
    config: Config,
    ballots: Ballots,
    truth: NDArray[np.int64],
    levels: Sequence[int],
    guarantee: Guarantee,
    counted: Tally | None,
    progress: Progress,
) -> dict[str, Any]:
    """The figures of each further certificate that the configuration asks for; the collective one at these levels."""
    figures: dict[str, Any] = {}
    for kind in config.certificate.also:
        if kind == "collective":
            report = partial(progress, kind)
            figures[kind] = {"inputs": collective_curve(ballots, truth, levels, guarantee.num_failed, report)}
        else:
            figures[kind] = further_curve(further_certificate(kind, ballots, guarantee, counted), truth)
    return figures


def _manifest(config: Config, subject: Subject, ensemble: Ensemble, guarantee: Guarantee) -> dict[str, Any]:
    keys, diverged = ensemble.model_keys(), ensemble.diverged()
    sizes = ensemble.grouping.sizes.tolist()
    stand_ins = {} if config.recipe.aggregator.name == FLOWER else substitutes(config.recipe, sizes)
    return {
        "versions": {name: version(name) for name in VERSIONED} | {"python": platform.python_version()},
        "platform": f"{platform.system()} {platform.machine()}",
        "sources": list(recipe_sources(config.recipe)),
        "seeds": {"recipe": config.recipe.seed, "grouping": config.grouping.model_dump(include={"key", "seed"})},
        "data": {
            "name": subject.name,
            "digest": subject.digest,
            "clients": len(subject.ids),
            "examples": subject.num_examples,
            "test_inputs": len(subject.test_labels),
            "input_shape": list(subject.input_shape),
            "input_dtype": subject.input_dtype,
            "labels": subject.num_labels,
        },
        "guarantee": guarantee.model_dump(mode="json"),
        "groups": [
            {
                "clients": size,
                "model": keys.get(group),
                "failure": ensemble.failures.get(group),
                "finite": group not in diverged,
                "substitute": stand_ins.get(group),
            }
            for group, size in enumerate(sizes)
        ],
    }


def _group_ids(ensemble: Ensemble, subject: Subject) -> list[list[str]]:
    return [[subject.ids[client] for client in members] for members in ensemble.grouping.members]
