"""Count the votes of models, and turn them into a label."""

from flcert.voting.counting import NO_VOTE, count, most_votes, predicted_labels
from flcert.voting.ties import Ties, winners

__all__ = ["NO_VOTE", "Ties", "count", "most_votes", "predicted_labels", "winners"]
