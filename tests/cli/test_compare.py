"""Runs side by side: the same setting is told from another, claims and test sets are kept apart, noise is marked."""

import json
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from flcert.core.store import Store
from flcert.engines import Inline
from flcert.pipeline.sweep import combined, sweep, variation
from flcert.report.compare import CHOOSING, Comparison, Setting, compare
from flcert.report.compare_names import names_of
from flcert.report.compare_noise import difference
from flcert.report.compare_page import panels_of
from flcert.report.drawing import picture
from flcert.report.styles import MOST_LINES
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory
from tests.pictures import drawn
from tests.sealing import seal

OLD = Path(__file__).parents[1] / "data" / "format-1"
TINY = ("data.options.num_clients=20", "data.options.num_test=60", "recipe.rounds=2", "grouping.num_groups=4")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two settings with three repeats each."""
    place = tmp_path_factory.mktemp("compared")
    asked = combined(lambda given: load_config(None, [*TINY, *given]), [variation("recipe.local_steps=1,20")], 3)
    with drawn():
        return sweep(asked, place / "sweep", engine=Inline(), store=Store(place / "store"))


@pytest.fixture
def runs(swept):
    """The runs by the number of local steps and the repeat."""
    found = {}
    for steps, repeat in product((1, 20), (1, 2, 3)):
        end = f",repeat={repeat}" if repeat > 1 else ""
        found[steps, repeat] = swept.directory / f"local_steps={steps}{end}"
    return found


def test_repeats_are_one_setting_with_mean_and_standard_deviation(flcert, runs):
    result = flcert("compare", *runs.values(), "--m", "0,2", "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert [row["setting"] for row in told["settings"]] == ["local_steps=1", "local_steps=20"]
    for steps, row in zip((1, 20), told["settings"], strict=True):
        summaries = [json.loads((runs[steps, repeat] / "summary.json").read_text()) for repeat in (1, 2, 3)]
        found = [one["certified_accuracy"][2] for one in summaries]
        assert row["repeats"] == 3
        assert row["certified_accuracy_at_2"] == pytest.approx(np.mean(found))
        assert row["certified_accuracy_at_2_standard_deviation"] == pytest.approx(np.std(found, ddof=1))
        assert row["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in summaries]))
        levels = [np.load(runs[steps, repeat] / "certificate.npz")["levels"] for repeat in (1, 2, 3)]
        right = [_right(runs[steps, repeat]) for repeat in (1, 2, 3)]
        assert row["area"] == pytest.approx(np.mean([(a * b).mean() for a, b in zip(levels, right, strict=True)]))
    assert {path.name for path in Path("comparison").iterdir()} == {
        f"comparison{end}" for end in (".csv", "-curves.csv", ".png", ".svg", ".pdf", ".html")
    }


def _right(run):
    stored = np.load(run / "certificate.npz")
    return (stored["labels"] == np.load(run / "truth.npy")) & ~stored["abstained"]


def test_a_difference_is_within_the_noise_if_welch_s_interval_contains_zero(flcert, runs):
    told = json.loads(flcert("compare", *runs.values(), "--m", "0,1", "--json").out)
    by_figure = {one["figure"]: one for one in told["differences"]}
    assert set(by_figure) == {"certified_accuracy_at_0", "certified_accuracy_at_1", "accuracy", "area"}
    values = {}
    for steps in (1, 20):
        summaries = [json.loads((runs[steps, repeat] / "summary.json").read_text()) for repeat in (1, 2, 3)]
        values[steps] = [one["accuracy"] for one in summaries]
    interval = ttest_ind(values[1], values[20], equal_var=False).confidence_interval(0.95)
    one = by_figure["accuracy"]
    assert one["difference"] - one["half_width"] == pytest.approx(interval.low)
    assert one["difference"] + one["half_width"] == pytest.approx(interval.high)
    assert one["within_noise"] == (interval.low <= 0 <= interval.high)
    first, second = told["settings"]
    best, other = (first, second) if first["accuracy"] > second["accuracy"] else (second, first)
    assert best["accuracy_mark"] == "best"
    assert other["accuracy_mark"] == ("noise" if one["within_noise"] else "")


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_is_that_of_scipy_whatever_the_numbers(seed):
    generator = np.random.default_rng(seed)
    first, second = (generator.normal(0.5, generator.uniform(0.001, 0.2), generator.integers(3, 9)) for _ in "ab")
    found, expected = difference(first, second), ttest_ind(first, second, equal_var=False)
    assert found.mean + found.half == pytest.approx(expected.confidence_interval(0.95).high)
    assert found.within_noise == (expected.pvalue >= 0.05)


def test_repeats_that_all_agree_differ_from_others_unless_they_are_equal():
    same, other = np.array([0.5, 0.5, 0.5]), np.array([0.25, 0.25, 0.25])
    assert difference(same, same).within_noise
    assert not difference(same, other).within_noise


@pytest.mark.parametrize(("repeats", "sentence"), [(1, "repeats would tell"), (2, "too few to tell")])
def test_nothing_is_marked_with_fewer_than_three_repeats(flcert, runs, repeats, sentence):
    chosen = [path for (_, repeat), path in runs.items() if repeat <= repeats]
    told = json.loads(flcert("compare", *chosen, "--json").out)
    assert told["differences"] == []
    marks = [value for row in told["settings"] for key, value in row.items() if key.endswith("_mark")]
    assert set(marks) == {""}
    assert any(sentence in remark for remark in told["remarks"])
    assert " * " not in flcert("compare", *chosen).out


def test_a_copy_of_a_run_is_no_repeat_of_it(flcert, runs):
    copy = shutil.copytree(runs[1, 1], "copy")
    told = json.loads(flcert("compare", runs[1, 1], runs[1, 2], copy, "--json").out)
    assert [row["repeats"] for row in told["settings"]] == [2, 1]
    assert [row["setting"] for row in told["settings"]] == ["local_steps=1", "copy"]
    assert f"{runs[1, 1]} is given twice" in flcert("compare", runs[1, 1], runs[1, 1]).err


def test_other_claims_and_other_test_sets_are_marked_and_not_called_noise(flcert, runs):
    repeats = [path for (steps, _), path in runs.items() if steps == 1]
    result = flcert("compare", *sorted(OLD.iterdir()), *repeats)
    assert result.code == 0, result.err
    assert "2 different test sets, A, B: compare only rows with the same letter" in result.out
    assert "3 different claims" in result.out
    assert "of the ensemble of all possible groups" in result.out
    assert "except with probability 0.5" in result.out
    page = Path("comparison/comparison.html").read_text()
    assert "holds with certainty" in page
    assert "except with probability 0.5" in page
    told = json.loads(flcert("compare", *sorted(OLD.iterdir()), *repeats, "--json").out)
    assert [row["test_set"] for row in told["settings"]] == ["A", "A", "A", "B"]
    assert len({row["claim"] for row in told["settings"]}) == 3
    assert told["differences"] == []
    assert told["remarks"][-1] == CHOOSING
    twice = shutil.copytree(OLD / "sampled", Path("sampled-again"))
    assert "these probabilities add up" in flcert("compare", OLD / "sampled", twice).out
    assert "these probabilities add up" not in result.out


@pytest.mark.parametrize("name", ["hashed", "sampled", "spread"])
def test_what_is_claimed_comes_from_the_certificate_alone(flcert, name):
    guarantee = RunDirectory.open(OLD / name).guarantee()
    printed = flcert("compare", OLD / name).out
    page = re.sub(r"<(style|figure).*?</\1>", "", Path("comparison/comparison.html").read_text(), flags=re.DOTALL)
    for text in (printed, page):
        claims = [line for line in text.splitlines() if re.search("whatever|provabl|keep", line)]
        assert len(claims) == 1
        assert guarantee.caption[1:].partition(", except")[0] in claims[0]
        assert guarantee.meaning in claims[0]
        assert claims[0].count("except with probability") == guarantee.probabilistic
        assert "may be noise" not in text


@pytest.mark.parametrize("other", ["test set", "claim"])
def test_differences_are_judged_only_between_the_same_claims_about_the_same_inputs(runs, other):
    whole = compare(list(runs.values()), levels=[0])
    assert len(whole.differences) == 3
    first, second = whole.settings
    guarantee = RunDirectory.open(OLD / "sampled").guarantee()
    changed = [
        replace(run, test_set="another")
        if other == "test set"
        else replace(run, manifest=run.manifest.model_copy(update={"guarantee": guarantee}))
        for run in second.runs
    ]
    apart = Comparison((first, Setting("other", tuple(changed))), (0,))
    assert apart.differences == []
    assert {apart.cell(setting, column).mark for setting in apart.settings for column in apart.columns} == {""}
    assert any(f"2 different {other}s" in remark for remark in apart.remarks)


def test_a_run_over_flower_clients_is_a_run_like_any_other(flcert, runs):
    flower = shutil.copytree(runs[1, 1], Path("flower"))
    config = json.loads((flower / "config.json").read_text())
    config["data"] = {"name": "flower", "options": {"title": "digits", "digest": "0" * 32, "start": "1" * 32}}
    config["recipe"]["aggregator"] = {"name": "flower", "options": {"strategy": "FedMedian()"}}
    (flower / "config.json").write_text(json.dumps(config))
    manifest = json.loads((flower / "manifest.json").read_text())
    manifest["network"] = {"flwr": "1.38", "strategy": "FedMedian", "absent": []}
    manifest["groups"][0]["dropped"] = [{"round": 1, "user": "client-0001", "reason": "late"}] * 2
    (flower / "manifest.json").write_text(json.dumps(manifest))
    seal(flower)
    told = json.loads(flcert("compare", runs[1, 1], flower, "--names", "here, there", "--json").out)
    assert [(row["setting"], row["dropped_replies"]) for row in told["settings"]] == [("here", 0), ("there", 2)]
    assert {row["test_set"] for row in told["settings"]} == {"A"}


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["nowhere"], "nowhere is not a run directory (no manifest.json)"),
        (["begun"], "begun holds a run that is not finished; run it again"),
        (["{run}", "--m", "0,x"], "--m must be whole numbers separated by commas, got '0,x'"),
        (["{run}", "--m", "-1"], "m must be in [0, num_clients=20], got -1"),
        (["{run}", "--m", "0,99"], "m must be in [0, num_clients=20], got 99"),
        (["{run}", "--names", "a,b"], "--names must be 1 different names, one for each setting, got a, b"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(flcert, runs, arguments, refusal):
    Path("begun").mkdir()
    shutil.copy(runs[1, 1] / "config.json", "begun")
    result = flcert("compare", *(text.format(run=runs[1, 1]) for text in arguments))
    assert (result.code, result.out) == (2, "")
    assert refusal in result.err
    assert len(result.err.splitlines()) == 1
    assert not Path("comparison").exists()


def test_foreign_code_is_not_imported(flcert, runs):
    foreign = shutil.copytree(runs[1, 1], Path("foreign"))
    manifest = json.loads((foreign / "manifest.json").read_text())
    manifest["guarantee"]["kind"] = "evil:Kind"
    (foreign / "manifest.json").write_text(json.dumps(manifest))
    result = flcert("compare", foreign)
    assert result.code == 2
    assert "names code of its author's (evil:Kind)" in result.err


def test_certified_accuracy_is_drawn_as_steps_each_in_its_own_colour_and_style(runs):
    run = compare([runs[1, 1]]).settings[0].runs[0]
    many = Comparison(tuple(Setting(f"setting {number}", (run,)) for number in range(MOST_LINES + 2)), (0,))
    (axes,) = picture("Many", panels_of(many)).axes
    lines = axes.get_lines()
    assert len(lines) == MOST_LINES == len({(line.get_color(), line._unscaled_dash_pattern) for line in lines})
    assert {line.get_drawstyle() for line in lines} == {"steps-post"}


def test_a_name_is_what_differs_or_the_place_where_much_does():
    base = {"recipe": {"rounds": 3, "aggregator": {"name": "fedavg"}}, "certificate": {"alpha": 0.1, "also": []}}
    other = {"recipe": {"rounds": 5, "aggregator": {"name": "krum"}}, "certificate": {"alpha": 0.1, "also": ["x"]}}
    assert names_of([base, other], ["a", "b"]) == ["rounds=3, aggregator=fedavg", "rounds=5, aggregator=krum"]
    assert names_of([base, base], ["a", "b"]) == ["a", "b"]
    assert names_of([base, other, other], ["a", "b", "c"])[1:] == [
        "rounds=5, aggregator=krum (b)",
        "rounds=5, aggregator=krum (c)",
    ]
    hashed, sampled = {"kind": "hashed", "late": [], "num_groups": 4}, {"kind": "sampled", "k": 3, "num_groups": 4}
    groups = [{"grouping": hashed}, {"grouping": sampled}]
    assert names_of(groups, ["a", "b"]) == ["grouping=hashed", "grouping=sampled"]
    groups += [{"grouping": {**sampled, "k": 5}}]
    assert names_of(groups, ["a", "b", "c"]) == ["grouping=hashed", "grouping=sampled, k=3", "grouping=sampled, k=5"]
    many = [{"recipe": {f"key{number}": value for number in range(7)}} for value in (0, 1)]
    assert names_of(many, ["a", "b"]) == ["a", "b"]


def test_the_terminal_says_that_the_page_lists_many_keys_and_the_page_does_not(flcert, runs):
    other = shutil.copytree(runs[1, 1], Path("other"))
    config = json.loads((other / "config.json").read_text())
    changed = {"rounds": 9, "local_steps": 3, "batch_size": 3, "learning_rate": 0.123, "proximal": 0.5}
    config["recipe"] |= {**changed, "participation": 0.5, "label_smoothing": 0.1}
    (other / "config.json").write_text(json.dumps(config))
    seal(other)
    result = flcert("compare", runs[1, 1], other)
    assert result.code == 0, result.err
    assert "comparison.html, which lists the 7 keys in which the settings differ" in result.out
    page = Path("comparison/comparison.html").read_text()
    assert "The settings differ in 7 keys." in page
    assert "lists" not in page


def test_the_page_shows_everything_in_a_browser(swept, browser):
    browser.set_window_size(800, 1000)
    browser.get(swept.files["page"].as_uri())
    assert browser.get_log("browser") == []
    width = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]
    shown = "return document.querySelector('figure .panels svg').getBoundingClientRect().width > 300"
    assert browser.execute_script(shown)
    links = browser.execute_script("return [...document.querySelectorAll('a')].map(a => a.href)")
    links = [link for link in links if "#" not in link]
    assert all(link.startswith("file:") for link in links)
    reports = [
        Path(browser.execute_script("return decodeURIComponent(new URL(arguments[0]).pathname)", link))
        for link in links
    ]
    assert len(reports) >= 6
    assert all(path.exists() for path in reports)
