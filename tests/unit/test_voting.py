"""Votes to counts, and the tie rules."""

import numpy as np
import pytest

from flcert import voting
from flcert.errors import InputError


def test_counts_equal_a_naive_count():
    votes = np.random.default_rng(0).integers(-1, 4, size=(25, 40))
    counts = voting.count(votes, 5)
    for example in range(40):
        assert counts[example].tolist() == [list(votes[:, example]).count(label) for label in range(5)]


def test_ties_go_to_the_smallest_index_or_are_drawn():
    counts = np.array([[2, 5, 5, 0]] * 400)
    assert set(voting.winners(counts)) == {1}
    drawn = voting.winners(counts, "random", seed=4)
    assert set(drawn) == {1, 2}
    assert abs((drawn == 1).mean() - 0.5) < 0.1
    assert np.array_equal(drawn, voting.winners(counts, "random", seed=4))
    assert not np.array_equal(drawn, voting.winners(counts, "random", seed=5))


def test_the_draw_of_one_input_does_not_depend_on_the_others():
    counts = np.array([[3, 3]] * 50)
    fewer_ties = counts.copy()
    fewer_ties[:25, 0] = 9
    kept = slice(25, None)
    assert np.array_equal(voting.winners(counts, "random")[kept], voting.winners(fewer_ties, "random")[kept])


def test_no_tie_no_draw():
    assert voting.winners([[1, 5, 2]], "random", seed=1).tolist() == [1]


def test_a_score_that_is_not_a_number_never_wins():
    scores = np.array([[np.nan, 1, 0], [np.nan] * 3, [1, np.inf, np.nan], [2, 2, 1], [-np.inf] * 3])
    assert voting.predicted_labels(scores).tolist() == [1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("votes", "labels", "message"),
    [
        ([[0, 3]], 3, r"votes must be in \[0, 2\], or -1 for no vote, got 3 from group 0 for input 1"),
        ([[0, 1], [-2, 1]], 3, "got -2 from group 1 for input 0"),
        ([[0.5, 1]], 3, "votes must be integers, got dtype float64"),
        ([0, 1], 3, r"votes must be \(groups x inputs\) with at least one of each, got shape \(2,\)"),
        (np.zeros((0, 3), dtype=int), 3, r"got shape \(0, 3\)"),
        ([[0, 1]], 1, "num_labels must be at least 2, got 1"),
    ],
)
def test_votes_that_make_no_sense_are_refused(votes, labels, message):
    with pytest.raises(InputError, match=message):
        voting.count(votes, labels)
