"""What is handed over with a run tells nothing about where its maker keeps the data."""

import numpy as np
import pytest

from flcert.datasets import load

FEW = ["--set", "recipe.rounds=2", "--set", "recipe.local_steps=2", "--engine", "inline", "-q"]


@pytest.fixture
def folder(tmp_path):
    digits, path = load("digits", num_clients=6, num_test=20), tmp_path / "private" / "numbers"
    (path / "clients").mkdir(parents=True)
    for position, user in enumerate(digits.ids):
        inputs, labels = digits.client(position)
        np.savez(path / "clients" / f"{user}.npz", inputs=inputs[:20], labels=labels[:20])
    np.savez(path / "test.npz", inputs=digits.test_inputs, labels=digits.test_labels)
    return path


def models(directory):
    return {path.name: path.read_bytes() for path in sorted((directory / "models").iterdir())}


def test_what_others_see_has_no_absolute_path_and_config_json_repeats_the_run(flcert, folder, tmp_path):
    (tmp_path / "config.toml").write_text(
        f"[data]\nname='folder'\noptions={{path='{folder.relative_to(tmp_path)}', num_labels=10}}\n"
    )
    first = flcert("run", "config.toml", "--groups", "3", *FEW, "--out", "run")
    assert first.code == 0, first.err
    holding = {path.name for path in (tmp_path / "run").rglob("*.*") if str(tmp_path).encode() in path.read_bytes()}
    assert holding == {"config.json"}
    assert ".../numbers" in (tmp_path / "run" / "report.html").read_text()
    before = models(tmp_path / "run")
    assert flcert("run", "run/config.json", "--engine", "inline", "-q", "--out", "again").code == 0
    assert models(tmp_path / "again") == before
    np.save("inputs.npy", np.load(folder / "test.npz")["inputs"])
    assert flcert("predict", "run", "inputs.npy").code == 0
    assert flcert("certify", "run").code == 0
    (tmp_path / "private" / "other").symlink_to(folder)
    options = ["--set", f"data.options.path={tmp_path / 'private' / 'other'}"]
    assert flcert("run", "run/config.json", *options, "--engine", "inline", "-q", "--out", "other").code == 0
    compared = flcert("compare", "run", "other")
    assert "path=.../numbers" in compared.out
    assert not [
        path for path in (tmp_path / "comparison").rglob("*.*") if str(folder.parent).encode() in path.read_bytes()
    ]
