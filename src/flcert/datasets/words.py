"""Words of a text, and the public list that gives each word its index.

The list never comes from clients' data. If it did, one client could shift the index of every word, or push words
out of the list, and so change the models of groups that it is not in: the theorem would not hold.
"""

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from flcert.datasets.catalogue import LARGEST, Origin, Source
from flcert.datasets.fetch import unpacked
from flcert.errors import InputError, check_range

UNKNOWN = 0  # the index of padding and of every word that is not in the list

LIST_LENGTH = 50_000
MARKS = ".,?!'\"-:;()"

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[^\w\s]")
_LONG_NUMBER = re.compile(r"\d\d+")


def split(text: str) -> list[str]:
    """Words and punctuation marks of a text, in lower case; each digit of a multi-digit number becomes 0.

    >>> split("Don't wait, it's 2024!")
    ["don't", 'wait', ',', "it's", '0000', '!']
    """
    plain = text.lower().replace("’", "'")
    return _TOKEN.findall(_LONG_NUMBER.sub(lambda number: "0" * len(number[0]), plain))


def read_vocabulary(content: bytes, where: str, num_words: int) -> dict[str, int]:
    """The index of each word: the word on line i has index i, and index 0 stands for all others.

    Args:
        content: one word per line, the most frequent first.
        where: what to call the list in messages.
        num_words: entries, index 0 included; the words after line num_words - 1 are left out.
    """
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} must be UTF-8 text: {error}") from None
    check_range("num_words", num_words, 2, len(lines) + 1, f"words of {where} and one")
    words = {word: line for line, word in enumerate(lines[: num_words - 1], start=1)}
    if len(words) != num_words - 1:
        raise InputError(f"{where} must hold each word once, got {num_words - 1 - len(words)} repeated")
    for word, line in words.items():
        if split(word) != [word]:
            raise InputError(f"{where} must hold one lower-case word a line, got {word!r} in line {line}")
    return words


def read_words_file(path: Path, sha256: str | None) -> bytes:
    """A user's own list of words, checked against its digest if one is given."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the vocabulary {path}: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256.lower():
        raise InputError(f"the vocabulary {path} must have the SHA-256 {sha256}, got {found}")
    return content


def from_wordfreq(packed: bytes) -> bytes:
    """Our list of words, made from wordfreq's English list: punctuation marks first, then words by frequency."""
    entries = islice(_strings(unpacked(packed, LARGEST)), 3, None)  # the first three name the format
    words = (word for word in entries if split(word) == [word])
    unique = dict.fromkeys([*MARKS, *islice(words, LIST_LENGTH)])
    return "".join(f"{word}\n" for word in islice(unique, LIST_LENGTH)).encode()


def _strings(raw: bytes) -> Iterator[str]:
    """All strings of a MessagePack file that holds nested lists of strings after a small map as its header."""
    at = 0
    while at < len(raw):
        kind = raw[at]
        length = 0
        if kind in (0xDC, 0xDD):  # a list; its length takes 2 or 4 bytes
            at += 2 if kind == 0xDC else 4
        elif 0xA0 <= kind <= 0xBF or kind == 0xD9:  # a string; its length is in the low bits, or in the next byte
            length, at = (raw[at + 1], at + 1) if kind == 0xD9 else (kind & 0x1F, at)
            yield raw[at + 1 : at + 1 + length].decode()
        elif kind > 0x9F:
            raise InputError(f"byte {at} of the word list starts neither a list nor a string: {kind:#x}")
        at += 1 + length


WORDS = Source(
    name="words",
    title="50,000 frequent English words, the vocabulary of the text sets (from wordfreq)",
    licence="CC BY-SA 4.0",
    files={"words.txt": {"4e99500d6574b9207114485cc3bd2b72dd9b84cb18686bc2d8da0ed7a4d72eea": ""}},
    origins=(Origin("pip", "wordfreq==3.1.1", "wordfreq/data/large_en.msgpack.gz", from_wordfreq),),
)
