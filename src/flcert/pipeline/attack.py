"""A simulated attack beside the proof: which one the configuration asks for, and what it did."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flcert import attacks, datasets
from flcert.attacks import AttackPlan
from flcert.certify import Certificate, Evidence, Guarantee, certified_accuracy, success_at, targeted_success
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.pipeline.results import Certified
from flcert.runs.config import Config
from flcert.runs.records import AttackFigures
from flcert.training import Context, Ensemble
from flcert.training.checks import checked_module
from flcert.training.device import array, tensor
from flcert.training.public import public_of
from flcert.training.train import train_groups
from flcert.training.votes import VOTES, Question, charged, evidence_on_test_set

BACKDOOR = "backdoor"


def backdoor_for(config: Config) -> Choice:
    """The backdoor that the configuration names, with the paper's trigger and target if it names no trigger."""
    own = config.attack.options if config.attack and config.attack.name == BACKDOOR else {}
    usual = {} if "trigger" in own else datasets.backdoor(config.data.name, config.data.options)
    return Choice(name=BACKDOOR, options={**usual, **own})


def attack_plan(config: Config, federation: Federation) -> AttackPlan | None:
    """The attack that the configuration asks for, refused before anything is trained if it does not fit."""
    if config.attack is None:
        return None
    choice = Choice(name=config.attack.name, options=config.attack.options)
    if choice.name == BACKDOOR:
        choice = backdoor_for(config)
    inputs, labels = tensor(federation.test_inputs[:1]), tensor(federation.test_labels[:1])  # nobody's examples
    poisoned, _ = attacks.build(choice).poison(inputs, labels, federation.num_labels)
    public = public_of(config.recipe, federation.test_inputs, federation.num_labels)
    checked_module(config.recipe, public, array(poisoned[-1:]), federation.num_labels)
    return attacks.plan(choice, config.attack.malicious, federation.ids, config.attack.seed)


def evaluate_attack(
    context: Context, ensemble: Ensemble, plan: AttackPlan, certified: Certified
) -> tuple[AttackFigures, Ensemble]:
    """Retrain the groups that hold a malicious client, under attack, and compare.

    Args:
        context: workers, store and progress.
        ensemble: the groups trained without attack; those without a malicious client are reused.
        plan: who attacks, and how.
        certified: the votes of the ensemble without attack, and their certificate.

    Returns:
        The figures, and the attacked ensemble, which knows how many groups were trained.
    """
    context = context.attacked()
    attacked = train_groups(context, ensemble.grouping, ensemble.recipe, plan, ensemble.public)
    attacked = replace(attacked, trusted=ensemble.trusted)  # which the attacker cannot reach
    attacked = charged(context, attacked, [VOTES])
    truth, guarantee = context.federation.test_labels, certified.guarantee
    before = certified.labels
    after = guarantee.predict(evidence_on_test_set(context, attacked))
    m, changed = len(plan.malicious), before != after
    holds = _certified(certified.certificate, m)
    figures = AttackFigures(
        name=plan.choice.name,
        malicious=m,
        groups_attacked=sum(bool(plan.malicious & set(group.tolist())) for group in ensemble.grouping.members),
        accuracy_without_attack=_share(before == truth),
        accuracy_under_attack=_share(after == truth),
        changed=int(changed.sum()),
        certified=int(holds.sum()),
        certified_changed=int((changed & holds).sum()),
    )
    attack = attacks.build(plan.choice)
    trigger = getattr(attack, "trigger", None)
    if trigger is None:
        return figures, attacked
    question = Question(trigger=trigger)
    clean, spoilt = (charged(context, one, [question]) for one in (ensemble, attacked))
    stamped = partial(evidence_on_test_set, context, question=question)
    target: int = attack.target  # type: ignore[attr-defined]
    guarantee = guarantee.with_failed(len(clean.failures) - len(ensemble.failures))
    return _with_backdoor(figures, (stamped(clean), stamped(spoilt)), (truth, target), guarantee), attacked


def _with_backdoor(
    figures: AttackFigures,
    stamped: tuple[Evidence, Evidence],
    aim: tuple[NDArray[np.int64], int],
    guarantee: Guarantee,
) -> AttackFigures:
    """Add the figures of a backdoor; success rates leave out inputs whose true label is the target."""
    (without, under), (truth, target) = stamped, aim
    counted = truth != target
    levels = guarantee.target_levels(without, target)
    return figures.model_copy(
        update={
            "success_rate_without_attack": _share(guarantee.predict(without)[counted] == target),
            "success_rate_under_attack": _share(guarantee.predict(under)[counted] == target),
            "success_rate_at_most": None
            if levels is None
            else success_at(targeted_success(levels, truth, target), figures.malicious),
            "certified_accuracy_on_stamped_inputs": tuple(
                certified_accuracy(guarantee.certify(without), truth).tolist()
            ),
        }
    )


def _certified(certificate: Certificate, m: int) -> NDArray[np.bool_]:
    """Which inputs are certified for m malicious clients."""
    held: NDArray[np.bool_] = ~certificate.abstained & (certificate.levels >= m)
    return held


def _share(kept: NDArray[np.bool_]) -> float:
    return float(kept.mean()) if len(kept) else 0.0
