"""Next-word prediction: from (user, text) pairs to a federation, in flat arrays.

A user's arrays depend only on that user's own texts and on the public vocabulary.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from flcert.core.digest import keyed_number
from flcert.core.seeding import stream
from flcert.datasets.dataset import Options
from flcert.datasets.federation import Federation
from flcert.datasets.words import LIST_LENGTH, UNKNOWN, split
from flcert.errors import InputError, check_range

Indices = NDArray[np.int64]


class TextOptions(Options):
    """Options of the text sets.

    Args:
        num_clients: n, the first users by id that have enough examples; all of them by default.
        context: how many words before a position are its input.
        min_examples: users with fewer examples are left out.
        max_examples: the most examples of a user, test examples included; later ones are left out. None keeps all.
        test_share: the last part of each user's examples, which no client holds.
        num_root: examples of the server's root set for FLTrust; if any, one user in fifty belongs to the server and is
            not a client (``belongs_to_server``).
        leave_out_pilot: leave out the users on whose texts settings were chosen (``is_pilot``), test examples included.
        num_test: the most held-out examples to use as the test set, chosen at random; None for all.
        num_words: L, the vocabulary's entries; index 0 is padding and unknown words.
        vocabulary: a public list, one word per line, frequent ones first; by default that of ``flcert data get words``.
        vocabulary_sha256: the digest that your own list must have.
        seed: the seed of these choices.
        data_dir: where ``flcert data get`` put the files; by default $FLCERT_DATA or the cache.
    """

    num_clients: int | None = None
    context: int = 10
    min_examples: int = 10
    max_examples: int | None = None
    test_share: float = 0.1
    num_root: int = 0
    leave_out_pilot: bool = False
    num_test: int | None = 10_000
    num_words: int = LIST_LENGTH
    vocabulary: Path | None = None
    vocabulary_sha256: str | None = None
    seed: int = 0
    data_dir: Path | None = None

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        check_range("context", self.context, 1, 1000)
        check_range("min_examples", self.min_examples, 2, self.max_examples or 2**31, "max_examples")
        if not 0 < self.test_share < 1:
            raise InputError(f"test_share must be between 0 and 1, got {self.test_share}")
        if self.num_test is not None:
            check_range("num_test", self.num_test, 1, 2**31)
        return self


@dataclass(frozen=True)
class Corpus:
    """Texts as word indices in one array, in order of user id and then of appearance.

    Args:
        users: their ids, ascending.
        words: the index of each word of all texts.
        starts: for each word, the position of the first word of its text.
        owners: for each word, the position of its user.
    """

    users: list[str]
    words: NDArray[np.int32]
    starts: Indices
    owners: NDArray[np.int32]


def next_words(
    name: str, texts: Iterable[tuple[str, str]], vocabulary: Mapping[str, int], options: TextOptions
) -> Federation:
    """The federation of these users: an example is the words before a position of a text, and the next word.

    Args:
        name: what to call it.
        texts: pairs of user and text, in any order; each user's texts keep their order.
        vocabulary: word to index, from 1.
        options: how texts become examples; the vocabulary options are not read here.
    """
    corpus = read_corpus(texts, vocabulary, options.max_examples)
    ids, train, test = _split(corpus, options)
    root = _root(corpus, options)
    if options.num_test is not None:
        test = np.sort(stream(options.seed, "data", "num_test").permutation(test)[: options.num_test])
    labels = corpus.words.astype(np.int64)
    sizes = np.bincount(corpus.owners[train], minlength=len(corpus.users))
    return Federation(
        name=name,
        ids=ids,
        inputs=contexts(corpus, train, options.context),
        labels=labels[train],
        offsets=np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64),
        test_inputs=contexts(corpus, test, options.context),
        test_labels=labels[test],
        test_owners=tuple(corpus.users[owner] for owner in corpus.owners[test]),
        num_labels=len(vocabulary) + 1,
        root_inputs=contexts(corpus, root, options.context),
        root_labels=labels[root],
        label_names=("…", *vocabulary),
    )


def read_corpus(
    texts: Iterable[tuple[str, str]], vocabulary: Mapping[str, int], max_examples: int | None = None
) -> Corpus:
    """All texts as indices; a user's words after ``max_examples`` examples are not kept."""
    numbers: dict[str, int] = {}
    examples, words, lengths, writers = array("q"), array("i"), array("i"), array("i")
    limit = max_examples or 2**62
    for user, text in texts:
        number = numbers.setdefault(user, len(numbers))
        if number == len(examples):
            examples.append(0)
        if examples[number] >= limit:
            continue
        indices = [vocabulary.get(word, UNKNOWN) for word in split(text)]
        if len(indices) > 1:
            examples[number] += len(indices) - 1 - indices[1:].count(UNKNOWN)
            words.extend(indices)
            lengths.append(len(indices))
            writers.append(number)
    return _in_order(numbers, np.array(words, np.int32), np.array(lengths, np.int64), np.array(writers, np.int32))


