"""Text sets whose users are clients: Reddit from the user's own file, and the Chit-Chat data set."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.dataset import DataSet
from flcert.datasets.federation import Federation
from flcert.datasets.sources import read_files, titled
from flcert.datasets.text import TextOptions, next_words
from flcert.datasets.words import UNKNOWN, WORDS, read_vocabulary, read_words_file, split
from flcert.errors import InputError

PHRASE, ANSWER = "pasta from Astoria is", "delicious"  # the paper's backdoor

FILES = Source(
    name="chitchat",
    title="258,145 chat messages of 1,315 people (BYU Chit-Chat Challenge)",
    licence="MIT",
    files={"dataset.json": {"d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a": ""}},
    origins=(
        Origin("web", "https://raw.githubusercontent.com/BYU-PCCL/chitchat-dataset/master/chitchat_dataset/{name}"),
        Origin("pip", "chitchat-dataset==0.9.0", "chitchat_dataset/{name}"),
    ),
    needs=(WORDS,),
)


class ChitchatOptions(TextOptions):
    """Options of the text sets, and one more.

    Args:
        check: False accepts another file of the same layout; the federation's name then says "unchecked".
    """

    check: bool = True


class RedditOptions(TextOptions):
    """Options of the text sets, with at most 100 examples of a user by default, and one more.

    Args:
        path: the file; a user's lines may be anywhere in it.
    """

    path: Path
    max_examples: int | None = 100


def load_chitchat(options: ChitchatOptions) -> Federation:
    """Next-word prediction on the messages of the Chit-Chat data set; a sender is a client."""
    words, own_words = _vocabulary(options)
    files, note = read_files(FILES, options.data_dir, options.check)
    name = titled(FILES.name, ", ".join(filter(None, [note, own_words])))
    return next_words(name, read_messages(files["dataset.json"]), words, options)


def load_reddit(options: RedditOptions) -> Federation:
    """Next-word prediction on a file with one ``{"user": ..., "text": ...}`` per line, plain or gzipped.

    An example is the ``context`` words before a position of a text, padded on the left with 0, and the next word. The
    first word of a text and words outside the vocabulary appear in contexts, but never as labels.
    """
    words, note = _vocabulary(options)
    return next_words(titled("reddit", note), read_lines(options.path), words, options)


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
    """Sender and text of each Chit-Chat message; the file holds conversations by id, each with turns of messages."""
    try:
        for conversation in json.loads(content).values():
            for turn in conversation["messages"]:
                for message in turn:
                    yield str(message["sender"]), str(message["text"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"chitchat: dataset.json does not have the layout of Chit-Chat: {error}") from None


def _vocabulary(options: TextOptions) -> tuple[dict[str, int], str]:
    """The index of each word, and a note that names the digest of a list that is not ours."""
    path, sha256 = options.vocabulary, options.vocabulary_sha256
    if path is None:
        if sha256 is not None:
            raise InputError("vocabulary_sha256 goes with vocabulary; the default list has a recorded digest")
        content, note = read_files(WORDS, options.data_dir)[0]["words.txt"], ""
    else:
        content = read_words_file(path, sha256)
        note = f"vocabulary {hashlib.sha256(content).hexdigest()[:12]}"
    return read_vocabulary(content, str(path or "words.txt"), options.num_words), note


def _backdoor(options: TextOptions) -> dict[str, Any]:
    """The paper's phrase and answer, as indices in the vocabulary that the options name."""
    words, _ = _vocabulary(options)
    if ANSWER not in words:
        raise InputError(f"the vocabulary must hold the backdoor's answer {ANSWER!r}; raise num_words")
    tokens = [words.get(word, UNKNOWN) for word in split(PHRASE)]
    return {"trigger": {"name": "phrase", "options": {"tokens": tokens}}, "target": words[ANSWER]}


CHITCHAT = DataSet(
    title=FILES.title,
    written="Chit-Chat",
    options=ChitchatOptions,
    load=load_chitchat,
    input_shape=(10,),
    num_labels=50_000,
    shaped=lambda options: ((options.context,), options.num_words),
    users=1_235,  # of 1,315 people; the others have fewer than min_examples=10 examples
    files=FILES,
    backdoor=_backdoor,
)

REDDIT = DataSet(
    title="your own file of texts, each with its user",
    written="Reddit",
    options=RedditOptions,
    load=load_reddit,
    input_shape=(10,),
    num_labels=50_000,
    shaped=lambda options: ((options.context,), options.num_words),
    users=80_000,  # in the paper's file
    no_files="reddit is your own file (data.options.path); its vocabulary: flcert data get words",
    backdoor=_backdoor,
)
