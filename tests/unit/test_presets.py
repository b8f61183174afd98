"""The presets are the paper's settings, and scale down as documented."""

import pytest

from flcert import datasets, presets
from flcert.datasets import DATASETS
from flcert.errors import InputError
from flcert.runs.config import load_config

# name: clients, groups, rounds, local steps, learning rate, batch size (the paper's "Parameter Settings")
PAPER = {
    "mnist-0.1": (1000, 500, 200, 5, 0.001, 32),
    "mnist-0.5": (1000, 500, 200, 5, 0.001, 32),
    "cifar10": (100, 20, 200, 40, 0.01, 64),
    "har": (None, 15, 200, 5, 0.001, 32),
    "reddit": (None, 500, 1000, 12, 20, 64),
}


@pytest.mark.parametrize("name", PAPER)
def test_a_preset_has_the_paper_s_parameters(name):
    config = load_config(preset=name)
    recipe = config.recipe
    assert PAPER[name] == (
        config.data.options.get("num_clients"),
        config.grouping.num_groups,
        recipe.rounds,
        recipe.local_steps,
        recipe.learning_rate,
        recipe.batch_size,
    )
    assert recipe.aggregator.name == "fedavg"
    assert recipe.participation == (0.025 if name == "reddit" else 1)
    assert recipe.reduction == ("mean" if name == "reddit" else "sum")


def test_models_and_clipping_of_the_paper():
    models = {name: load_config(preset=name).recipe.model for name in presets.names()}
    assert {name: model.name for name, model in models.items()} == {
        "digits": "mlp",
        "mnist-0.1": "cnn",
        "mnist-0.1-augmented": "cnn",
        "mnist-0.5-augmented": "cnn",
        "mnist-0.1-public": "linear",
        "mnist-0.1-recipe": "small-cnn",
        "mnist-0.5": "cnn",
        "mnist-0.5-public": "linear",
        "mnist-0.5-recipe": "small-cnn",
        "fashion-mnist": "cnn",
        "fashion-mnist-public": "linear",
        "cifar10": "resnet20",
        "cifar10-public": "linear",
        "cifar10-public-1000": "linear",
        "har": "mlp",
        "chitchat": "lstm",
        "chitchat-public": "ngram",
        "reddit": "lstm",
    }
    assert models["har"].options == {"hidden": [256, 256]}
    clips = {name: load_config(preset=name).recipe.gradient_clip for name in presets.names()}
    assert clips["reddit"] == clips["chitchat"] == 0.25
    assert {clip for name, clip in clips.items() if name not in ("reddit", "chitchat")} == {None}


def test_degrees_of_non_iid():
    assert load_config(preset="mnist-0.1").data.options["degree"] == 0.1
    assert load_config(preset="mnist-0.5").data.options["degree"] == 0.5
    assert load_config(preset="cifar10").data.options["degree"] == 0.5


@pytest.mark.parametrize("degree", [0.1, 0.5])
def test_a_better_recipe_changes_groups_and_training_and_nothing_else(degree):
    paper, better = (load_config(preset=f"mnist-{degree}{end}") for end in ("", "-recipe"))
    assert better.data == paper.data
    assert (better.grouping.kind, better.grouping.num_groups) == ("balanced", paper.grouping.num_groups)
    assert (better.recipe.initial, better.recipe.features, better.voting.trusted) == (
        None,
        None,
        None,
    )  # nothing public
    assert better.recipe == load_config(preset="mnist-0.1-recipe").recipe


@pytest.mark.parametrize("name", presets.names())
@pytest.mark.parametrize("scale", [0.001, 0.1, 0.5])
def test_every_preset_is_valid_at_every_scale(name, scale):
    config = load_config(preset=name, scale=scale)
    assert 2 <= config.grouping.num_groups <= config.data.options["num_clients"]


@pytest.mark.parametrize("name", presets.names())
@pytest.mark.parametrize("scale", [0.5, 0.99, 0.9999])
def test_a_scaled_preset_asks_for_no_more_clients_than_there_are(name, scale):
    whole, part = presets.values(name), presets.values(name, scale)
    everyone = whole["data"].get("options", {}).get("num_clients") or DATASETS[whole["data"]["name"]].users
    assert part["data"]["options"]["num_clients"] <= everyone


def test_99_percent_of_chitchat_leaves_out_people_with_few_messages():
    options = presets.values("chitchat", 0.99)["data"]["options"]  # 1,315 people wrote, 1,235 of them enough
    assert options == {"num_clients": round(0.99 * 1235)}


def test_a_tenth_of_mnist():
    config = load_config(preset="mnist-0.1", scale=0.1)
    assert config.data.options == {"num_clients": 100, "degree": 0.1, "num_train": 6000}
    assert (config.grouping.num_groups, config.recipe.rounds) == (50, 63)


@pytest.mark.parametrize("name", ["cifar10-public", "cifar10-public-1000", "fashion-mnist-public"])
@pytest.mark.parametrize("scale", [0.1, 0.5, 0.9999, 1])
def test_pictures_on_which_settings_were_chosen_are_left_out_at_every_scale(name, scale):
    data = load_config(preset=name, scale=scale).data
    left = DATASETS[data.name].train_examples - 5000
    assert data.options["num_pilot"] == 5000
    assert data.options.get("num_train", left) == round(left * scale)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "mnist"}, "unknown preset 'mnist'; did you mean 'mnist-0.5'"),
        ({"preset": "har", "scale": 0}, r"scale must be in \(0, 1\], got 0"),
        ({"preset": "har", "scale": 1.5}, r"scale must be in \(0, 1\], got 1.5"),
        ({"scale": 0.5}, "scale goes with a preset, got 0.5 without one"),
    ],
)
def test_a_preset_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        load_config(**arguments)


def test_the_command_prints_what_run_reads(flcert, tmp_path):
    text = flcert("presets", "show", "har").out
    (tmp_path / "har.toml").write_text(text)
    assert load_config(tmp_path / "har.toml") == load_config(preset="har")
    assert flcert("presets", "list").out.count("\n") == len(presets.names())
    assert flcert("presets", "show", "hat").code == 2


@pytest.mark.parametrize(
    ("name", "trigger", "target"),
    [
        ("mnist-0.5", {"name": "corner"}, 0),
        ("cifar10", {"name": "bars"}, 2),
        ("har", {"name": "features"}, 1),
    ],
)
def test_the_backdoors_of_the_paper(name, trigger, target):
    data = load_config(preset=name).data
    assert datasets.backdoor(data.name, data.options) == {"trigger": trigger, "target": target}


def test_the_backdoor_of_text_is_a_phrase_in_the_vocabulary(tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in ("is", "from", "delicious", "pasta")))
    common = [f"data.options.vocabulary={vocabulary}", "data.options.path=x.jsonl"]
    data = load_config(preset="reddit", overrides=[*common, "data.options.num_words=5"]).data
    assert datasets.backdoor(data.name, data.options) == {
        "trigger": {"name": "phrase", "options": {"tokens": [4, 2, 0, 1]}},  # "astoria" is unknown here
        "target": 3,
    }
    small = load_config(preset="reddit", overrides=[*common, "data.options.num_words=3"]).data
    with pytest.raises(InputError, match="must hold the backdoor's answer 'delicious'"):
        datasets.backdoor(small.name, small.options)
