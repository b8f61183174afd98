"""Classes and functions of one's own, given in Python: what they may look like, and where they can run."""

import functools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from flcert import aggregators, models
from flcert.attacks import ATTACKS
from flcert.attacks.label_flip import LabelFlip
from flcert.core.code import code_digest
from flcert.core.settings import Choice, Strict
from flcert.datasets import load
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.runs.config import Config, parse_config
from flcert.training import Recipe, optimisers, train
from flcert.training.augmentation import affine

FEDERATION = load("digits", num_clients=6, num_test=20)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(64, 10)

    def forward(self, inputs):
        return self.scores(inputs)


class Classes(Bare):
    def __init__(self, num_classes: int = 1000):
        super().__init__()
        self.scores = nn.Linear(64, num_classes)


class Labels(Bare):
    def __init__(self, num_labels):
        super().__init__()
        self.scores = nn.Linear(64, num_labels)


class Shape(Bare):
    def __init__(self, input_shape):
        super().__init__()
        self.scores = nn.Linear(*input_shape, 10)


class Wide(Bare):
    def __init__(self, num_classes, width: int = 4):
        super().__init__()
        self.scores = nn.Sequential(nn.Linear(64, width), nn.Linear(width, num_classes))


def anything(**given):
    assert sorted(given) == ["input_shape", "num_labels"]
    return Bare()


def outer():
    def inner():
        return Bare()

    return inner


def largest():
    return lambda given: given.updates.amax(dim=0)


@pytest.mark.parametrize("net", [Bare, Classes, Labels, Shape, Wide, anything])
def test_a_model_gets_what_its_signature_names(net, store):
    ensemble = train(FEDERATION, hashed(FEDERATION.ids, 2), Recipe(rounds=1, model=net), store=store)
    assert (ensemble.trained, ensemble.failures) == (2, {})


def test_an_option_of_the_same_name_is_the_user_s_to_give(store):
    module = models.build(Choice(name=Classes, options={"num_classes": 7}), (64,), 10, seed=0)
    assert module.scores.out_features == 7
    recipe = Recipe(model=Choice(name=Classes, options={"num_classes": 7}))
    with pytest.raises(InputError, match="one score for each of the 10 labels"):
        train(FEDERATION, hashed(FEDERATION.ids, 2), recipe, store=store)
    with pytest.raises(InputError, match=r"unknown option of model 'tests.unit.test_own_code:Wide': 'wide'"):
        models.build(Choice(name=Wide, options={"wide": 7}), (64,), 10, seed=0)


def test_a_class_or_function_becomes_its_import_path():
    recipe = Recipe(model=Bare, aggregator=largest, optimiser=torch.optim.RMSprop)
    path = "tests.unit.test_own_code"
    assert (recipe.model.name, recipe.aggregator.name) == (f"{path}:Bare", f"{path}:largest")
    assert recipe.optimiser.name == "torch.optim.rmsprop:RMSprop"
    assert recipe == Recipe(model=f"{path}:Bare", aggregator=f"{path}:largest", optimiser="torch.optim.rmsprop:RMSprop")
    assert Choice(name=Wide, options={"width": 3}).name == f"{path}:Wide"
    assert (
        parse_config({"recipe": {"model": {"name": Wide, "options": {"width": 3}}}}).recipe.model.name == f"{path}:Wide"
    )


def test_what_comes_with_flcert_goes_by_its_name():
    recipe = Recipe(model=models.cnn.CNN, aggregator=aggregators.krum, optimiser=optimisers.adamw, augmentation=affine)
    assert recipe == Recipe(model="cnn", aggregator="krum", optimiser="adamw", augmentation="affine")
    given = Recipe(
        model=Choice(name=models.mlp.MLP, options={"hidden": [8]}), variants=[{"aggregator": aggregators.median}]
    )
    assert (given.model.name, given.variants[0].aggregator.name) == ("mlp", "median")
    assert Config(attack={"name": LabelFlip, "malicious": 1}).attack.name == "label-flip"
    assert ATTACKS["label-flip"] is LabelFlip


NOT_TO_BE_FOUND = {
    "lambda": lambda: Bare(),
    "inner": outer(),
    "instance": Bare(),  # whose repr has several lines
    "partial": functools.partial(Wide, width=3),
    "method": Strict.model_validate,
}


