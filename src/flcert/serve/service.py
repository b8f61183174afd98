"""What the service knows and answers, independent of HTTP."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Certificate, Guarantee, certified_accuracy
from flcert.core.digest import digest, digest_json
from flcert.errors import InputError
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.runs.records import Sample
from flcert.serve.ledger import Ledger
from flcert.training.ensemble import Electorate
from flcert.voting import most_votes


@dataclass(frozen=True)
class Limits:
    """What a request and a connection may take.

    Args:
        body: bytes in a request's body.
        inputs: how many inputs it may hold.
        concurrency: requests in progress at once, including those that wait.
        seconds: time for a body to arrive, and for an answer to be taken.
        connections: connections at once.
        header_bytes: bytes in a request's headers.
        header_seconds: time for its headers to arrive, from the connection or the answer before.
    """

    body: int = 16_000_000
    inputs: int = 1000
    concurrency: int = 64
    seconds: float = 30.0
    connections: int = 200
    header_bytes: int = 16_384
    header_seconds: float = 10.0


class Service:
    """A run whose models are in memory.

    Args:
        directory: the run directory.
        guarantee: the certificate of the answers; by default the run's own.
        ledger: the ledger of the failure probability, if the certificate has one.
        threads: number of threads that query models; by default one for each core.
    """

    def __init__(
        self,
        directory: RunDirectory,
        guarantee: Guarantee | None = None,
        ledger: Ledger | None = None,
        threads: int | None = None,
    ) -> None:
        self.guarantee, self.ledger = guarantee or directory.guarantee(), ledger
        if not self.guarantee.per_input:
            raise InputError(f"certificate {self.guarantee.kind!r} certifies a test set as a whole, not an answer")
        self.ensemble = open_ensemble(directory)
        self.samples, self.inputs = directory.samples(), directory.inputs()
        evidence, truth = directory.evidence(self.guarantee.needs), directory.truth()
        self.guarantee.check_evidence(evidence)
        labels, self._test = self.guarantee.answer(evidence)
        test = {
            "guarantee": self.guarantee.model_dump(mode="json"),
            "caption": self.guarantee.caption,
            "inputs": len(truth),
            "accuracy": float(np.mean(labels == truth)),
            "certified_accuracy": certified_accuracy(self._test, truth).tolist(),
        }
        public = directory.public_figures(certified_accuracy(self._test, truth))
        test |= {"public": public.model_dump(mode="json") if public else None}
        if ledger:  # the account covers alpha, not twice alpha as in Algorithm 1 to the letter
            account = {"alpha": ledger.account.alpha, "selection": "safe"}
            self.guarantee = self.guarantee.model_copy(update=account)
        self._facts = {**_facts(directory, self.guarantee), "test": test}
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
        """Some test inputs to try: their values, and what a person sees."""
        if self.samples is None or self.inputs is None:
            return []
        pairs = zip(self.samples.inputs, self.inputs, strict=True)
        return [{**self._shown(sample), "values": values.tolist()} for sample, values in pairs]

    def _shown(self, sample: Sample) -> dict[str, Any]:
        at = sample.position
        kept = sample.model_dump(mode="json", include={"position", "truth", "label", "shown"})
        level, abstained = int(self._test.levels[at]), bool(self._test.abstained[at])
        return {**kept, "label": int(self._test.labels[at]), "level": level, "abstained": abstained}

    def predict(self, inputs: NDArray[np.generic]) -> dict[str, Any]:
        """Labels, levels and votes of inputs that ``checked_inputs`` returned."""
        evidence = self._electorate.evidence(inputs, self.guarantee.needs)
        covered = self.ledger.spend(len(evidence)) if self.ledger else len(evidence)
        sharing = self.ledger.account.predictions if self.ledger else None
        certificate = self.guarantee.certify_each(evidence.part(slice(covered)), sharing) if covered else None
        settled = certificate is not None and covered == len(evidence) and self.guarantee.ties == "smallest"
        labels = certificate.labels if certificate and settled else self.guarantee.predict(evidence, alone=True)
        counted, trusted = self.guarantee.counted(evidence), self.guarantee.trusted_votes(evidence)
        silent = np.maximum(0, evidence.silent() - self.guarantee.num_failed).tolist()
        answers = []
        for position, label in enumerate(labels.tolist()):
            proof = certificate if position < covered else None
            abstained = bool(proof.abstained[position]) if proof else None
            answers.append(
                {
                    "label": label,
                    "name": self._name(label),
                    "certified": abstained is False,
                    "level": int(proof.levels[position]) if proof else None,
                    "abstained": abstained,
                    "votes": {str(voted): count for voted, count in most_votes(counted, position)},
                    "trusted": trusted and {"label": int(trusted.labels[position]), "votes": trusted.votes},
                    "takeover": self.guarantee.with_failed(silent[position]).takeover(evidence, position),
                    "sentence": self._sentence(label, proof, position),
                }
            )
        return {"certificate": self.guarantee.kind, "predictions": answers, "budget": self.budget()}

    def _name(self, label: int) -> str:
        names = self.samples.names if self.samples else {}
        return names.get(label, str(label))

    def _sentence(self, label: int, certificate: Certificate | None, position: int) -> str:
        name = self._name(label)
        if certificate is None:
            return f"{name}, without a certificate: the predictions that alpha covers are spent."
        level, abstained = int(certificate.levels[position]), bool(certificate.abstained[position])
        return self.guarantee.sentence_for_input(name, level, abstained=abstained)


def account_of(directory: RunDirectory, guarantee: Guarantee) -> str:
    """A short digest of these models and this theorem, without alpha, which the account records itself."""
    return digest(f"{digest_of(directory)} {guarantee.theorem()}", size=12)


def digest_of(directory: RunDirectory) -> str:
    """A short digest of these models."""
    return digest_json([facts.model for facts in directory.manifest().groups], size=12)


def _facts(directory: RunDirectory, guarantee: Guarantee) -> dict[str, Any]:
    """The facts about a run, as JSON values."""
    manifest, samples = directory.manifest(), directory.samples()
    kind = samples.kind if samples else "features"
    return {
        "data": manifest.data.model_dump(mode="json", exclude={"excluded"}),
        "excluded_clients": len(manifest.data.excluded),
        "groups": len(manifest.groups),
        "groups_that_vote": sum(facts.model is not None for facts in manifest.groups),
        "models_digest": digest_of(directory),
        "compression": directory.config().compression,
        "versions": manifest.versions,
        "certificate": guarantee.kind,
        "title": guarantee.title,
        "guarantee": guarantee.model_dump(mode="json"),
        "meaning": guarantee.meaning,
        "proved": guarantee.proved,
        "kind": kind,
        "image_shape": list(samples.shape) if samples and kind == "image" else None,
        "names": samples.names if samples else {},
    }
