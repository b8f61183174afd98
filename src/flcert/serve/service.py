"""What the service knows and answers, whatever carries the questions."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.ballots import Ballots
from flcert.certify import Certificate, certified_accuracy, clients_to_overtake
from flcert.certify.result import Counts
from flcert.errors import InputError
from flcert.guarantee import KIND_OF_GROUPING, Guarantee
from flcert.pipeline import open_ensemble
from flcert.report.samples import most_votes
from flcert.rundir import RunDirectory
from flcert.serve.ledger import Ledger
from flcert.training.ensemble import Electorate

FEW = 50  # labels that an answer lists one by one


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
        if ledger:  # the account is of alpha, not of twice alpha as Algorithm 1 to the letter would have it
            self.guarantee = self.guarantee.model_copy(update={"alpha": ledger.account.alpha, "selection": "safe"})
        self._test = directory.certificate() if kind == "own" else self._certificate_of_votes(directory)
        self._facts = _facts(directory, self.guarantee, certified_accuracy(self._test, directory.truth()))
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
        return [{**self._shown(sample), "values": values.tolist()} for sample, values in pairs]

    def _shown(self, sample: dict[str, Any]) -> dict[str, Any]:
        at = sample["position"]
        level, abstained = int(self._test.levels[at]), bool(self._test.abstained[at])
        kept = {name: sample[name] for name in ("position", "truth", "label", "shown")}
        return {**kept, "level": level, "abstained": abstained}

    def _certificate_of_votes(self, directory: RunDirectory) -> Certificate:
        """The test set under the certificate that is served, where it is not the run's own."""
        groups = self.ensemble.grouping.members
        return self.guarantee.certify(Ballots.cast(directory.array("votes"), self.ensemble.num_labels, groups))

    def predict(self, inputs: NDArray[np.generic]) -> dict[str, Any]:
        """Labels, levels and votes of some inputs."""
        ensemble = self.ensemble
        votes = self._electorate.votes(inputs)
        ballots = Ballots.cast(votes, ensemble.num_labels, ensemble.grouping.members)
        labels = [self._label(ballots.counts, position) for position in range(len(inputs))]
        covered = self.ledger.spend(len(labels)) if self.ledger else len(labels)
        certificate = self._certify(votes, covered)
        answers = []
        for position, label in enumerate(labels):
            proof = certificate if position < covered else None
            abstained = bool(proof.abstained[position]) if proof else None
            answers.append(
                {
                    "label": label,
                    "name": self._name(label),
                    "certified": abstained is False,
                    "level": int(proof.levels[position]) if proof else None,
                    "abstained": abstained,
                    "votes": {str(voted): count for voted, count in most_votes(ballots.counts, position)},
                    "takeover": self._takeover(ballots.counts, position),
                    "sentence": self._sentence(label, proof, position),
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

    def _takeover(self, counts: Counts, position: int) -> dict[str, int] | None:
        """From how many malicious clients each other label could win; known for disjoint groups.

        Where labels are many it lists those with most votes, and "other" is the least of all without votes.
        """
        if self.guarantee.kind != "disjoint":
            return None
        votes = most_votes(counts, position)
        if not votes:
            return None
        voted, every = dict(votes), range(self.ensemble.num_labels)
        rivals = {str(label): (label, voted.get(label, 0)) for label in every if len(every) <= FEW or label in voted}
        if len(every) > FEW:
            rivals["other"] = (next(label for label in every if not counts[position, label]), 0)
        del rivals[str(votes[0][0])]
        failed = self.guarantee.num_failed
        return {name: clients_to_overtake(votes[0], rival, num_failed=failed) for name, rival in rivals.items()}

    def _label(self, counts: Counts, position: int) -> int:
        """What most groups vote for; a tie does not depend on the other inputs of a request."""
        return int(self.guarantee.predict(Ballots(counts[[position]]))[0])

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


def account_of(directory: RunDirectory) -> str:
    """A short name of exactly these models and this theorem, but for alpha, which an account has itself."""
    theorem = directory.guarantee().model_dump(mode="json", exclude={"alpha", "selection"})
    return hashlib.blake2b(f"{digest_of(directory)} {json.dumps(theorem)}".encode(), digest_size=12).hexdigest()


def digest_of(directory: RunDirectory) -> str:
    """A short name of exactly these models."""
    keys = [entry["model"] for entry in directory.manifest()["groups"]]
    return hashlib.blake2b(json.dumps(keys).encode(), digest_size=12).hexdigest()


def _facts(directory: RunDirectory, guarantee: Guarantee, curve: NDArray[np.float64]) -> dict[str, Any]:
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
        "test": {
            "inputs": summary["inputs"],
            "accuracy": summary["accuracy"],
            "certified_accuracy": curve.tolist(),
        },
        "kind": kind,
        "image_shape": samples["shape"] if kind == "image" else None,
        "names": samples.get("names", {}),
    }
