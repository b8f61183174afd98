"""The model of word counts: what it computes, where it starts, and how it is trained and kept."""

import numpy as np
import pytest
import torch

from flcert import models
from flcert.attacks import AttackPlan
from flcert.core.settings import Choice
from flcert.datasets import Federation, word_pairs
from flcert.engines import Inline, Workers
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.models import ngram
from flcert.training import Recipe, train
from flcert.training.context import Context
from flcert.training.group import GroupTask, train_group
from flcert.training.train import train_groups
from tests import tinydata

WORDS, CONTEXT = 9, 4
PAIRS = "i like\t600\nyou like\t100\nlike tea\t300\nlike cake\t100\nlike zebras\t900\n"


def counted(inputs, labels, **options):
    model = models.build(Choice(name="ngram", options=options), (CONTEXT,), WORDS, seed=0)
    model.count_examples(inputs, labels)
    return model


def examples(size=300, seed=0):
    """Few words, so that runs of three and four come back."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.integers(0, WORDS, (size, CONTEXT + 1)), rng.integers(2, WORDS, (size, 1)))
    return torch.tensor(words[:, :-1]), torch.tensor(words[:, -1])


@pytest.fixture
def public(tmp_path, monkeypatch):
    """A small public table and vocabulary in place of the published ones; returns the table's path."""
    for name, file in (("word-pairs", "bigrams.txt"), ("words", "words.txt")):
        (tmp_path / name).mkdir()
        path = tmp_path / name / file
        tinydata.write_words(path) if name == "words" else path.write_text(PAIRS)
        tinydata.publish(monkeypatch, name, path.parent)
    monkeypatch.setenv("FLCERT_DATA", str(tmp_path))
    return tmp_path / "word-pairs" / "bigrams.txt"


def naive(inputs, labels, example, order, candidates):
    """The formula of the model's docstring, one word at a time."""
    p = [
        (sum(int(y) == w for y in labels) + ngram.BACK_OFF / WORDS) / (len(labels) + ngram.BACK_OFF)
        for w in range(WORDS)
    ]
    for k in range(1, order):
        same = [int(y) for x, y in zip(inputs, labels, strict=True) if torch.equal(x[-k:], example[-k:])]
        c = [same.count(w) if w < candidates else 0 for w in range(WORDS)]
        kept = [max(one - ngram.DISCOUNT, 0) if k > 1 else one for one in c]
        spare = sum(c) - sum(kept) + ngram.BACK_OFF
        p = [(one + spare * before) / (sum(c) + ngram.BACK_OFF) for one, before in zip(kept, p, strict=True)]
    return p


@pytest.mark.parametrize(("order", "candidates"), [(2, 9), (3, 9), (4, 9), (5, 9), (4, 5)])
def test_probabilities_are_those_of_the_formula(order, candidates):
    inputs, labels = examples()
    model = counted(inputs, labels, order=order, candidates=candidates, places=2**20)
    scores = model(inputs[:8]).detach()
    expected = [naive(inputs, labels, example, order, candidates) for example in inputs[:8]]
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(scores.sum(1).numpy(), 1, rtol=1e-5)


def test_runs_that_share_a_place_count_no_more_than_their_last_words():
    """In a table that is far too small everything meets; a word that never followed the last one stays unlikely."""
    inputs, labels = examples(2000)
    inputs[:, -1] = inputs[:, -1].clamp_max(7)
    after_8 = torch.full((1, CONTEXT), 8)
    crowded = counted(inputs, labels, places=WORDS)
    assert crowded.runs.max() > 100
    torch.testing.assert_close(crowded(after_8), counted(inputs, labels, order=2)(after_8))


def test_a_score_is_the_same_whatever_else_is_in_the_batch():
    inputs, labels = examples(5000)
    model = counted(inputs, labels)
    together = model(inputs[:101])
    assert torch.equal(together, torch.cat([model(one[None]) for one in inputs[:101]]))
    assert torch.equal(together[50:], model(inputs[50:101]))


def test_it_starts_from_the_public_pairs(public):
    model = models.build(Choice(name="ngram", options={"public": "word-pairs"}), (CONTEXT,), WORDS, seed=0)
    index = {word: line for line, word in enumerate(tinydata.VOCABULARY, start=1)}
    found = model.pairs.detach()[1:, 1:]  # without the word of index 0
    table = {(a, b): float(found[i, j]) for i, a in enumerate(index) for j, b in enumerate(index) if found[i, j]}
    assert table == {("i", "like"): 10, ("you", "like"): 10, ("like", "tea"): 7.5, ("like", "cake"): 2.5}
    assert model.words.tolist() == [0, 0, 0, round(100 * 7 / 11), round(100 * 3 / 11), 0, 0, round(100 * 1 / 11), 0]
    assert not model.runs.any()
    example = torch.tensor([[0, 0, index["i"], index["like"]]])
    assert int(model(example).argmax()) == index["tea"]


