"""The README's commands and code, and the examples, run as they are printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from flcert.aggregators import AGGREGATORS
from flcert.attacks import ATTACKS
from flcert.attacks.triggers import TRIGGERS
from flcert.engines import ENGINES, Inline
from flcert.pipeline.baselines import BASELINES
from flcert.runs.config import parse_config

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language, text=README):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def words(text):
    return re.sub(r"[\d,.%]+| +", " ", text).split()


def percentages(text):
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


@pytest.fixture
def environment(tmp_path):
    """The flcert of this environment, and an empty store."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "FLCERT_CACHE": str(tmp_path / "cache")}


def call(command, directory, environment):
    result = subprocess.run(
        ["bash", "-ec", command], cwd=directory, env=environment, capture_output=True, text=True, timeout=500
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_commands_of_the_readme_run_and_print_what_it_says(tmp_path, environment, flcert, monkeypatch):
    """The first is the installed command with its worker processes; the others are called in this process."""
    monkeypatch.setitem(ENGINES, "processes", lambda **_: Inline())
    install, tests, *usage = blocks("sh")
    assert " && ".join(["python3.11 -m venv .venv", ".venv/bin/pip install -q -c constraints.txt"]) in install
    assert ".venv/bin/python -m pytest" in tests
    printed, main_job = blocks("text")[0], install.rpartition("&& .venv/bin/")[2]
    shown = call(main_job, tmp_path, environment)
    assert words(shown) == words(printed.partition("\n")[2].partition("\n")[2])  # without the progress bars
    np.testing.assert_allclose(percentages(shown), percentages(printed), atol=2)  # another processor may round a vote
    for line in "".join(usage).splitlines():
        name, *arguments = shlex.split(line, comments=True)
        if name != "flcert":
            call(line, tmp_path, environment)
        else:
            assert (outcome := flcert(*arguments)).code == 0, (line, outcome.err)


def test_the_commands_and_the_configuration_of_the_attacks_page_work(tmp_path, environment):
    page = (ROOT / "docs" / "attacks.md").read_text()
    for command in blocks("sh", page):
        assert "certified accuracy" in call(command, tmp_path, environment)
    (table,) = blocks("toml", page)
    assert parse_config(tomllib.loads(table)).attack.options["target"] == 5
    for name in (*ATTACKS, *TRIGGERS, *AGGREGATORS, *BASELINES):
        assert f"{name}" in page


def test_the_job_script_of_the_cluster_page_trains_groups_that_the_last_command_finds(tmp_path, environment):
    page = (ROOT / "docs" / "cluster.md").read_text()
    prepare, certify = blocks("sh", page)
    (script,) = blocks("bash", page)
    call(prepare, tmp_path, environment)
    for task in (0, 19):
        call(script, tmp_path, {**environment, "SLURM_ARRAY_TASK_ID": str(task)})
    assert "18 groups trained, 2 reused from the store" in call(certify, tmp_path, environment)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page):
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_python_of_the_readme_runs(tmp_path, environment):
    (code,) = blocks("python")
    (tmp_path / "script.py").write_text(code)
    assert "[0." in call("python script.py", tmp_path, environment)


def test_the_configuration_of_the_readme_is_valid_and_lists_every_key():
    values = tomllib.loads(blocks("toml")[0])
    config = parse_config(values)
    fields = type(config.recipe).model_fields
    off_by_default = {name for name, field in fields.items() if field.default is None or name == "variants"}
    assert set(values["recipe"]) | off_by_default == set(fields)
    assert all(f"`{name}`" in README for name in off_by_default)
    assert set(values["grouping"]) | {"examples"} == set(type(config.grouping).model_fields)
    assert "examples = " in blocks("toml")[0]
    assert set(values["certificate"]) == set(type(config.certificate).model_fields)


@pytest.mark.parametrize("name", ["own_data_folder", "own_data_function", "own_model"])
def test_an_example_runs(name, tmp_path, environment):
    folder = shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=shutil.ignore_patterns("data", "runs"))
    if (folder / "make_data.py").exists():
        call("python make_data.py", folder, environment)
    out = call("flcert run config.toml --engine inline --out run", folder, environment)
    assert "certified accuracy" in out
    assert (folder / "run" / "report.html").exists()


def test_a_run_with_a_model_of_one_s_own_predicts_from_anywhere(tmp_path, environment):
    folder = shutil.copytree(ROOT / "examples" / "own_model", tmp_path / "own_model")
    run = "flcert run own_model/config.toml --engine inline --rounds 1 --out run"
    inputs = "python -c \"import numpy; numpy.save('inputs.npy', numpy.zeros((1, 64)))\""
    assert folder.exists()
    call(f"{run} && {inputs}", tmp_path, environment)
    assert "label" in call("flcert predict run inputs.npy --modules own_model", tmp_path, environment)


def test_the_notebook_example_runs(tmp_path, environment):
    assert "against 5 malicious clients" in call(f"python {ROOT / 'examples' / 'notebook.py'}", tmp_path, environment)