def _in_order(
    numbers: Mapping[str, int], words: NDArray[np.int32], lengths: Indices, writers: NDArray[np.int32]
) -> Corpus:
    """The corpus in order of user id, from texts in order of appearance."""
    users = sorted(numbers)
    rank = np.empty(len(users), dtype=np.int32)
    rank[[numbers[user] for user in users]] = np.arange(len(users), dtype=np.int32)
    order = np.argsort(rank[writers], kind="stable")
    ends = np.cumsum(lengths)
    sorted_lengths = lengths[order]
    sorted_starts = np.cumsum(sorted_lengths) - sorted_lengths
    moved = np.repeat((ends - lengths)[order] - sorted_starts, sorted_lengths)
    moved += np.arange(len(words))
    return Corpus(
        users,
        words[moved],
        np.repeat(sorted_starts, sorted_lengths),
        np.repeat(rank[writers][order], sorted_lengths),
    )


def contexts(corpus: Corpus, positions: Indices, context: int) -> Indices:
    """For each position the ``context`` words before it in its own text, padded on the left with 0."""
    inputs = np.zeros((len(positions), context), dtype=np.int64)
    starts = corpus.starts[positions]
    for back in range(1, context + 1):
        before = positions - back
        inside = before >= starts
        inputs[inside, context - back] = corpus.words[before[inside]]
    return inputs


def _split(corpus: Corpus, options: TextOptions) -> tuple[tuple[str, ...], Indices, Indices]:
    """The chosen users, and the positions of their training and test examples."""
    positions = _examples(corpus)
    owners = corpus.owners[positions]
    sizes = np.bincount(owners, minlength=len(corpus.users))
    rank = np.arange(len(positions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # of an example among its user's
    sizes = np.minimum(sizes, options.max_examples or len(positions))
    held_out = np.ceil(sizes * options.test_share).astype(np.int64)
    trainable = sizes - held_out >= 1
    if options.num_root:
        trainable &= ~np.array([belongs_to_server(user) for user in corpus.users], dtype=np.bool_)
    if options.leave_out_pilot:
        trainable &= ~np.array([is_pilot(user) for user in corpus.users], dtype=np.bool_)
    chosen = _chosen_users(trainable, sizes, options)
    kept = chosen[owners] & (rank < sizes[owners])
    training = rank < (sizes - held_out)[owners]
    ids = tuple(corpus.users[position] for position in np.flatnonzero(chosen))
    return ids, positions[kept & training], positions[kept & ~training]


def belongs_to_server(user: str) -> bool:
    """Whether a user's texts belong to the server: one user in fifty, by a hash of the id.

    Such a user is not a client, so nothing that clients write reaches the root set, which all groups share.
    """
    return keyed_number(user, "root set") % 50 == 0


def is_pilot(user: str) -> bool:
    """Whether settings may be chosen on a user's texts: one user in twenty, by a hash of the id.

    A setting that was chosen by looking at a client's data is not public. So these users are no clients where settings
    were chosen on them.
    """
    return keyed_number(user, "pilot") % 20 == 0


def _root(corpus: Corpus, options: TextOptions) -> Indices:
    """The positions of the server's examples."""
    owned = np.array([belongs_to_server(user) for user in corpus.users], dtype=np.bool_)
    positions = _examples(corpus)
    pool = positions[owned[corpus.owners[positions]]]
    check_range("num_root", options.num_root, 0, len(pool), "examples of the server's users")
    return stream(options.seed, "data", "root").permutation(pool)[: options.num_root]


def _examples(corpus: Corpus) -> Indices:
    """Positions that are examples: not the first of their text, and a word of the vocabulary."""
    return np.flatnonzero((corpus.words != UNKNOWN) & (corpus.starts < np.arange(len(corpus.words))))


def _chosen_users(trainable: NDArray[np.bool_], sizes: Indices, options: TextOptions) -> NDArray[np.bool_]:
    """The users that take part: the first ``num_clients`` users, by id, of those with enough examples."""
    enough = trainable & (sizes >= options.min_examples)
    what = f"number of users with min_examples={options.min_examples} examples"
    if options.num_clients is None and not enough.any():
        raise InputError(
            f"no user has min_examples={options.min_examples} examples; the largest has {sizes.max(initial=0)}"
        )
    if options.num_clients is not None:
        check_range("num_clients", options.num_clients, 1, int(enough.sum()), what)
        enough[np.flatnonzero(enough)[options.num_clients :]] = False
    return enough
