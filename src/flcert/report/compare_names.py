"""Names for settings that are compared: what differs between them, as short as it can be said."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flcert.report.paths import shortened

LONGEST = 40  # characters of a value in a name
MOST_VALUES = 6  # settings that differ in more are named by where they lie
_MISSING = object()
_DIGEST = re.compile("[0-9a-f]{32,}")


def flat(values: Mapping[str, Any], under: str = "") -> dict[str, Any]:
    """Nested tables as one table with dotted keys.

    >>> flat({"a": {"b": 1, "c": {}}, "d": [2]})
    {'a.b': 1, 'd': [2]}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{under}{key}.") if isinstance(value, dict) else {f"{under}{key}": value}
    return found


def short_keys(keys: Iterable[str]) -> dict[str, str]:
    """The last word of each dotted key, or more of it where that would be ambiguous.

    >>> short_keys(["recipe.aggregator.name", "recipe.model.options.hidden"])
    {'recipe.aggregator.name': 'aggregator', 'recipe.model.options.hidden': 'hidden'}
    >>> short_keys(["recipe.seed", "attack.seed"])
    {'recipe.seed': 'recipe.seed', 'attack.seed': 'attack.seed'}
    """
    plain = {key: _without_fillers(key) for key in keys}
    last = {whole: whole.rpartition(".")[2] for whole in plain.values()}
    unique = {word for word in last.values() if list(last.values()).count(word) == 1}
    return {key: last[whole] if last[whole] in unique else whole for key, whole in plain.items()}


def _without_fillers(key: str) -> str:
    """The key without words that say nothing to a reader."""
    words = [word for word in key.split(".") if word != "options"]
    return ".".join(words[:-1] if len(words) > 1 and words[-1] in ("name", "kind") else words)


def shown(value: Any) -> str:
    """A value as people write it, cut off if it is long; of a digest the beginning, of an absolute path the end.

    >>> shown("median"), shown(0.5), shown([32, 16]), shown(None)
    ('median', '0.5', '[32,16]', 'none')
    """
    value = shortened(value)
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":")).replace("null", "none")
    if _DIGEST.fullmatch(text):
        return text[:8]
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def differing(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str | None]]:
    """The keys in which settings differ, with the value of each setting as text; None where it has no such key.

    Args:
        settings: nested tables.
    """
    tables = [flat(one) for one in settings]
    keys = dict.fromkeys(key for table in tables for key in table)
    different = [
        key for key in keys if any(table.get(key, _MISSING) != tables[0].get(key, _MISSING) for table in tables)
    ]
    found: dict[str, list[str | None]] = {}
    for key, short in short_keys(different).items():
        values = found.setdefault(short, [None] * len(tables))
        for number, table in enumerate(tables):
            if key in table:
                values[number] = shown(table[key])
    return found


def names_of(settings: Sequence[Mapping[str, Any]], places: Sequence[str]) -> list[str]:
    """A name for each setting: the values in which it differs from others, or its place if those are many.

    Further certificates and simulated attacks are not named: they change nothing about certified accuracy. Neither is
    a key that only some kinds of groups have, if it is the same for all of them: the kind tells them from the others.

    Args:
        settings: nested tables.
        places: where each comes from.
    """
    found = differing(_without_implied([_that_matter(one) for one in settings]))
    if len(found) > MOST_VALUES:
        return list(places)
    texts = [
        ", ".join(f"{key}={values[number]}" for key, values in found.items() if values[number] is not None)
        for number in range(len(settings))
    ]
    return [
        text if text and texts.count(text) == 1 else f"{text} ({place})" if text else place
        for text, place in zip(texts, places, strict=True)
    ]


def _without_implied(settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings without keys of groups that some lack and all others have with the same value."""
    groups = [one.get("grouping", {}) for one in settings]
    lacked = {key for table in groups for key in table if any(key not in other for other in groups)}
    values = {key: [table[key] for table in groups if key in table] for key in lacked}
    implied = {key for key, found in values.items() if all(value == found[0] for value in found)}
    kept = [{key: value for key, value in table.items() if key not in implied} for table in groups]
    return [{**one, "grouping": table} for one, table in zip(settings, kept, strict=True)]


def _that_matter(values: Mapping[str, Any]) -> dict[str, Any]:
    certificate = {key: value for key, value in values.get("certificate", {}).items() if key != "also"}
    return {**{key: value for key, value in values.items() if key != "attack"}, "certificate": certificate}
