"""Every error that flcert raises on purpose.

The tree::

    FlcertError
    ├── InputError      the caller gave something wrong (command line: exit code 2)
    │   └── MissingError  a setting that is needed was not given
    ├── RunError        correct input, but the work could not be done (exit code 1)
    └── IntegrityError  a file is not what its digest says (exit code 1)

Messages carry the name, the rule and the value: ``group_size must be in [1, num_clients=10], got 11``.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_NAMES = 20  # the most names that a message lists


class FlcertError(Exception):
    """Root of all errors raised on purpose."""


class InputError(FlcertError, ValueError):
    """The caller gave a value that breaks a rule; the message names both."""


class MissingError(InputError):
    """A setting that is needed was not given; it is made with the setting's dotted name."""

    @property
    def name(self) -> str:
        """The dotted name of the setting."""
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.name} is needed, but was not given"


class RunError(FlcertError, RuntimeError):
    """The input was right, but the work could not be done."""


class IntegrityError(FlcertError):
    """A file's content differs from the digest recorded for it."""


def one_line(message: str) -> str:
    r"""A message without line breaks, which a user's own code may have put into it.

    >>> one_line("model 'm:Net' raised ValueError: no\n  good\n")
    "model 'm:Net' raised ValueError: no good"
    """
    return " ".join(filter(None, (line.strip() for line in message.splitlines())))


def unknown_name(what: str, name: str, allowed: Iterable[str]) -> InputError:
    """An error for a name that is not in ``allowed``, with the nearest one as a suggestion.

    >>> str(unknown_name("model", "mpl", ["cnn", "mlp"]))
    "unknown model 'mpl'; did you mean 'mlp'? (known: cnn, mlp)"
    """
    known = sorted(allowed)
    nearest = get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    if not known:
        return InputError(f"unknown {what} {name!r} (there are none)")
    more = f" and {len(known) - _MOST_NAMES:,} more" if len(known) > _MOST_NAMES else ""
    return InputError(f"unknown {what} {name!r}{hint} (known: {', '.join(known[:_MOST_NAMES])}{more})")


def check_range(name: str, value: int, low: int, high: int, high_name: str = "") -> int:
    """Return ``value`` if it is an integer in ``[low, high]``, otherwise raise an InputError that says so.

    >>> check_range("group_size", 3, 1, 10)
    3
    """
    upper = f"{high_name}={high}" if high_name else f"{high}"
    if not low <= value <= high:
        raise InputError(f"{name} must be in [{low}, {upper}], got {value}")
    return value
