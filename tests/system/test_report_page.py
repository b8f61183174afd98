"""The report of a run: one file without network, whose slider and chooser work in a real browser."""

import base64
import json
import re
import shutil

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import flcert
from flcert import Config, Federation
from flcert.certify import disjoint, success_at, targeted_success
from flcert.core.store import Store
from flcert.datasets import load
from flcert.engines import Inline
from flcert.report.chart import BOX
from flcert.report.figures import levels_figure, sizes_figure
from flcert.report.samples import chosen_samples
from flcert.runs.directory import RunDirectory
from tests import tinydata
from tests.sealing import seal

pytestmark = pytest.mark.draws


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("reported")
    config = Config.model_validate(
        {
            "data": {"name": "digits", "options": {"num_clients": 30, "num_test": 300}},
            "grouping": {"kind": "hashed", "num_groups": 9},
            "recipe": {"rounds": 6},
            "attack": {"name": "backdoor", "malicious": 2},
        }
    )
    flcert.run(config, place / "run", engine=Inline(), store=Store(place / "store"))
    return RunDirectory.open(place / "run")


@pytest.fixture
def page(run_directory, browser):
    browser.set_window_size(1100, 1600)
    browser.get((run_directory.path / "report.html").as_uri())
    return browser


def text(page, name):
    return page.find_element(By.ID, name).text


def test_the_page_asks_for_nothing_from_outside(run_directory):
    page = (run_directory.path / "report.html").read_text()
    assert "http" not in page
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)


def test_the_slider_shows_how_many_inputs_remain_certified(page, run_directory):
    curve = run_directory.summary().certified_accuracy
    slider = page.find_element(By.ID, "slider")
    assert int(slider.get_attribute("max")) == len(curve) - 1
    slider.send_keys(Keys.HOME)
    places, heights = [], []
    for m, share in enumerate(curve):
        assert text(page, "slider-m") == str(m)
        assert f"{round(share * 300)} of these 300 test inputs ({100 * share:.1f}%)" in text(page, "remaining")
        places.append(float(page.find_element(By.ID, "marker").get_attribute("x1")))
        point = page.find_element(By.ID, "point")
        assert float(point.get_attribute("cx")) == places[-1]
        heights.append(float(point.get_attribute("cy")))
        slider.send_keys(Keys.ARROW_RIGHT)
    assert places == sorted(set(places))
    line = page.find_element(By.CSS_SELECTOR, "polyline.curve").get_attribute("points")
    corners = [tuple(map(float, corner.split(","))) for corner in line.split()]
    for place, height, share in zip(places, heights, curve, strict=True):
        assert height == pytest.approx(BOX["top"] + BOX["height"] * (1 - share))
        assert any(corner == pytest.approx((place, height), abs=0.1) for corner in corners)


def test_the_chooser_shows_each_input_with_its_votes_and_level(page, run_directory):
    chooser = Select(page.find_element(By.ID, "chooser"))
    certificate, votes, truth = run_directory.certificate(), run_directory.array("votes"), run_directory.truth()
    assert len(chooser.options) == 200
    for choice in (0, 57, 199):
        chooser.select_by_index(choice)
        position = int(chooser.options[choice].text.split()[1].rstrip(":"))
        label, level = int(certificate.labels[position]), int(certificate.levels[position])
        sentence = text(page, "verdict")
        assert sentence.startswith(f"{label}, ")
        assert (f"no {level} of the 30 clients together" in sentence) == (level > 1)
        assert ("right" in text(page, "truth")) == (label == truth[position])
        shown = {}
        for row in page.find_elements(By.CSS_SELECTOR, "#votes tr"):
            name, count = (cell.text for cell in row.find_elements(By.XPATH, "./*")[:2])
            shown[int(name)] = int(count)
        labels, counts = np.unique(votes[:, position][votes[:, position] >= 0], return_counts=True)
        assert shown == dict(zip(labels.tolist(), counts.tolist(), strict=True))
    before = text(page, "verdict"), page.find_element(By.ID, "chooser").get_property("selectedIndex")
    page.find_element(By.ID, "earlier").click()
    page.find_element(By.ID, "later").click()
    assert (text(page, "verdict"), page.find_element(By.ID, "chooser").get_property("selectedIndex")) == before


def test_the_picture_is_the_input(page, run_directory):
    pixels = page.execute_script(
        "const c = document.getElementById('picture');"
        "return Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).filter((_, i) => i % 4 === 0)"
    )
    last = run_directory.samples().inputs[-1]
    federation = load("digits", num_clients=30, num_test=300)
    expected = np.round(federation.test_inputs[last.position] * 255)
    assert pixels == expected.astype(int).tolist()
    assert base64.b64decode(last.shown) == bytes(pixels)


def test_the_attack_and_the_setup_are_told(page, run_directory):
    body = page.find_element(By.TAG_NAME, "body").text
    assert "2 of the clients ran the attack backdoor" in body
    assert run_directory.manifest().data.digest in body
    assert "torch version" in body
    attack, rows = run_directory.summary().attack, {}
    stamped = attack.certified_accuracy_on_stamped_inputs[2]
    held = f"{attack.certified_changed} of {attack.certified}"
    for row in page.find_elements(By.XPATH, "//h2[text()='A simulated attack']/following::table[1]//tr"):
        name, value = (cell.text for cell in row.find_elements(By.XPATH, "./*"))
        rows[name] = value
    assert rows == {
        "accuracy without the attack": f"{attack.accuracy_without_attack:.1%}",
        "accuracy under the attack": f"{attack.accuracy_under_attack:.1%}",
        "labels that changed": f"{attack.changed}",
        "of the labels certified for this many clients, changed": held,
        "success of the backdoor without the attack": f"{attack.success_rate_without_attack:.1%}",
        "success of the backdoor under the attack": f"{attack.success_rate_under_attack:.1%}",
        "Proved: success of any backdoor with this trigger, target and number of clients, at most": (
            f"{attack.success_rate_at_most:.1%}"
        ),
        "certified accuracy on stamped inputs for this many clients": f"{stamped:.1%}",
    }
    configuration = page.find_element(By.TAG_NAME, "pre").get_attribute("textContent")
    assert json.loads(configuration) == run_directory.config().canonical()


