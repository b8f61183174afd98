"""Next-word prediction: the examples of a user follow from the user's texts and the public vocabulary alone."""

import gzip
import hashlib

import numpy as np
import pytest

from flcert.datasets import load, words
from flcert.datasets.text import belongs_to_server, is_pilot
from flcert.errors import InputError
from tests import tinydata
from tests.tinydata import TEXTS, VOCABULARY

INDEX = {word: line for line, word in enumerate(VOCABULARY, start=1)}


@pytest.fixture
def options(tmp_path):
    return {
        "vocabulary": tinydata.write_words(tmp_path / "words.txt"),
        "num_words": 9,
        "context": 4,
        "min_examples": 3,
        "max_examples": None,
        "num_root": 0,
        "num_test": None,
    }


def reddit(tmp_path, options, texts=None, name="a.jsonl", **changes):
    return load("reddit", path=tinydata.write_lines(tmp_path / name, texts), **{**options, **changes})


def naive(user, texts=TEXTS, context=4):
    """All examples of a user, by the definition."""
    examples = []
    for writer, text in texts:
        indices = [INDEX.get(word, 0) for word in words.split(text)]
        for position in range(1, len(indices)):
            before = indices[max(0, position - context) : position]
            if writer == user and indices[position]:
                examples.append(([0] * (context - len(before)) + before, indices[position]))
    return examples


def as_pairs(inputs, labels):
    return list(zip(inputs.tolist(), labels.tolist(), strict=True))


def owned(federation):
    return {user: federation.client_digest(position) for position, user in enumerate(federation.ids)}


def test_words_and_marks_are_split_by_one_rule():
    assert words.split("Don’t SHOUT, it's 2024... ok_then?") == [
        "don't", "shout", ",", "it's", "0000", ".", ".", ".", "ok", "then", "?",
    ]  # fmt: skip
    assert words.split("  \n ") == []


def test_each_position_after_the_first_with_a_known_word_is_an_example(tmp_path, options):
    federation = reddit(tmp_path, options, test_share=0.2)
    assert federation.ids == ("ann", "bob", "cem")
    assert (federation.num_labels, federation.input_shape, federation.input_dtype) == (9, (4,), "int64")
    held_out = []
    for position, user in enumerate(federation.ids):
        expected = naive(user)
        train = len(expected) - int(np.ceil(len(expected) * 0.2))
        assert as_pairs(*federation.client(position)) == expected[:train]
        held_out += expected[train:]
    assert as_pairs(federation.test_inputs, federation.test_labels) == held_out


SERVER_S = next(user for user in map("user-{}".format, range(1000)) if belongs_to_server(user))


def test_the_root_set_comes_from_users_who_are_no_clients(tmp_path, options):
    own = [(SERVER_S, "you like tea and cake and coffee"), (SERVER_S, "i like cake")]
    without = reddit(tmp_path, options, [*TEXTS, *own])
    federation = reddit(tmp_path, options, [*TEXTS, *own], num_root=5)
    assert SERVER_S in without.ids
    assert federation.ids == ("ann", "bob", "cem")
    root = as_pairs(federation.root_inputs, federation.root_labels)
    assert len(root) == 5
    assert all(pair in naive(SERVER_S, own) for pair in root)
    # nothing that clients write reaches it: not their words, not how many they are
    changed = [(user, "cake " * 30 if user == "bob" else text) for user, text in TEXTS]
    other = reddit(tmp_path, options, [*changed, ("dan", "you like tea and cake"), *own], num_root=5)
    assert other.root_digest() == federation.root_digest()
    assert other.ids == ("ann", "bob", "cem", "dan")


PILOT = next(user for user in map("user-{}".format, range(1000)) if is_pilot(user))


PILOT_OF_100 = [42, 53, 72, 84]


def test_who_is_in_the_pilot():
    """Settings were chosen on these users, so the rule must not change."""
    assert [number for number in range(100) if is_pilot(f"user-{number}")] == PILOT_OF_100


def test_users_of_a_pilot_are_neither_clients_nor_in_the_test_set(tmp_path, options):
    texts = [*TEXTS, (PILOT, "you like tea and cake and coffee and tea and cake")]
    everybody = reddit(tmp_path, options, texts)
    without = reddit(tmp_path, options, texts, leave_out_pilot=True)
    assert PILOT in everybody.ids
    assert owned(without) == owned(reddit(tmp_path, options))
    assert without.test_digest() == reddit(tmp_path, options).test_digest()


