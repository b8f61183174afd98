"""The paper's settings, one TOML file for each experiment, and how they are scaled down."""

import tomllib
from math import sqrt
from pathlib import Path
from typing import Any

from flcert.datasets import DATASETS
from flcert.errors import InputError, unknown_name


def names() -> list[str]:
    """The names of all presets."""
    return sorted(file.stem for file in Path(__file__).parent.glob("*.toml"))


def text(name: str) -> str:
    """The TOML text of a preset."""
    if name not in names():
        raise unknown_name("preset", name, names())
    return (Path(__file__).parent / f"{name}.toml").read_text()


def values(name: str, scale: float = 1.0) -> dict[str, Any]:
    """A preset's settings, scaled.

    Scale s multiplies the numbers of clients, groups and training examples by s, so that a client holds as much data,
    and a group as many clients, as before; it multiplies rounds by the square root of s. Pilot examples, which are
    nobody's, stay as they are. If users are the clients, a share s of them takes part. Numbers are rounded, and never
    fall below 10 clients (2 users), 2 groups and 1 round.
    """
    if not 0 < scale <= 1:
        raise InputError(f"scale must be in (0, 1], got {scale}")
    settings = tomllib.loads(text(name))
    return settings if scale == 1 else _scaled(settings, scale)


def _scaled(settings: dict[str, Any], scale: float) -> dict[str, Any]:
    data, options = settings["data"], settings["data"].setdefault("options", {})
    record = DATASETS[data["name"]]
    if record.users:
        clients = record.users * (0.9 if options.get("leave_out_pilot") else 1)  # about a twentieth is left out
        options["num_clients"] = max(2, round(clients * scale))
    else:
        options["num_clients"] = max(10, round(options["num_clients"] * scale))
    if record.train_examples:
        options["num_train"] = round((record.train_examples - options.get("num_pilot", 0)) * scale)
    groups = round(settings["grouping"]["num_groups"] * scale)
    settings["grouping"]["num_groups"] = min(max(2, groups), options["num_clients"])
    settings["recipe"]["rounds"] = max(1, round(settings["recipe"]["rounds"] * sqrt(scale)))
    return settings
