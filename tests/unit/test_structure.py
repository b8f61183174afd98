"""One home for each kind of thing: no function takes too much, and nobody knows a family's members by name."""

import ast
import re
from pathlib import Path

import flcert
from flcert import certify, grouping

ROOT = Path(flcert.__file__).parent
MOST_PARAMETERS = 7


def functions():
    for path in sorted(ROOT.rglob("*.py")):
        if "cli" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                given = [one.arg for one in named if one.arg not in ("self", "cls")]
                yield f"{path.relative_to(ROOT)}:{node.name}", len(given)


def test_no_function_outside_the_command_line_has_more_than_seven_parameters():
    found = dict(functions())
    assert len(found) > 500
    assert {name: number for name, number in found.items() if number > MOST_PARAMETERS} == {}


def places_that_name(kinds, homes):
    """Lines outside a family's home with the name of one of its kinds as a word; a part of a path is none."""
    names = re.compile(rf"(?<![\w/-])({'|'.join(kinds)})(?![\w/-])")
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        if path.is_file() and path.suffix in (".py", ".j2", ".html", ".js") and inside[0] not in homes:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if names.search(line):
                    yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_nobody_outside_their_packages_knows_certificates_and_groupings_by_name():
    kinds = {*certify.KINDS, *grouping.KINDS}
    named = list(places_that_name(kinds, homes=("certify", "grouping", "presets")))
    assert [place for place in named if "Example: `flcert" not in place] == []