def test_an_unknown_word_is_in_the_context_as_0_and_never_a_label(tmp_path, options):
    federation = reddit(tmp_path, options)
    cem = naive("cem")
    assert ([INDEX["i"], INDEX["and"], INDEX["you"], INDEX["like"]], 0) not in cem
    assert ([INDEX["and"], INDEX["you"], INDEX["like"], 0], INDEX["tea"]) in cem
    assert federation.labels.min() > 0
    assert federation.test_labels.min() > 0


def test_packed_lines_and_chitchat_give_the_same_examples(tmp_path, options):
    plain, packed = reddit(tmp_path, options), reddit(tmp_path, options, name="a.jsonl.gz")
    assert plain.digest() == packed.digest()
    tinydata.write_chitchat(tmp_path)
    chat = load("chitchat", data_dir=tmp_path, check=False, **options)
    assert owned(chat) == owned(plain)
    digest = hashlib.sha256(options["vocabulary"].read_bytes()).hexdigest()[:12]
    assert chat.name == f"chitchat (unchecked, vocabulary {digest})"
    assert plain.name == f"reddit (vocabulary {digest})"


def test_no_client_changes_what_another_holds(tmp_path, options):
    """The vocabulary is public: new words, new users and other orders leave all other users as they are."""
    before = owned(reddit(tmp_path, options))
    strange = " ".join(f"word{number} tea" for number in range(500))
    added = owned(reddit(tmp_path, options, [("abe", strange), *TEXTS, ("zoe", "you like tea and cake")]))
    assert {user: added[user] for user in before} == before
    assert set(added) == {*before, "abe", "zoe"}
    changed = owned(reddit(tmp_path, options, [(user, strange if user == "bob" else text) for user, text in TEXTS]))
    assert changed.pop("bob") != before["bob"]
    assert changed == {user: digest for user, digest in before.items() if user != "bob"}
    backwards = sorted(TEXTS, key=lambda pair: pair[0], reverse=True)  # a user's own texts keep their order
    assert list(owned(reddit(tmp_path, options, backwards)).items()) == list(before.items())
    assert reddit(tmp_path, options, backwards, num_clients=1).ids == ("ann",)


def test_the_indices_are_the_lines_of_the_public_file(tmp_path, options):
    other = tinydata.write_words(tmp_path / "other.txt", VOCABULARY[::-1])
    assert owned(reddit(tmp_path, options)) != owned(reddit(tmp_path, options, vocabulary=other))
    small = reddit(tmp_path, options, num_words=4)  # i, you, like
    assert small.num_labels == 4
    assert max(small.labels.max(), small.inputs.max()) == 3


def test_users_and_examples_can_be_limited(tmp_path, options):
    everything = reddit(tmp_path, options, test_share=0.25)
    limited = reddit(tmp_path, options, test_share=0.25, max_examples=8, num_clients=2, num_test=3)
    assert limited.ids == ("ann", "bob")
    for position, user in enumerate(limited.ids):
        assert as_pairs(*limited.client(position)) == naive(user)[:6]
    assert len(limited.test_labels) == 3
    assert reddit(tmp_path, options, min_examples=len(naive("bob"))).ids == ("bob",)
    assert everything.num_clients == 3


