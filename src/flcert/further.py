"""Further certificates of the same trained models, beside the one that the groups call for."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert import certify
from flcert.ballots import Ballots
from flcert.certify import Certificate, Tally, certified_accuracy
from flcert.errors import InputError
from flcert.guarantee import Further, Guarantee

ONLY_DISJOINT: tuple[Further, ...] = ("runoff", "collective")


def check_further(kinds: Sequence[Further], guarantee_kind: str) -> None:
    """Refuse certificates that do not apply to groups of this kind."""
    for kind in kinds:
        if kind in ONLY_DISJOINT and guarantee_kind != "disjoint":
            raise InputError(f"certificate {kind!r} is for disjoint groups (hashed), got {guarantee_kind!r}")


def further_certificate(kind: Further, ballots: Ballots, guarantee: Guarantee, counted: Tally | None) -> Certificate:
    """One more certificate, of each input by itself.

    Args:
        kind: "overlapping" or "runoff".
        ballots: the votes.
        guarantee: of the groups.
        counted: the groups' orders, for a run-off.
    """
    check_further([kind], guarantee.kind)
    if kind == "runoff":
        if counted is None:
            raise InputError("a run-off needs how the models rank the labels; run with --also runoff")
        return certify.runoff(counted, num_failed=guarantee.num_failed)
    return further_guarantee(kind, guarantee).certify(ballots)


def further_guarantee(kind: Further, guarantee: Guarantee) -> Guarantee:
    """What a further certificate says: of overlapping groups another theorem, of a run-off the same of another vote."""
    return guarantee.model_copy(update={"kind": "overlapping"}) if kind == "overlapping" else guarantee


def further_curve(certificate: Certificate, truth: NDArray[np.generic]) -> dict[str, Any]:
    """The figures of a further certificate, as JSON values."""
    return {
        "accuracy": float(np.mean(certificate.labels == truth)),
        "certified_accuracy": certified_accuracy(certificate, truth).tolist(),
    }


def collective_curve(
    ballots: Ballots,
    truth: NDArray[np.generic],
    levels: Sequence[int],
    num_failed: int,
    report: Callable[[int, int], None],
) -> dict[str, int]:
    """How many inputs stay right when so many clients attack all of them at once, for some numbers of clients."""
    if ballots.votes is None or not isinstance(ballots.counts, np.ndarray):
        raise InputError("a collective certificate needs each group's vote, and at most some thousand labels")
    kept = {}
    report(0, len(levels))
    for done, m in enumerate(levels, start=1):
        kept[str(m)] = certify.collective(ballots.counts, ballots.votes, truth, m, num_failed=num_failed)
        report(done, len(levels))
    return kept