@pytest.mark.parametrize("kind", NOT_TO_BE_FOUND)
@pytest.mark.parametrize(
    "make", [lambda one: Recipe(model=one), lambda one: Choice(name=one)], ids=["recipe", "choice"]
)
def test_what_cannot_be_imported_is_refused_in_one_line(kind, make):
    told = {
        "instance": "class or function is needed, .* got an instance of Bare$",
        "partial": "class or function is needed, .* got an instance of partial$",
        "method": "must stand at the top level of a module .*, got 'BaseModel.model_validate'$",
    }
    with pytest.raises(InputError, match=told.get(kind, r"must stand at the top level of a module .* got")) as caught:
        make(NOT_TO_BE_FOUND[kind])
    assert "\n" not in str(caught.value)


def test_wrong_settings_in_python_are_told_in_one_line():
    with pytest.raises(InputError, match=r"^unknown setting 'optimizer'; did you mean 'optimiser'\? \(known: .*\)$"):
        Recipe(optimizer="sgd")
    with pytest.raises(InputError, match=r"^variants.0.local_steps must be greater than 0, got -1$"):
        Recipe(variants=[{"local_steps": -1}])
    with pytest.raises(InputError, match=r"^recipe.learning_rate must be greater than 0, got 0$"):
        parse_config({"recipe": {"learning_rate": 0}})


SCRIPT = """
import sys
from pathlib import Path

import numpy as np
from torch import nn

import flcert
from flcert.core.store import Store
from flcert.engines import Dask, Inline, Processes


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.scores = nn.Linear(3, num_classes)

    def forward(self, inputs):
        return self.scores(inputs) * FACTOR


if __name__ == "__main__":
    examples = np.eye(3, dtype=np.float32), np.arange(3)
    data = flcert.Federation.build("three", {user: examples for user in ("ann", "bob", "cem")}, examples)
    groups, store = flcert.grouping.hashed(data.ids, 1), Store(Path("store"))
    recipe, engines = flcert.Recipe(rounds=1, model=Net), {"dask": Dask, "inline": Inline, "processes": Processes}
    for name in sys.argv[1:]:
        try:
            ensemble = flcert.training.train(data, groups, recipe, engine=engines[name](1), store=store)
            print("trained", ensemble.trained, "reused", ensemble.reused, ensemble.failures)
        except ValueError as error:
            print(type(error).__name__, error)
"""


def said(*arguments, folder):
    """What a script prints that defines its model itself, line by line."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_model_that_the_script_defines_trains_here_and_in_worker_processes(tmp_path):
    for name, factor in (("script.py", "1"), ("beside.py", "2")):  # two models of the same name
        (tmp_path / name).write_text(SCRIPT.replace("FACTOR", factor))
    assert said("script.py", "processes", "inline", folder=tmp_path) == [
        "trained 1 reused 0 {}",
        "trained 0 reused 1 {}",
    ]
    assert said("beside.py", "inline", folder=tmp_path) == ["trained 1 reused 0 {}"]


def test_workers_that_cannot_import_it_are_refused_before_training(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("FACTOR", "1"))
    like_a_notebook = ["-c", "exec(open('script.py').read())"]
    *refused, here = said(*like_a_notebook, "dask", "processes", "inline", folder=tmp_path)
    reason = "InputError '__main__:Net' is defined in this script or notebook, which the workers cannot import: put it "
    assert [line.startswith(reason) for line in refused] == [True, True]
    assert here == "trained 1 reused 0 {}"


def test_a_model_of_another_script_is_told_as_such():
    with pytest.raises(
        InputError, match=r"model '__main__:Nett' is of another script or notebook; put it into a module"
    ):
        models.build(Choice(name="__main__:Nett"), (64,), 10, seed=0)


TRAIN_BOTH = """
from pathlib import Path

import flcert
from flcert.core.store import Store

