"""Imports point one way, and checking a vote table needs no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import flcert

ROOT = Path(flcert.__file__).parent

# Each layer may import itself and those below it.
LAYERS = [
    {"errors"},
    {"certify", "seeding", "isolation", "files", "presets"},
    {"grouping", "voting", "registry", "tables"},
    {"ballots"},
    {"datasets", "models", "aggregators", "attacks", "guarantee"},
    {"store", "remote"},
    {"engines"},
    {"training"},
    {"evaluation"},
    {"config", "plan"},
    {"rundir", "baselines", "backdoors", "further"},
    {"report", "experiments"},
    {"conclusion"},
    {"pipeline"},
    {"flower"},
    {"forgetting", "compressing", "serve"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("flcert"):
            parts = node.module.split(".")
            yield from (parts[1:2] or [alias.name for alias in node.names])


def test_imports_point_from_the_command_line_towards_the_certificates():
    wrong = []
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        if own == "__init__":
            continue
        wrong += [(str(path), name) for name in imported(path) if name in LEVEL and LEVEL[name] > LEVEL[own]]
        wrong += [(str(path), name) for name in imported(path) if name not in LEVEL and name != "__version__"]
    assert wrong == []


def test_a_worker_that_keeps_a_child_for_training_needs_no_torch():
    code = "import sys, flcert.remote.holder; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_certificates_need_neither_torch_nor_matplotlib():
    code = (
        "import sys, flcert; flcert.certify.disjoint([[3, 1]]); flcert.voting.count([[0, 1]]);"
        "print([name for name in ('torch', 'matplotlib', 'sklearn') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
