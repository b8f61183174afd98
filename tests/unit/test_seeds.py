"""Repeats of a configuration differ in their seeds, and in nothing else."""

import pytest

from flcert.runs.config import Config


@pytest.mark.parametrize(
    "grouping", [{"kind": "sampled", "group_size": 3, "seed": 2}, {"kind": "hashed", "key": "flcert-1"}]
)
def test_no_repeat_has_the_seed_of_another(grouping):
    config = Config.model_validate({"grouping": grouping})
    repeats = [config.reseeded(number) for number in range(5)]
    assert repeats[0] is config
    assert len({one.grouping.model_dump_json() for one in repeats}) == 5
    assert len({one.recipe.seed for one in repeats}) == 5
    settings = [one.split_seeds()[0] for one in repeats]
    assert all(one == settings[0] for one in settings)