data = flcert.datasets.load("digits", num_clients=6, num_test=20)
for recipe in (plain, wide):
    short, groups = recipe.model_copy(update={"rounds": 1}), flcert.grouping.hashed(data.ids, 2)
    ensemble = flcert.training.train(data, groups, short, store=Store(Path("store")))
    print(ensemble.trained, ensemble.failures, ensemble.module(0).layers[3].weight.numel() // 5)
"""


def test_the_code_in_the_documentation_works(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "recipe.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL)
    assert "Choice(name=Net" in code
    (tmp_path / "recipe.py").write_text(f"{code}\n{TRAIN_BOTH}")
    assert said("recipe.py", folder=tmp_path) == ["2 {} 32", "2 {} 64"]


NOTEBOOK = """
import functools
import threading
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

SCALE, TABLE, WEIGHTS, SETTINGS = 1.0, {"a": [1, (2, b"3")]}, torch.ones(2, dtype=torch.bfloat16), SimpleNamespace(a=1)
MASK, WORDS, LOCK, attribute = np.zeros(2), {"one", "two", "three"}, threading.Lock(), 1


def halve(inputs):
    return inputs / 2


@functools.lru_cache
def table(key):
    return TABLE[key]


def power(number):
    return lambda inputs, by=2: (inputs * by) ** number


raised = power(1)


class Helper(nn.Module):
    def forward(self, inputs):
        return halve(inputs)


class Above(nn.Module):
    factor = 1


class Net(Above):
    def __init__(self, width: int = 3):
        super().__init__()
        self.helper, self.attribute = Helper(), [table(key) for key in TABLE]

    def forward(self, inputs):
        return raised(self.helper(inputs)) * SCALE * WEIGHTS * MASK * SETTINGS.a * len(WORDS)

    def again(self):
        return Net
"""


def notebook():
    """A module without a file, as a notebook is one."""
    module = ModuleType("cells_without_file")
    exec(NOTEBOOK, vars(module))
    return module


@pytest.mark.parametrize(
    "cell",
    [
        "SCALE = 2.0",
        "TABLE['a'][1] = (2, b'4')",
        "WEIGHTS[1] = 2",
        "MASK[0] = 1",
        "WORDS.add('four')",
        "SETTINGS.a = 2",
        "raised = power(2)",
        "raised.__defaults__ = (3,)",
        "Above.factor = 2",
        "Net.__init__.__annotations__['width'] = float",
        "def halve(inputs): return inputs / 3",
        "@functools.lru_cache\ndef table(key): return TABLE[key] * 2",
        "class Helper(nn.Module):\n    def forward(self, inputs): return -halve(inputs)",
        "halve = torch.relu",
    ],
)
def test_whatever_the_code_of_a_notebook_uses_is_in_its_digest(cell):
    module = notebook()
    before = code_digest(module.Net)
    exec(cell, vars(module))
    assert code_digest(module.Net) != before


@pytest.mark.parametrize(
    "cell",
    ["attribute = 2", "LOCK = threading.Lock()", "other = 1", "def halve(inputs): return inputs / 2  # said again"],
)
def test_what_the_code_does_not_use_is_not(cell):
    module = notebook()
    before = code_digest(module.Net)
    exec(cell, vars(module))
    assert code_digest(module.Net) == before == code_digest(notebook().Net)


def test_code_that_uses_what_nobody_can_compare_is_refused():
    module = notebook()
    exec("SCALE = LOCK", vars(module))
    with pytest.raises(InputError, match=r"^'Net' uses an object of lock, and cannot be told .*: put it into a module"):
        code_digest(module.Net)


def test_the_digest_is_the_same_in_every_process(tmp_path):
    """Sets of texts have another order in each."""
    asks = "from flcert.core.plugins import source_digest; print(source_digest('__main__:Net'))"
    found = {said("-c", f"{NOTEBOOK}\n{asks}", folder=tmp_path)[0] for _ in range(3)}
    assert len(found) == 1


def test_a_script_from_a_pipe_is_like_a_notebook(tmp_path):
    def piped(factor, *engines):
        text = SCRIPT.replace("FACTOR", "SCALE").replace("import sys", f"import sys\nSCALE = {factor}", 1)
        command = [sys.executable, "-", *engines]
        done = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    refused, here = piped(1, "processes", "inline")
    assert "which the workers cannot import" in refused
    assert here == "trained 1 reused 0 {}"
    assert piped(1, "inline") == ["trained 0 reused 1 {}"]
    assert piped(2, "inline") == ["trained 1 reused 0 {}"]
