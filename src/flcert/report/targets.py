"""What malicious clients can turn into one label at most: the success of any backdoor with that target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Certificate, Evidence, Guarantee, implied_levels, success_at, targeted_success
from flcert.errors import InputError
from flcert.report.points import Curve, chosen_levels, telling_level
from flcert.runs.directory import RunDirectory

MOST_LISTED = 20  # labels; with more of them a page does not list each


@dataclass(frozen=True)
class Target:
    """How many inputs m clients can turn into a label at most.

    Args:
        label: the target.
        levels: for each input the largest m such that no m clients can make its label the target.
        bound: the share of the inputs of other labels, at index m; 1 beyond its end.
        implied: what follows from the levels of the labels alone, in the same form; never below.
        num_inputs: the number of inputs whose true label is another.
    """

    label: int
    levels: NDArray[np.int64]
    bound: Curve
    implied: Curve
    num_inputs: int

    @property
    def shown(self) -> list[int]:
        """Numbers of malicious clients worth a row."""
        return chosen_levels(1 - self.bound)

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "label": self.label,
            "inputs": self.num_inputs,
            "success_at_most": self.bound.tolist(),
            "plain_levels_imply": self.implied.tolist(),
            "levels": self.levels.tolist(),
        }

    def sentence(self, guarantee: Guarantee, name: str, m: int | None = None) -> str:
        """What is proved, at the most telling point if not at m."""
        m = telling_level(1 - self.bound) if m is None else m
        reached = round(success_at(self.bound, m) * self.num_inputs)
        return guarantee.target_sentence(name, m, reached, self.num_inputs)


def target_of(
    guarantee: Guarantee,
    evidence: Evidence,
    certificate: Certificate,
    truth: NDArray[np.generic],
    label: int,
) -> Target:
    """What m clients can turn into a label, refused if the certificate cannot tell or there is nothing to turn."""
    levels = guarantee.target_levels(evidence, label)
    if levels is None:
        raise InputError(f"certificate {guarantee.kind!r} cannot tell how many clients can bring about a given label")
    others = int((truth != label).sum())
    if not others:
        raise InputError(f"the true label of every input is {label}, so nothing can be turned into it")
    bound, implied = (targeted_success(one, truth, label) for one in (levels, implied_levels(certificate, label)))
    return Target(label, levels, bound, implied, others)


@dataclass(frozen=True)
class Targets:
    """The share of inputs that m clients can turn into each label at most, as a table.

    Args:
        levels: the numbers of malicious clients.
        rows: by the name of the label, the share for each of those numbers.
        sentence: what is proved about the label that is easiest to bring about.
    """

    levels: Sequence[int]
    rows: Mapping[str, Sequence[float]]
    sentence: str


def targets_of_run(directory: RunDirectory, levels: Sequence[int], telling: int) -> Targets | None:
    """The table of a run; None if it has many labels, or if its certificate cannot tell.

    Args:
        directory: the run.
        levels: the numbers of malicious clients to show.
        telling: the one that the sentence is about.
    """
    guarantee, labels, truth = directory.guarantee(), directory.manifest().data.labels, directory.truth()
    if labels > MOST_LISTED:
        return None
    evidence = directory.evidence(guarantee.needs)
    if guarantee.target_levels(evidence, 0) is None:
        return None
    certificate, samples = directory.certificate(), directory.samples()
    found = [target_of(guarantee, evidence, certificate, truth, z) for z in range(labels) if (truth != z).any()]
    names = {one.label: str(one.label) for one in found} | (dict(samples.names) if samples else {})
    weakest = max(found, key=lambda one: success_at(one.bound, telling))
    rows = {names[one.label]: [success_at(one.bound, m) for m in levels] for one in found}
    return Targets(levels, rows, weakest.sentence(guarantee, names[weakest.label], telling))
