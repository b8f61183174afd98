"""Pages of the reference: one for each public module, from its docstrings, and one for each command, from its help."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer
from typer.main import get_command

import flcert
from flcert.cli.main import app

MODULES = [
    "flcert",
    "flcert.certify",
    "flcert.grouping",
    "flcert.voting",
    "flcert.datasets",
    "flcert.models",
    "flcert.public",
    "flcert.features",
    "flcert.aggregators",
    "flcert.attacks",
    "flcert.training",
    "flcert.pretraining",
    "flcert.engines",
    "flcert.experiments",
    "flcert.pipeline.run",
    "flcert.runs.config",
    "flcert.runs.directory",
    "flcert.runs.records",
    "flcert.flower",
    "flcert.errors",
]


def write(directory: Path) -> None:
    """Write all pages, leaving files alone that are as they should be, and delete those that are no longer wanted."""
    pages = {directory / path: text for path, text in [*api_pages().items(), *cli_pages().items()]}
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in directory.rglob("*.*"):
        if path not in pages:
            path.unlink()


# The packages


class StandIn(ModuleType):
    """A module in which every name is an empty class."""

    __path__: list[str] = []  # noqa: RUF012 (an attribute of packages)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class StandInFinder(MetaPathFinder, Loader):
    """Finds an empty module for Flower and all its parts."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Any module of Flower."""
        return ModuleSpec(name, self) if name.partition(".")[0] == "flwr" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do."""


@contextmanager
def stand_in_for_flower() -> Iterator[None]:
    """Let ``flcert.flower`` be imported, to be described, where Flower is not installed."""
    if find_spec("flwr"):
        yield
        return
    finder = StandInFinder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(("flwr", "flcert.flower"))]:
            del sys.modules[name]
        vars(flcert).pop("flower", None)


def public_names(module: ModuleType) -> list[str]:
    """What stands in ``__all__``, or else what the module defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name in _defined(module) if not name.startswith("_")]


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _defined(module: ModuleType) -> Iterator[str]:
    for node in _tree(module).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))


def docstring(module: ModuleType, name: str) -> str:
    """The docstring of a public name; of a constant, the string below its assignment. Empty if there is none."""
    value = getattr(module, name)
    if inspect.ismodule(value) or inspect.isroutine(value):
        return inspect.getdoc(value) or ""
    if inspect.isclass(value):
        return inspect.cleandoc(value.__dict__.get("__doc__") or "")  # not that of its base
    home = _home(module, name)
    lines = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    return "\n".join(lines).strip()


def _home(module: ModuleType, name: str) -> str:
    """The module that assigns a constant."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
            return _home(import_module(node.module), name)
    return module.__name__


def api_pages() -> dict[str, str]:
    """The pages of ``MODULES`` by path, and one that lists them."""
    modules = {name: import_module(name) for name in MODULES}
    pages = {f"api/{name}.rst": _api_page(module, modules) for name, module in modules.items()}
    rows = [f"- :doc:`{name}`: {_first_line(module.__doc__ or '')}" for name, module in modules.items()]
    toctree = [".. toctree::", "   :hidden:", "", *[f"   {name}" for name in MODULES], ""]
    return {"api/index.rst": "\n".join(["Python", "======", "", *rows, "", *toctree])} | pages


def _api_page(module: ModuleType, modules: dict[str, ModuleType]) -> str:
    name = module.__name__
    lines = [f"``{name}``", "=" * (len(name) + 4), "", f".. automodule:: {name}", "   :no-members:", ""]
    for public in public_names(module):
        lines += _entry(module, public, modules)
    return "\n".join(lines)


def _entry(module: ModuleType, name: str, modules: dict[str, ModuleType]) -> list[str]:
    """A public name of a module: where it is described if not here, or its description."""
    value, path = getattr(module, name), f"{module.__name__}.{name}"
    if inspect.ismodule(value):
        return [f"- :doc:`{path}`: {_first_line(docstring(module, name))}", ""]
    home = next((other for other in MODULES[1:] if name in public_names(modules[other])), "")
    if module.__name__ == "flcert" and home:
        role = "class" if inspect.isclass(value) else "func"
        return [f"- :py:{role}:`flcert.{name} <{home}.{name}>`: {_first_line(docstring(module, name))}", ""]
    if inspect.isclass(value):
        described = any(base.__name__ in public_names(known) for base in value.__bases__ for known in modules.values())
        fields = ", ".join(["model_config", *getattr(value, "__dataclass_fields__", {})])  # they stand under "Args:"
        return [f".. autoclass:: {path}", f"   :exclude-members: {fields}", *["   :show-inheritance:"] * described, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}", ""]
    return [f".. py:data:: {name}", f"   :module: {module.__name__}", "", *_indented(docstring(module, name)), ""]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _indented(text: str) -> list[str]:
    return [f"   {line}" for line in text.splitlines()]


# The command line


def commands(command: Any = None, words: tuple[str, ...] = ("flcert",)) -> dict[tuple[str, ...], Any]:
    """Every command by the words that call it, ``flcert`` itself first."""
    command = command or get_command(app)
    found = {words: command}
    for name, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, (*words, name))
    return found


def cli_pages() -> dict[str, str]:
    """One page for each command (those of a group are on the group's), and one that lists them."""
    known = commands()
    names = [words[1] for words in known if len(words) == 2]
    toctree = ["```{toctree}", ":hidden:", "", *names, "```", ""]
    rows = [f"| [`flcert {name}`]({name}.md) | {known['flcert', name].help.splitlines()[0]} |" for name in names]
    table = ["", "| command | what it does |", "|---|---|", *rows, ""]
    index = ["# Command line", "", *_described(("flcert",), known["flcert",]), *table, *toctree]
    pages = {"cli/index.md": "\n".join(index)}
    for name in names:
        lines = []
        for words, command in known.items():
            if words[1:2] == (name,):
                lines += [f"{'#' * (len(words) - 1)} flcert {' '.join(words[1:])}", "", *_described(words, command)]
        pages[f"cli/{name}.md"] = "\n".join(lines)
    return pages


def _described(words: tuple[str, ...], command: Any) -> list[str]:
    """The help of a command as Markdown: what it does, examples, how it is called, arguments and options."""
    context = command.context_class(command, info_name=" ".join(words))
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [command.help or "", "", "```text", usage, "```", ""]
    records = [one.get_help_record(context) for one in command.params]
    rows = [f"| {_cell(f'`{name}`')} | {_cell(text)} |" for name, text in filter(None, records)]
    return [*lines, "| | |", "|---|---|", *rows, ""] if rows else lines


def _cell(text: str) -> str:
    """Text in Markdown as a cell of a table: outside of code, options become code and ``<`` begins no tag."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [re.sub(r"--[a-z-]+", r"`\g<0>`", part).replace("<", "\\<") for part in parts[::2]]
    return "`".join(parts)
