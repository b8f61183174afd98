"""Imports point one way, nothing goes round in circles, and checking a vote table needs no torch."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import flcert

ROOT = Path(flcert.__file__).parent

# Each layer may import itself and those below it. docs/architecture.md has the picture.
LAYERS = [
    {"errors"},
    {"core"},
    {"voting"},
    {"certify"},
    {"grouping", "datasets"},
    {"models", "aggregators", "dask_worker", "presets"},
    {"attacks", "engines", "public"},
    {"features"},
    {"training"},
    {"pretraining"},
    {"runs"},
    {"report"},
    {"pipeline"},
    {"experiments", "flower", "serve"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
APART = [("serve", "report"), ("serve", "experiments"), ("flower", "experiments"), ("datasets", "grouping")]


def modules():
    """Every module by its name, with its path; ``flcert`` itself only loads others when they are first used."""
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name != "flcert":
            yield name, path


NAMES = dict(modules())


def imported(path):
    """The modules that a file imports, at its top or inside a function, for types only or not."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("flcert."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flcert":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in NAMES else node.module


GRAPH = {name: set(imported(path)) - {"flcert"} for name, path in NAMES.items()}


def package(name):
    return name.split(".")[1]


def test_imports_point_from_the_command_line_towards_the_certificates():
    assert {package(name) for name in NAMES} == set(LEVEL)
    edges = [(name, other) for name, others in GRAPH.items() for other in others]
    assert len(edges) > 500
    assert [edge for edge in edges if LEVEL[package(edge[1])] > LEVEL[package(edge[0])]] == []
    assert [edge for edge in edges if (package(edge[0]), package(edge[1])) in APART] == []


def test_no_modules_import_each_other_in_a_circle():
    order = list(TopologicalSorter(GRAPH).static_order())  # raises CycleError
    assert set(order) >= set(NAMES)
    try:
        TopologicalSorter({**GRAPH, "flcert.core.files": {"flcert.cli.main"}}).prepare()
    except CycleError:
        return
    raise AssertionError("a circle was not seen")


def test_a_worker_that_keeps_a_child_for_training_needs_no_torch():
    code = "import sys, flcert.dask_worker.holder; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_certificates_need_neither_torch_nor_matplotlib():
    code = (
        "import sys, flcert; flcert.certify.disjoint([[3, 1]]); flcert.voting.count([[0, 1]]);"
        "print([name for name in ('torch', 'matplotlib', 'sklearn') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
