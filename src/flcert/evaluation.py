"""What an attack did: a simulation beside the proof."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert import attacks
from flcert.attacks import AttackPlan
from flcert.ballots import Ballots
from flcert.certify import Certificate, certified_accuracy
from flcert.engines import Workers
from flcert.guarantee import Guarantee
from flcert.registry import Choice
from flcert.store import Store
from flcert.training.ensemble import Ensemble
from flcert.training.fill import Progress
from flcert.training.train import train_groups, votes_on_test_set


def evaluate_attack(
    workers: Workers,
    ensemble: Ensemble,
    plan: AttackPlan,
    guarantee: Guarantee,
    store: Store,
    progress: Progress,
) -> tuple[dict[str, Any], Ensemble]:
    """Train the groups that hold a malicious client again, under attack, and compare.

    Args:
        workers: where.
        ensemble: the groups without attack; those without a malicious client are shared.
        plan: who attacks, and how.
        guarantee: of the ensemble without attack.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.

    Returns:
        The figures, as JSON values: accuracy with and without attack, labels that changed, certified labels that
        changed, and for a backdoor the success rate and the certified accuracy on stamped inputs. And the attacked
        ensemble, which knows how many groups it took to train.
    """

    def attacked_stage(stage: str, done: int, total: int) -> None:
        progress(f"attacked {stage}", done, total)

    attacked = train_groups(workers, ensemble.grouping, ensemble.recipe, store, attacked_stage, plan)
    truth, m = workers.federation.test_labels, len(plan.malicious)
    votes = {
        name: _ballots(workers, trained, store, attacked_stage)
        for name, trained in (("without", ensemble), ("under", attacked))
    }
    labels = {name: guarantee.predict(ballots) for name, ballots in votes.items()}
    certificate, changed = guarantee.certify(votes["without"]), labels["without"] != labels["under"]
    figures = {
        "name": plan.choice.name,
        "malicious": m,
        "groups_attacked": sum(bool(plan.malicious & set(group.tolist())) for group in ensemble.grouping.members),
        "accuracy_without_attack": _share(labels["without"] == truth),
        "accuracy_under_attack": _share(labels["under"] == truth),
        "changed": int(changed.sum()),
        "certified": int((_certified(certificate) >= m).sum()),
        "certified_changed": int((changed & (_certified(certificate) >= m)).sum()),
    }
    trigger = getattr(attacks.build(plan.choice), "trigger", None)
    if trigger is None:
        return figures, attacked
    target = attacks.build(plan.choice).target  # type: ignore[attr-defined]
    stamped = {
        name: _ballots(workers, trained, store, attacked_stage, trigger)
        for name, trained in (("without", ensemble), ("under", attacked))
    }
    return figures | _backdoor_figures(stamped, truth, target, guarantee), attacked


def _backdoor_figures(
    stamped: dict[str, Ballots], truth: NDArray[np.int64], target: int, guarantee: Guarantee
) -> dict[str, Any]:
    """Success rates leave out inputs whose true label is the target."""
    counted = truth != target
    curve = certified_accuracy(guarantee.certify(stamped["without"]), truth)
    return {
        "success_rate_without_attack": _share(guarantee.predict(stamped["without"])[counted] == target),
        "success_rate_under_attack": _share(guarantee.predict(stamped["under"])[counted] == target),
        "certified_accuracy_on_stamped_inputs": curve.tolist(),
    }


def _ballots(
    workers: Workers, ensemble: Ensemble, store: Store, progress: Progress, trigger: Choice | None = None
) -> Ballots:
    votes = votes_on_test_set(workers, ensemble, ensemble.recipe.rounds, store, progress, trigger)
    return Ballots.cast(votes, ensemble.num_labels, ensemble.grouping.members)


def _certified(certificate: Certificate) -> NDArray[np.int64]:
    """The level, -1 where abstained."""
    return np.where(certificate.abstained, -1, certificate.levels)


def _share(kept: NDArray[np.bool_]) -> float:
    return float(kept.mean()) if len(kept) else 0.0
