"""Tables from anywhere: votes, counts, labels and inputs in npy or CSV files. Nothing is ever unpickled."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcert.core.files import size_of_file
from flcert.errors import InputError, one_line
from flcert.voting.counting import NO_VOTE

Rows = Literal["groups", "inputs"]


def read_votes(path: Path, rows: Rows | None = None) -> NDArray[np.int64]:
    """Votes as (groups x inputs).

    Args:
        path: an npy or CSV file of labels; -1 or an empty cell where a group casts no vote.
        rows: what a row of the file is. By default a row of an npy file is a group, as in a run's votes.npy, and a row
            of a CSV file is an input.
    """
    table = _integers(path, "votes", _vote_cell)
    by_group = (rows or ("groups" if path.suffix == ".npy" else "inputs")) == "groups"
    return table if by_group else table.T


def read_counts(path: Path) -> NDArray[np.int64]:
    """Vote counts as (inputs x labels), from an npy or CSV file."""
    return _integers(path, "counts", _whole_number)


def read_labels(path: Path) -> NDArray[np.int64]:
    """One label for each input, from an npy file with one dimension or a CSV file with one column or row."""
    if path.suffix == ".npy":
        labels = load_npy(path)
    else:
        labels = _csv_table(path, _whole_number)
        if 1 not in labels.shape:
            raise InputError(f"{path} must have one label a line, got {labels.shape[1]} columns")
        labels = labels.reshape(-1)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"{path} must hold one integer label for each input, got {labels.dtype} of shape {labels.shape}"
        )
    if len(labels) and int(labels.min()) < 0:
        raise InputError(f"{path}: labels must be at least 0, got {int(labels.min())}")
    return labels.astype(np.int64)


def read_inputs(path: Path) -> NDArray[np.generic]:
    """Inputs to predict: an npy file (inputs x input shape), or a CSV file with one flattened input per line."""
    return load_npy(path) if path.suffix == ".npy" else _csv_table(path, float)


def load_npy(path: Path) -> NDArray[np.generic]:
    """The array in an npy file."""
    size_of_file(path)
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # a stranger's bytes may make numpy raise anything
        raise InputError(f"{path} cannot be read as npy: {one_line(str(error))}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} holds several arrays; an npy file with one is needed")
    return array


def _integers(path: Path, what: str, cell: Callable[[str], int]) -> NDArray[np.int64]:
    table = load_npy(path) if path.suffix == ".npy" else _csv_table(path, cell)
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"{path} must hold a table of {what}, got shape {table.shape}")
    if not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"{path}: {what} must be integers, got dtype {table.dtype}")
    if int(table.min()) < NO_VOTE or int(table.max()) >= 2**31:
        raise InputError(
            f"{path}: {what} must be in [{NO_VOTE}, 2**31 - 1], got {int(table.min())} to {int(table.max())}"
        )
    return table.astype(np.int64)


def _vote_cell(text: str) -> int:
    return _whole_number(text) if text.strip() else NO_VOTE


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
        raise ValueError(f"{text[:30]!r} is not a whole number of at most 18 digits")
    return int(text)


def _csv_table(path: Path, cell: Callable[[str], float]) -> NDArray[np.generic]:
    """All rows of a CSV file without its header, if it has one; every row must be as long as the first."""
    try:
        if path.is_char_device() or path.is_block_device():
            raise InputError(f"{path} must be a file, got a device")
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, line) for number, line in enumerate(csv.reader(file), 1) if line]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file: {error}") from None
    if not lines:
        raise InputError(f"{path} is empty")
    if _is_header(lines[0][1]):
        lines = lines[1:]
    if not lines:
        raise InputError(f"{path} has a line of names and no rows")
    return np.array([_parsed(path, number, line, len(lines[0][1]), cell) for number, line in lines])


def _is_header(cells: list[str]) -> bool:
    """Whether a first line holds names and no numbers; an empty cell is a missing value."""
    named = [text for text in cells if text.strip()]
    return bool(named) and not any(_is_number(text) for text in named)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(path: Path, number: int, line: list[str], width: int, cell: Callable[[str], float]) -> list[float]:
    if len(line) != width:
        raise InputError(f"{path}, line {number}: every line must have {width} cells, got {len(line)}")
    try:
        return [cell(text) for text in line]
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {error}") from None