def test_every_label_has_a_row_that_says_how_many_inputs_clients_can_turn_into_it(page, run_directory):
    truth, evidence = run_directory.truth(), run_directory.evidence()
    table = page.find_element(By.XPATH, "//h2[text()='Turned into one label']/following::table[1]")
    head, *rows = (
        [cell.text for cell in row.find_elements(By.XPATH, "./*")] for row in table.find_elements(By.TAG_NAME, "tr")
    )
    levels = [int(text.removeprefix("m = ")) for text in head[1:]]
    assert levels[:3] == [0, 1, 2]
    assert [row[0] for row in rows] == [str(label) for label in range(10)]
    for label, row in enumerate(rows):
        bound = targeted_success(run_directory.guarantee().target_levels(evidence, label), truth, label)
        assert row[1:] == [f"{success_at(bound, m):.1%}" for m in levels]
    said = page.find_element(By.XPATH, "//h2[text()='Turned into one label']/following::p[1]").text
    assert re.match(r"Whatever any (one|\d+) of the 30 clients do(es)?, at most \d+ of the \d+ inputs", said)


def test_the_pictures_show_levels_and_sizes():
    counts = np.array([[9, 0], [7, 2], [0, 9], [5, 4]])  # levels 4, 2, 4, 0
    figure = levels_figure("Levels", disjoint(counts), np.array([0, 1, 1, 0]))
    (axes,), (legend,) = figure.axes, figure.legends
    (right, wrong), names = axes.containers, [entry.get_text() for entry in legend.get_texts()]
    assert names == ["right", "wrong"]
    assert [bar.get_height() for bar in right] == [1, 0, 0, 0, 2]
    assert [bar.get_height() for bar in wrong] == [0, 0, 1, 0, 0]
    axes = sizes_figure("Sizes", np.array([0, 2, 2, 5])).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("clients in a group", "groups")
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.containers[0]}
    assert bars == {0: 1, 2: 2, 5: 1}


def test_a_narrow_screen_needs_no_sideways_scrolling(page):
    for width in (390, 1100):
        page.set_window_size(width, 900)
        inner = page.execute_script("return window.innerWidth")
        assert page.execute_script("return document.documentElement.scrollWidth") <= inner
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_text_is_shown_as_words_and_features_as_numbers(tmp_path):
    vocabulary = tinydata.write_words(tmp_path / "words.txt")
    lines = tinydata.write_lines(tmp_path / "a.jsonl")
    options = {"vocabulary": vocabulary, "num_words": 9, "context": 4, "min_examples": 3, "num_root": 0}
    federation = load("reddit", path=lines, test_share=0.3, **options)
    counts = np.eye(9, dtype=int)[federation.test_labels] * 3
    samples = chosen_samples(federation.subject, disjoint(counts), counts)
    assert samples.kind == "text"
    words = set(tinydata.VOCABULARY)
    for one in samples.inputs:
        assert set(one.shown.split()) <= words
        assert samples.names[one.label] == tinydata.VOCABULARY[one.label - 1]
    rows = np.array([[0.5, -1.25], [3.0, 2.0]], dtype=np.float32)
    plain = Federation.build("plain", {"ann": (rows, np.array([0, 1]))}, (rows, np.array([0, 1])))
    votes = np.array([[3, 0], [0, 2]])
    samples = chosen_samples(plain.subject, disjoint(votes), votes)
    assert samples.kind == "features"
    assert sorted(one.shown for one in samples.inputs) == [(0.5, -1.25), (3.0, 2.0)]
    assert json.dumps(samples.told())


@pytest.mark.parametrize(("kind", "shown"), [("text", "i like tea"), ("features", (0.5, -1.0))])
def test_text_and_features_are_shown_in_the_browser(kind, shown, run_directory, browser, tmp_path, flcert):
    shutil.copytree(run_directory.path, tmp_path / "other")
    samples = run_directory.samples()
    inputs = tuple(one.model_copy(update={"shown": shown}) for one in samples.inputs)
    RunDirectory(tmp_path / "other").write(samples.model_copy(update={"kind": kind, "inputs": inputs}))
    seal(tmp_path / "other")
    assert flcert("report", tmp_path / "other").code == 0
    browser.get((tmp_path / "other" / "report.html").as_uri())
    assert browser.find_element(By.ID, "words").is_displayed() == (kind == "text")
    assert browser.find_element(By.ID, "picture").is_displayed() == (kind == "features")
    if kind == "text":
        assert text(browser, "words") == "i like tea …"
    else:  # a bar up from zero, which is a third of the way down, and one down
        pixel = "return document.getElementById('picture').getContext('2d').getImageData(%d, %d, 1, 1).data[3]"
        places = {(x, y): browser.execute_script(pixel % (x, y)) for x in (0, 1) for y in (10, 80)}
        assert places == {(0, 10): 255, (0, 80): 0, (1, 10): 0, (1, 80): 255}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_run_without_samples_still_has_a_report(run_directory, tmp_path, flcert):
    shutil.copytree(run_directory.path, tmp_path / "old")
    (tmp_path / "old" / "samples.json").unlink()
    seal(tmp_path / "old")
    assert flcert("report", tmp_path / "old").code == 0
    assert "A test input" not in (tmp_path / "old" / "report.html").read_text()
