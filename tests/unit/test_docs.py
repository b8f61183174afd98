"""The reference is complete: what is public has a docstring that fits, and each command its help, example and page."""

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import generate  # noqa: E402 (the script of the site)

PACKAGE = ROOT / "src" / "flcert"
COMMANDS = generate.commands()
PARAMETERS = [parameter for command in COMMANDS.values() for parameter in command.params]
FORGETFUL = not any(one.help for one in PARAMETERS if one.param_type_name == "argument")  # Typer as Flower wants it


@pytest.fixture(scope="module")
def modules():
    with generate.stand_in_for_flower():
        yield {name: import_module(name) for name in generate.MODULES}


@pytest.fixture(scope="module")
def pages(modules):
    return generate.api_pages() | generate.cli_pages()


def public_values(modules):
    """Functions and classes by their path, with the functions of the classes."""
    for module_name, module in modules.items():
        for name in generate.public_names(module):
            value = getattr(module, name)
            if inspect.isclass(value):
                yield f"{module_name}.{name}", value
                for inner, method in vars(value).items():
                    method = getattr(method, "__func__", method)  # of a class method
                    if inspect.isfunction(method) and not inner.startswith("_"):
                        yield f"{module_name}.{name}.{inner}", method
            elif inspect.isfunction(value):
                yield f"{module_name}.{name}", value


def documented_arguments(docstring):
    """The names under "Args:", or None where there is no such section."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return re.findall(r"^    \*{0,2}(\w+):", section[1], re.MULTILINE) if section else None


def parameters(value):
    return {name for name in inspect.signature(value).parameters if name not in ("self", "cls")}


def inherited(value):
    """Parameters that a class takes over from its bases, which document them."""
    bases = value.__bases__ if inspect.isclass(value) else ()
    return set().union(*(parameters(base) for base in bases if base.__module__.startswith("flcert.")))


def test_every_public_name_has_a_docstring(modules):
    names = [(module, name) for module in modules.values() for name in generate.public_names(module)]
    assert len(names) > 100
    missing = [f"{module.__name__}.{name}" for module, name in names if not generate.docstring(module, name)]
    assert missing == []


def drift(value):
    """Names under "Args:" that are no parameters, and parameters that are not there; nothing without that section."""
    named = documented_arguments(value.__doc__ or "")
    if named is None:
        return set()
    return (set(named) - parameters(value)) | (parameters(value) - inherited(value) - set(named))


def test_arguments_in_docstrings_are_the_parameters(modules):
    values = dict(public_values(modules))
    assert sum("Args:" in (value.__doc__ or "") for value in values.values()) > 50
    assert {path: drift(value) for path, value in values.items() if drift(value)} == {}


def test_every_package_that_says_what_is_public_has_a_page():
    packages = [path.parent for path in PACKAGE.rglob("__init__.py") if "__all__ = [" in path.read_text()]
    names = {".".join(path.relative_to(PACKAGE.parent).parts) for path in packages}
    assert len(names) > 8
    assert names - set(generate.MODULES) == set()


def test_every_public_name_is_on_the_page_of_its_module(modules, pages):
    for module_name, module in modules.items():
        page = pages[f"api/{module_name}.rst"]
        assert [name for name in generate.public_names(module) if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_those_that_do_something_an_example(words):
    command = COMMANDS[words]
    assert command.help
    asked = [one for one in command.params if one.param_type_name == "option" or not FORGETFUL]
    assert [one.name for one in asked if not one.help] == []
    if not hasattr(command, "commands"):
        assert f"Example: `{' '.join(words)}" in command.help


@pytest.mark.parametrize("words", list(COMMANDS)[1:], ids=" ".join)
def test_every_command_is_on_a_page_with_all_its_options(words, pages):
    page = pages[f"cli/{words[1]}.md"]
    start = page.index(f"# {' '.join(words)}\n")
    section = re.split(r"^#+ ", page[start + 2 :], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)
    described = set(re.findall(r"[\w-]+", " ".join(rows).lower()))
    assert {name for one in COMMANDS[words].params for name in one.opts} - described == set()
    assert f"]({words[1]}.md)" in pages["cli/index.md"]


def navigation():
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text())
    assigned = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    return [page for pages in ast.literal_eval(assigned["NAVIGATION"]).values() for page in pages]


def test_every_page_is_in_the_navigation(pages):
    written = {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")}
    assert len(written) > 5
    assert written - set(navigation()) == set()
    generated = {f"docs/reference/{path.rpartition('.')[0]}" for path in pages}
    assert [page for page in navigation() if not (ROOT / f"{page}.md").exists() and page not in generated] == []
