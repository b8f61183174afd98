"""Text sets whose users are clients: Reddit from the user's own file, and the Chit-Chat data set."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flcert.datasets.federation import Federation
from flcert.datasets.sources import read_files, titled
from flcert.datasets.text import TextOptions, next_words
from flcert.datasets.words import LIST_LENGTH, UNKNOWN, read_vocabulary, read_words_file, split
from flcert.errors import InputError


def reddit(
    path: Path,
    num_clients: int | None = None,
    context: int = 10,
    min_examples: int = 10,
    max_examples: int | None = 100,
    test_share: float = 0.1,
    num_root: int = 0,
    num_test: int | None = 10_000,
    num_words: int = 50_000,
    vocabulary: Path | None = None,
    vocabulary_sha256: str | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
) -> Federation:
    """Next-word prediction on a file with one ``{"user": ..., "text": ...}`` a line, plain or packed by gzip.

    An example is the ``context`` words before a position of a text, padded on the left with 0, and the word there. The
    first word of a text and words that are not in the vocabulary are in contexts, but no labels.

    Args:
        path: the file; a user's lines may be anywhere in it.
        num_clients: n, the first users by id that have enough examples; all of them by default.
        context: length of an input.
        min_examples: users with fewer examples are left out.
        max_examples: a user's later examples are left out, those of the test set included; None keeps all.
        test_share: of each user's examples, the last part, which no client holds.
        num_root: examples of the server's root set for FLTrust; if any, one user in fifty is the server's, no client.
        num_test: how many of the held-out examples are the test set, at most, a random choice; None for all.
        num_words: L, the vocabulary's entries; index 0 is padding and unknown words.
        vocabulary: a public list, one word a line, frequent ones first; by default that of ``flcert data get words``.
        vocabulary_sha256: the digest that your own list must have.
        seed: of these choices.
        data_dir: where ``flcert data get`` put the default vocabulary.
    """
    options = TextOptions(num_clients, context, min_examples, max_examples, test_share, num_root, num_test, seed)
    words, note = _vocabulary(vocabulary, vocabulary_sha256, num_words, data_dir)
    return next_words(titled("reddit", note), read_lines(path), words, options)


def chitchat(
    num_clients: int | None = None,
    context: int = 10,
    min_examples: int = 10,
    max_examples: int | None = None,
    test_share: float = 0.1,
    num_root: int = 0,
    num_test: int | None = 10_000,
    num_words: int = 50_000,
    vocabulary: Path | None = None,
    vocabulary_sha256: str | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    check: bool = True,
) -> Federation:
    """Next-word prediction on the messages of the Chit-Chat data set; a sender is a client.

    Args:
        num_clients: n, the first users by id that have enough examples; all of them by default.
        context: length of an input.
        min_examples: users with fewer examples are left out.
        max_examples: a user's later examples are left out, those of the test set included; None keeps all.
        test_share: of each user's examples, the last part, which no client holds.
        num_root: examples of the server's root set for FLTrust; if any, one user in fifty is the server's, no client.
        num_test: how many of the held-out examples are the test set, at most, a random choice; None for all.
        num_words: L, the vocabulary's entries; index 0 is padding and unknown words.
        vocabulary: a public list, one word a line, frequent ones first; by default that of ``flcert data get words``.
        vocabulary_sha256: the digest that your own list must have.
        seed: of these choices.
        data_dir: where ``flcert data get`` put the files; by default $FLCERT_DATA or the cache.
        check: False takes another file of the same layout; the federation's name then says "unchecked".
    """
    options = TextOptions(num_clients, context, min_examples, max_examples, test_share, num_root, num_test, seed)
    words, own_words = _vocabulary(vocabulary, vocabulary_sha256, num_words, data_dir)
    files, note = read_files("chitchat", data_dir, check)
    name = titled("chitchat", ", ".join(filter(None, [note, own_words])))
    return next_words(name, read_messages(files["dataset.json"]), words, options)


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """User and text of each line of a JSON-lines file."""
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _user_and_text(line, f"{path}, line {number}")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or cut short: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _user_and_text(line: bytes, where: str) -> tuple[str, str]:
    try:
        value = json.loads(line)
        user, text = value["user"], value["text"]
    except (ValueError, KeyError, TypeError, RecursionError):
        user = text = None
    if not isinstance(user, str) or not isinstance(text, str):
        raise InputError(f'{where} must be {{"user": "...", "text": "..."}}, got {line[:60]!r}')
    return user, text


def read_messages(content: bytes) -> Iterator[tuple[str, str]]:
    """Sender and text of each message of Chit-Chat: conversations by id, with turns, with messages."""
    try:
        for conversation in json.loads(content).values():
            for turn in conversation["messages"]:
                for message in turn:
                    yield str(message["sender"]), str(message["text"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"chitchat: dataset.json does not have the layout of Chit-Chat: {error}") from None


def indices(options: Mapping[str, Any], phrase: str, answer: str) -> tuple[list[int], int]:
    """The words of a phrase and an answer of one word, as indices in the vocabulary that a text set's options name."""
    place, data_dir = options.get("vocabulary"), options.get("data_dir")
    words, _ = _vocabulary(
        Path(place) if place else None,
        options.get("vocabulary_sha256"),
        options.get("num_words", LIST_LENGTH),
        Path(data_dir) if data_dir else None,
    )
    if answer not in words:
        raise InputError(f"the vocabulary must hold the backdoor's answer {answer!r}; raise num_words")
    return [words.get(word, UNKNOWN) for word in split(phrase)], words[answer]


def _vocabulary(
    path: Path | None, sha256: str | None, num_words: int, data_dir: Path | None
) -> tuple[dict[str, int], str]:
    """The index of each word, and a note that names the digest of a list that is not ours."""
    if path is None:
        if sha256 is not None:
            raise InputError("vocabulary_sha256 goes with vocabulary; the default list has a recorded digest")
        content, note = read_files("words", data_dir)[0]["words.txt"], ""
    else:
        content = read_words_file(path, sha256)
        note = f"vocabulary {hashlib.sha256(content).hexdigest()[:12]}"
    return read_vocabulary(content, str(path or "words.txt"), num_words), note
