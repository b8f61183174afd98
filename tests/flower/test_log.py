"""Errors over Flower: one line that says what is wrong, in Flower's log too."""

import io
import logging

import pytest
from flwr.common.logger import log as flower_log

from flcert import flower
from flcert.errors import InputError, RunError
from flcert.flower.log import explain_errors

assert flower  # importing it is enough


@pytest.fixture
def logged(monkeypatch):
    """What Flower logs if an app raises something."""
    monkeypatch.delenv("FLCERT_TRACEBACK", raising=False)

    def text(error):
        written = io.StringIO()
        handler = logging.StreamHandler(written)
        logging.getLogger("flwr").addHandler(handler)
        try:
            raise error
        except Exception as raised:
            flower_log(logging.ERROR, "%s raised an exception", "ServerApp", exc_info=raised)
        finally:
            logging.getLogger("flwr").removeHandler(handler)
        return written.getvalue()

    return text


@pytest.mark.parametrize("kind", [InputError, RunError])
def test_an_error_of_ours_is_one_line_in_flower_s_log(kind, logged):
    explain_errors()  # once more
    assert logged(kind("rounds must be 100 %s,\n got 5")) == (
        "ServerApp raised an exception: rounds must be 100 %s, got 5\n"
    )


def test_other_errors_keep_their_traceback(logged):
    assert "Traceback (most recent call last)" in logged(ValueError("a user's"))


def test_the_traceback_is_there_for_those_who_want_it(logged, monkeypatch):
    told = InputError("ours")
    assert "Traceback" not in logged(told)
    monkeypatch.setenv("FLCERT_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in logged(told)


@pytest.mark.parametrize("asked", ["received", "evidence_of"])
def test_models_that_cannot_vote_end_the_run_with_one_line(asked, network, train, monkeypatch, logged):
    def fail(*_):
        raise ValueError("too\n  large")

    monkeypatch.setattr(f"flcert.training.ensemble.Electorate.{asked}", fail)
    with pytest.raises(RunError) as caught:
        train(network())
    assert str(caught.value) == "the models cannot vote: ValueError: too large"
    assert logged(caught.value).splitlines() == [f"ServerApp raised an exception: {caught.value}"]


def test_an_error_of_ours_at_the_vote_keeps_its_words(network, train, monkeypatch):
    def fail(*_):
        raise RunError("group 2 cannot vote")

    monkeypatch.setattr("flcert.training.ensemble.Electorate.evidence_of", fail)
    with pytest.raises(RunError, match=r"^group 2 cannot vote$"):
        train(network())