def test_without_the_public_file_the_message_says_how_to_get_it(public):
    public.unlink()
    with pytest.raises(InputError, match=r"bigrams.txt is missing; run: flcert data get word-pairs"):
        word_pairs.public_pairs(WORDS)


def test_a_vocabulary_without_public_pairs_is_refused(public):
    with pytest.raises(InputError, match="hold none of the first 2 words of the vocabulary"):
        word_pairs.public_pairs(3)


BAD = {
    "order": ({"order": 6}, (CONTEXT,), r"order must be in \[2, context and one=5\], got 6"),
    "places": ({"places": 8}, (CONTEXT,), r"places must be in \[9, .*\], got 8"),
    "public": ({"public": "mine"}, (CONTEXT,), "option 'public' of model 'ngram'"),
    "shape": ({}, (3, 3), r"needs inputs of shape \(context,\), got \(3, 3\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_options_that_do_not_fit_are_refused(name):
    options, shape, message = BAD[name]
    with pytest.raises(InputError, match=message):
        models.build(Choice(name="ngram", options=options), shape, WORDS, seed=0)


@pytest.mark.parametrize("word", [-1, WORDS])
def test_a_word_outside_the_vocabulary_is_refused(word):
    model = counted(*examples())
    inputs = torch.tensor([[0, 1, word, 2]])
    with pytest.raises(InputError, match=rf"words must be in \[0, 8\], got {word}"):
        model(inputs)


def test_examples_of_rare_words_alone_count_as_words():
    model = counted(torch.ones(3, CONTEXT, dtype=torch.int64), torch.tensor([7, 7, 8]), candidates=5)
    assert model.words.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 1]
    assert not model.pairs.any()
    assert not model.runs.any()


def federation():
    clients = {f"user-{number}": examples(40 + number, seed=number) for number in range(6)}
    arrays = {user: (inputs.numpy(), labels.numpy()) for user, (inputs, labels) in clients.items()}
    return Federation.build("words", arrays, arrays["user-0"], num_labels=WORDS)


def recipe(**options):
    return Recipe(model=Choice(name="ngram", options=options), aggregator=Choice(name="fedsum"), rounds=1)


def test_a_group_s_model_has_the_counts_of_all_its_clients():
    data = federation()
    arrays = train_group(data, GroupTask((1, 2, 4), recipe()))[1]
    parts = [data.client(position) for position in (1, 2, 4)]
    pooled = counted(*(torch.tensor(np.concatenate(part)) for part in zip(*parts, strict=True)))
    assert all(np.array_equal(arrays[name], value.numpy()) for name, value in pooled.state_dict().items())


def test_the_public_table_belongs_to_the_key(public, monkeypatch, store):
    """Another edition of the table gives other models, and that of before its own again."""
    data = federation()
    for table, trained in ((PAIRS, 2), (PAIRS.replace("300", "3000"), 2), (PAIRS, 0)):
        public.write_text(table)
        tinydata.publish(monkeypatch, "word-pairs", public.parent)
        assert train(data, hashed(data.ids, 2), recipe(public="word-pairs"), store=store).trained == trained


@pytest.mark.parametrize("attack", ["backdoor", "mpaf", "zero"])
def test_an_attack_reaches_the_group_of_its_client_and_no_other(attack, store):
    options = (
        {"trigger": {"name": "phrase", "options": {"tokens": [1, 2]}}, "target": 3} if attack == "backdoor" else {}
    )
    data, plan = federation(), AttackPlan(Choice(name=attack, options=options), frozenset({1}))
    grouping = hashed(data.ids, 2)
    harmed = next(group for group, members in enumerate(grouping.members) if 1 in members)
    with Workers(Inline(), data) as workers:
        honest, attacked = (train_groups(Context(workers, store), grouping, recipe(), one) for one in (None, plan))
    assert [before == after for before, after in zip(honest.keys, attacked.keys, strict=True)] == [
        harmed != 0,
        harmed != 1,
    ]
    first, second = (one.load(one.model_keys()[harmed]) for one in (honest, attacked))
    assert any(not np.array_equal(first[name], second[name]) for name in first)
