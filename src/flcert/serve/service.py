"""What the service knows and answers, whatever carries the questions."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.ballots import Ballots
from flcert.certify import Certificate, clients_to_overtake
from flcert.errors import InputError
from flcert.guarantee import KIND_OF_GROUPING, Guarantee
from flcert.pipeline import open_ensemble
from flcert.report.samples import most_votes
from flcert.rundir import RunDirectory
from flcert.serve.ledger import Ledger
from flcert.training.ensemble import Electorate


@dataclass(frozen=True)
class Limits:
    """What a request may ask for.

    Args:
        body: bytes.
        inputs: how many in one request.
        concurrency: requests in hand at once, those that wait included.
        seconds: for a request's body to arrive.
    """

    body: int = 16_000_000
    inputs: int = 1000
    concurrency: int = 64
    seconds: float = 30.0


class Service:
    """A run whose models are in memory.

    Args:
        directory: of the run.
        kind: of the certificate: "own" is the run's own; "overlapping" needs no probability for sampled groups.
        ledger: of the failure probability, where the certificate has one.
        threads: that ask models; by default one for each core.
    """

    def __init__(
        self, directory: RunDirectory, kind: str = "own", ledger: Ledger | None = None, threads: int | None = None
    ) -> None:
        self.ledger, self.ensemble = ledger, open_ensemble(directory)
        self.samples, self.inputs = directory.samples(), directory.inputs()
        self.guarantee = guarantee_of(directory, kind)
        if ledger:
            self.guarantee = self.guarantee.model_copy(update={"alpha": ledger.account.alpha})
        self._facts = _facts(directory, self.guarantee)
        self._electorate = Electorate(self.ensemble, list(self.ensemble.panels()), threads)

    def info(self) -> dict[str, Any]:
        """What was trained, on whom, with which certificate, and how much of alpha is spent."""
        return {**self._facts, "budget": self.budget()}

    def budget(self) -> dict[str, Any] | None:
        """How much failure probability is spent; None for a certificate that has none."""
        if self.ledger is None:
            return None
        account = self.ledger.account
        return {
            "alpha": account.alpha,
            "predictions": account.predictions,
            "spent": account.spent,
            "alpha_spent": account.alpha * (account.spent / account.predictions),
        }

    def chosen_inputs(self) -> list[dict[str, Any]]:
        """Some test inputs to try: their values, and what a person sees of them."""
        if self.samples is None or self.inputs is None:
            return []
        pairs = zip(self.samples["inputs"], self.inputs, strict=True)
        return [{**_public(sample), "values": values.tolist()} for sample, values in pairs]

    def predict(self, inputs: NDArray[np.generic]) -> dict[str, Any]:
        """Labels, levels and votes of some inputs."""
        ensemble = self.ensemble
        votes = self._electorate.votes(inputs)
        ballots = Ballots.cast(votes, ensemble.num_labels, ensemble.grouping.members)
        labels = self.guarantee.predict(ballots)
        covered = self.ledger.spend(len(labels)) if self.ledger else len(labels)
        certificate = self._certify(votes, covered)
        answers = []
        for position, label in enumerate(labels.tolist()):
            certified = certificate is not None and position < covered
            answers.append(
                {
                    "label": label,
                    "name": self._name(label),
                    "certified": certified,
                    "level": int(certificate.levels[position]) if certified and certificate else None,
                    "abstained": bool(certificate.abstained[position]) if certified and certificate else None,
                    "votes": {str(voted): count for voted, count in most_votes(ballots.counts, position)},
                    "takeover": self._takeover(most_votes(ballots.counts, position)),
                    "sentence": self._sentence(label, certificate if certified else None, position),
                }
            )
        return {"certificate": self.guarantee.kind, "predictions": answers, "budget": self.budget()}

    def _certify(self, votes: NDArray[np.integer], covered: int) -> Certificate | None:
        """The certificate of the first ``covered`` inputs."""
        if not covered:
            return None
        ballots = Ballots.cast(votes[:, :covered], self.ensemble.num_labels, self.ensemble.grouping.members)
        sharing = self.ledger.account.predictions if self.ledger else None
        return self.guarantee.certify(ballots, num_inputs=sharing)

    def _takeover(self, votes: list[tuple[int, int]]) -> dict[str, int] | None:
        """How many malicious clients each other label that has votes would need; known for disjoint groups."""
        if self.guarantee.kind != "disjoint":
            return None
        failed = self.guarantee.num_failed
        return {str(rival[0]): clients_to_overtake(votes[0], rival, num_failed=failed) for rival in votes[1:]}

    def _name(self, label: int) -> str:
        names = self.samples["names"] if self.samples else {}
        return str(names.get(str(label), label))

    def _sentence(self, label: int, certificate: Certificate | None, position: int) -> str:
        name = self._name(label)
        if certificate is None:
            return f"{name}, without a certificate: the predictions that alpha covers are spent."
        level, abstained = int(certificate.levels[position]), bool(certificate.abstained[position])
        return self.guarantee.sentence_for_input(name, level, abstained=abstained)


def guarantee_of(directory: RunDirectory, kind: str) -> Guarantee:
    """The run's own guarantee, or the one without probability that all groups have."""
    own = directory.guarantee()
    if kind == "own":
        return own
    if kind != "overlapping":
        raise InputError(f"certificate must be own or overlapping, got {kind!r}")
    if own.kind == "overlapping":
        return own
    return own.model_copy(update={"kind": KIND_OF_GROUPING["spread"]})


def digest_of(directory: RunDirectory) -> str:
    """A short name of exactly these models."""
    keys = [entry["model"] for entry in directory.manifest()["groups"]]
    return hashlib.blake2b(json.dumps(keys).encode(), digest_size=12).hexdigest()


def _facts(directory: RunDirectory, guarantee: Guarantee) -> dict[str, Any]:
    """What there is to tell of a run, as JSON values."""
    manifest, summary, samples = directory.manifest(), directory.summary(), directory.samples() or {}
    kind = samples.get("kind", "features")
    return {
        "data": manifest["data"],
        "groups": len(manifest["groups"]),
        "groups_that_vote": sum(entry["model"] is not None for entry in manifest["groups"]),
        "models_digest": digest_of(directory),
        "compression": directory.config().compression,
        "versions": manifest["versions"],
        "certificate": guarantee.kind,
        "guarantee": guarantee.model_dump(mode="json"),
        "test": {name: summary[name] for name in ("certificate", "inputs", "accuracy", "certified_accuracy")},
        "kind": kind,
        "image_shape": samples["shape"] if kind == "image" else None,
        "names": samples.get("names", {}),
    }


def _public(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: sample[name] for name in ("position", "truth", "label", "level", "abstained", "shown")}
