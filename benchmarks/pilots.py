"""How far a pilot's forecast is from what the federation then measures, over many pilots.

A single comparison tells little: the test set of the digits has 450 inputs, on which certified accuracy scatters by two
points whatever anybody predicts. So each setting is tried several times, with other pilot clients and another split of
the data into clients and test set; the mean difference shows whether the forecast is biased, and the intervals are
counted. ``--setting`` takes one setting only; models are kept in the store, so a stopped command goes on.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert import presets
from flcert.certify import certified_accuracy
from flcert.core.store import Store
from flcert.engines import Processes, Workers
from flcert.pipeline.pilot import pilot
from flcert.pipeline.run import checked
from flcert.runs.config import Config, parse_config
from flcert.training.context import Context
from flcert.training.train import train_groups
from flcert.training.votes import evidence_on_test_set

SHARES = (0.0, 0.1, 0.2)  # of the federation's clients, for m


@dataclass(frozen=True)
class Setting:
    """What is tried.

    Args:
        preset: the preset, whose groups are balanced here.
        options: of the data set, in place of the preset's.
        share: of the clients that are set apart.
        clients_a_group: the sizes of groups to try.
    """

    preset: str
    options: dict[str, Any]
    share: float
    clients_a_group: tuple[int, ...]


SETTINGS = {
    "digits, 50 clients": Setting("digits", {"num_clients": 50, "num_root": 0}, 0.4, (1, 2)),
    "digits, 200 clients": Setting("digits", {"num_clients": 200, "num_root": 0}, 0.5, (2, 5)),
    "har": Setting("har", {}, 0.5, (1, 2)),
}


@dataclass(frozen=True)
class Outcome:
    """One pilot beside its federation, at each m: what was predicted, the ends of the interval, what was measured."""

    predicted: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    measured: NDArray[np.float64]


def configuration(setting: Setting, number: int) -> Config:
    """The setting with pilot clients and a split of its own."""
    raw = presets.values(setting.preset)
    raw["data"]["options"] = {**setting.options, "seed": number}
    raw["grouping"] = {"kind": "balanced", "num_groups": 1}
    raw["pilot"] = {"share": setting.share, "key": f"pilot-{number}"}
    return parse_config(raw)


def outcomes(setting: Setting, number: int, trainings: int, store: Store) -> Iterator[tuple[int, Outcome]]:
    """For each size of groups, a pilot and the run that it predicts."""
    config = configuration(setting, number)
    clients = checked(config)[0].num_clients
    numbers = {size: -(-clients // size) for size in setting.clients_a_group}
    piloted = pilot(config, tuple(numbers.values()), trainings, store=store)
    levels = [round(share * clients) for share in SHARES]
    for (size, num_groups), candidate in zip(numbers.items(), piloted.candidates, strict=True):
        curve = measured(
            config.model_copy(update={"grouping": config.grouping.model_copy(update={"num_groups": num_groups})}), store
        )
        ends = np.array([candidate.forecast.interval(m) for m in levels])
        predicted = np.array([candidate.forecast.at(m) for m in levels])
        reached = np.array([curve[m] if m < len(curve) else 0.0 for m in levels])
        yield size, Outcome(predicted, ends[:, 0], ends[:, 1], reached)


def measured(config: Config, store: Store) -> NDArray[np.float64]:
    """Certified accuracy of the federation, as ``flcert run`` computes it."""
    federation, grouping, _ = checked(config)
    with Workers(Processes(), federation) as workers:
        context = Context(workers, store)
        evidence = evidence_on_test_set(context, train_groups(context, grouping, config.recipe))
    certificate = config.guarantee(config.grouping.certificate, grouping).certify(evidence)
    return certified_accuracy(certificate, federation.test_labels)


def main() -> None:
    """Print a row for each setting, size of groups and m."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="pilots of each setting")
    parser.add_argument("--trainings", type=int, default=24, help="groups that a pilot trains for each size")
    parser.add_argument("--setting", choices=SETTINGS, help="one setting only")
    options = parser.parse_args()
    store = Store()
    print("| setting | clients a group | m / n | predicted | measured | difference | a single miss | in the interval |")
    print("|---|---|---|---|---|---|---|---|")
    for name in [options.setting] if options.setting else SETTINGS:
        found: dict[int, list[Outcome]] = {}
        for number in range(options.repeats):
            for size, outcome in outcomes(SETTINGS[name], number, options.trainings, store):
                found.setdefault(size, []).append(outcome)
        for size, several in found.items():
            for line in rows(several):
                print(f"| {name} | {size} | {line} |", flush=True)


def rows(several: list[Outcome]) -> Iterator[str]:
    """For each m the means, the mean difference with its standard error, the root mean square, and the intervals."""
    predicted = 100 * np.stack([one.predicted for one in several])
    reached = 100 * np.stack([one.measured for one in several])
    inside = np.stack([(one.low <= one.measured) & (one.measured <= one.high) for one in several]).sum(axis=0)
    missed = predicted - reached
    error = missed.std(axis=0, ddof=1) / np.sqrt(len(several))
    for at, share in enumerate(SHARES):
        yield (
            f"{share:.0%} | {predicted[:, at].mean():.1f} % | {reached[:, at].mean():.1f} % | "
            f"{missed[:, at].mean():+.1f} ± {error[at]:.1f} | {np.sqrt((missed[:, at] ** 2).mean()):.1f} | "
            f"{inside[at]} of {len(several)}"
        )


if __name__ == "__main__":
    main()