def test_a_seeded_choice_of_test_examples(tmp_path, options):
    first, again, other = (reddit(tmp_path, options, test_share=0.5, num_test=5, seed=seed) for seed in (0, 0, 1))
    assert first.digest() == again.digest()
    assert first.test_digest() != other.test_digest()
    assert owned(first) == owned(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_clients": 4}, r"num_clients must be in \[1, number of users with min_examples=3 examples=3\], got 4"),
        ({"num_clients": 0}, r"num_clients must be in \[1, .*\], got 0"),
        ({"min_examples": 1000}, r"no user has min_examples=1000 examples; the largest has \d+"),
        ({"min_examples": 1}, r"min_examples must be in \[2, .*\], got 1"),
        ({"min_examples": 9, "max_examples": 8}, r"min_examples must be in \[2, max_examples=8\], got 9"),
        ({"test_share": 1.0}, r"test_share must be between 0 and 1, got 1.0"),
        ({"context": 0}, r"context must be in \[1, 1000\], got 0"),
        ({"num_test": 0}, r"num_test must be in \[1, .*\], got 0"),
        ({"num_root": 1000}, r"num_root must be in \[0, examples of the server's users=0\], got 1000"),
        ({"num_words": 10}, r"num_words must be in \[2, words of .*words.txt and one=9\], got 10"),
        ({"vocabulary": None, "vocabulary_sha256": "00"}, r"vocabulary_sha256 goes with vocabulary"),
    ],
)
def test_text_options_out_of_range_are_refused(changes, message, tmp_path, options):
    with pytest.raises(InputError, match=message):
        reddit(tmp_path, options, **changes)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"{", "'{"),
        (b'{"user": "ann"}', "ann"),
        (b'{"user": 3, "text": "a"}', "user"),
        (b"[1]", "1"),
        (b"\xff\xfe", "xff"),
    ],
)
def test_a_line_that_is_not_user_and_text_is_named(line, what, tmp_path, options):
    path = tinydata.write_lines(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=rf'a.jsonl, line 6 must be \{{"user": "...", "text": "..."\}}, got .*{what}'):
        load("reddit", path=path, **options)


def test_a_cut_or_missing_file_is_refused(tmp_path, options):
    path = tinydata.write_lines(tmp_path / "a.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"a.jsonl.gz is damaged or cut short"):
        load("reddit", path=path, **options)
    with pytest.raises(InputError, match=r"cannot read .*nowhere.jsonl: No such file"):
        load("reddit", path=tmp_path / "nowhere.jsonl", **options)
    (tmp_path / "chitchat").mkdir()
    (tmp_path / "chitchat" / "dataset.json").write_text('{"a": {"messages": [[{"text": "hi"}]]}}')
    with pytest.raises(InputError, match=r"dataset.json does not have the layout of Chit-Chat: 'sender'"):
        load("chitchat", data_dir=tmp_path, check=False, **options)


def test_a_vocabulary_that_is_not_a_list_of_words_is_refused(tmp_path, options):
    bad = tmp_path / "bad.txt"
    for content, message in (
        (b"tea\ntea\n", "must hold each word once, got 1 repeated"),
        (b"tea\nCake\n", "must hold one lower-case word a line, got 'Cake' in line 2"),
        (b"tea\n\n", "must hold one lower-case word a line, got '' in line 2"),
        (b"\xff\n\xff\n", "must be UTF-8 text"),
    ):
        bad.write_bytes(content)
        with pytest.raises(InputError, match=message):
            reddit(tmp_path, options, vocabulary=bad, num_words=3)


def test_a_vocabulary_must_have_the_digest_that_is_given(tmp_path, options):
    digest = hashlib.sha256(options["vocabulary"].read_bytes()).hexdigest()
    assert reddit(tmp_path, options, vocabulary_sha256=digest).num_clients == 3
    with pytest.raises(InputError, match=rf"must have the SHA-256 00, got {digest}"):
        reddit(tmp_path, options, vocabulary_sha256="00")


def test_the_default_vocabulary_is_made_from_wordfreq_s_format():
    def string(text):
        raw = text.encode()
        return (bytes([0xA0 + len(raw)]) if len(raw) < 32 else bytes([0xD9, len(raw)])) + raw

    header = b"\x82" + string("format") + string("cB") + string("version") + b"\x01"
    lists = (
        b"\x90" + b"\x92" + string("the") + string("to") + b"\xdc\x00\x01" + string("u.s") + b"\x91" + string("a" * 40)
    )
    made = words.from_wordfreq(gzip.compress(b"\xdc\x00\x05" + header + lists))
    assert made.decode().splitlines() == [*words.MARKS, "the", "to", "a" * 40]


def test_many_users_fit_into_flat_arrays(tmp_path, options):
    texts = [(f"user{number:05d}", "you like tea and cake and coffee .") for number in range(8000)]
    federation = reddit(tmp_path, options, texts)
    assert federation.num_clients == 8000
    assert federation.inputs.shape == (8000 * 6, 4)
