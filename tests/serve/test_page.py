"""The page in a real browser: draw, pick, slide, and an error when the service is gone."""

from itertools import pairwise

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from flcert import models, public
from flcert.core.settings import Choice
from flcert.runs.directory import RunDirectory
from tests.serve.conftest import DIGITS, made


class Page:
    """The page of a service, as a person uses it."""

    def __init__(self, browser, address):
        self.browser = browser
        browser.get_log("browser")  # forget what other pages said
        browser.get(address)

    def find(self, name):
        return self.browser.find_element(By.ID, name)

    def text(self, name):
        return self.find(name).text

    def wait(self, condition):
        return WebDriverWait(self.browser, 20).until(lambda _: condition())

    def options(self):
        self.wait(lambda: len(Select(self.find("chooser")).options) > 1)
        return Select(self.find("chooser")).options

    def pick(self, number):
        self.options()
        Select(self.find("chooser")).select_by_index(number)
        self.wait(lambda: self.find("result").is_displayed())

    def draw_a_seven(self):
        self.options()
        pen = ActionChains(self.browser).move_to_element_with_offset(self.find("draw"), -50, -80).click_and_hold()
        for step in ((50, 0), (50, 0), (-30, 75), (-30, 80)):
            pen = pen.move_by_offset(*step)
        pen.release().perform()

    def slide(self, steps):
        self.find("slider").send_keys(Keys.ARROW_RIGHT * steps)


@pytest.fixture
def page(browser, run_directory, serving):
    with serving(run_directory) as service:
        opened = Page(browser, service.address)
        opened.service = service
        yield opened


def test_a_drawing_is_predicted_with_its_votes_and_a_sentence(page):
    page.draw_a_seven()
    page.wait(lambda: "could have changed this" in page.text("verdict") or "nothing is" in page.text("verdict"))
    assert page.text("verdict").startswith("7, and no")
    rows = page.find("votes").find_elements(By.TAG_NAME, "tr")
    assert rows[0].text.split()[0] == "7"
    assert sum(int(row.text.split()[1]) for row in rows) == 15
    page.find("clear").click()
    page.find("predict").click()
    page.wait(lambda: page.text("error") == "Draw something first.")


def test_a_drawing_by_keyboard_is_predicted(page):
    page.options()
    keys = [Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP, Keys.SPACE, *[Keys.ARROW_DOWN] * 6, Keys.ENTER]
    page.find("draw").send_keys(*keys)
    page.wait(lambda: page.find("result").is_displayed())
    assert page.text("verdict").startswith("1")


def test_a_test_input_is_shown_with_the_level_of_the_run_and_the_slider_tells_when_it_falls(page, run_directory):
    sample = RunDirectory.open(run_directory).samples().inputs[-1]
    page.pick(len(page.options()) - 1)
    assert f"no {sample.level} of the 60 clients together could have changed this" in page.text("verdict")
    assert page.text("truth") == f"Its true label is {sample.truth}."
    assert page.find("shown").is_displayed()
    page.slide(sample.level)
    assert page.text("slider-m") == str(sample.level)
    assert page.text("standing").startswith(f"Proved: whatever {sample.level} clients did")
    page.slide(1)
    assert page.text("standing").startswith(f"Nothing is proved for {sample.level + 1} clients")
    mark = page.browser.find_element(By.CSS_SELECTOR, "#curve .mark")
    reach = (len(RunDirectory.open(run_directory).summary().certified_accuracy) - 1) or 1
    assert float(mark.get_attribute("x1")) == pytest.approx(78 + 620 * sample.level / reach)


def test_the_curve_is_a_staircase_with_a_step_at_every_m(page, run_directory):
    page.options()
    line = page.browser.find_element(By.CSS_SELECTOR, "#curve .curve").get_attribute("points")
    corners = [tuple(map(float, corner.split(","))) for corner in line.split()]
    assert all(before[0] == after[0] or before[1] == after[1] for before, after in pairwise(corners))
    curve = RunDirectory.open(run_directory).summary().certified_accuracy
    assert [y for _, y in corners[::2]] == pytest.approx([16 + 240 * (1 - share) for share in curve])


def test_the_slider_names_who_could_take_over(page, run_directory):
    samples = RunDirectory.open(run_directory).samples().inputs
    number, sample = next((at, one) for at, one in enumerate(samples) if one.level >= 2 and len(one.votes) > 1)
    page.pick(number + 1)
    assert not page.find("votes").find_elements(By.CLASS_NAME, "taken")
    page.slide(sample.level + 1)
    (taken, *_) = page.find("votes").find_elements(By.CLASS_NAME, "taken")
    assert taken.text.split()[0] == str(sample.votes[1][0])
    assert f"from {sample.level + 1}" in taken.text
    assert "could pass it" in page.text("standing")


def test_an_error_is_shown_when_the_service_is_stopped(page):
    page.pick(1)
    assert page.text("error") == ""
    assert page.service.stop() == 0
    Select(page.find("chooser")).select_by_index(2)
    page.wait(lambda: page.text("error") == "The service does not answer. Is it still running?")
    assert not page.find("result").is_displayed()
    assert "could have changed" not in page.text("verdict")


def test_a_token_is_asked_for_and_used(browser, run_directory, serving, tmp_path):
    (tmp_path / "token").write_text("correct-horse-battery")
    with serving(run_directory, "--token-file", tmp_path / "token") as service:
        page = Page(browser, service.address)
        page.wait(lambda: page.find("token").is_displayed())
        assert "token" in page.text("error")
        page.find("token").send_keys("correct-horse-battery", Keys.ENTER)
        page.pick(1)
        assert not page.find("token").is_displayed()


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_hangs_over_the_edge_and_everything_has_a_name(page, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.pick(1)
    assert page.browser.execute_script("return innerWidth") == width
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.browser.execute_script(overflow) <= 0
    unnamed = (
        "return [...document.querySelectorAll('input, select, button, canvas, svg')].filter(one => "
        "!(one.labels?.length || one.ariaLabel || one.getAttribute('aria-labelledby') || one.textContent.trim()))"
        ".map(one => one.id)"
    )
    assert page.browser.execute_script(unnamed) == []
    assert [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_sampled_groups_say_what_is_spent(browser, sampled_directory, serving, tmp_path):
    ledger = tmp_path / "ledger.json"
    with serving(sampled_directory, "--alpha", 0.05, "--predictions", 2, "--ledger", ledger) as service:
        page = Page(browser, service.address)
        page.wait(lambda: page.find("token").is_displayed())
        page.find("token").send_keys(service.token(), Keys.ENTER)
        for spent in (1, 2):
            page.pick(spent)
            assert f"({spent} of 2 predictions with a certificate are spent.)" in page.text("standing")
        page.pick(3)
        assert "without a certificate" in page.text("verdict")


@pytest.fixture(scope="module")
def trusting_directory(tmp_path_factory):
    """Digits in disjoint groups that start from a public model, with twenty votes of that model."""
    place = tmp_path_factory.mktemp("trusting")
    network = models.build(Choice(name="mlp"), (64,), 10, 0)
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    public.write(place / "p.safetensors", public.PublicModel("p", weights))
    start = f"recipe.initial={place / 'p.safetensors'}"
    return made(place, [*DIGITS, start, "voting.trusted={model='initial',votes=20}"])


def test_trusted_votes_are_told_apart_and_cannot_be_taken_away(browser, trusting_directory, serving):
    with serving(trusting_directory) as service:
        page = Page(browser, service.address)
        page.pick(len(page.options()) - 1)
        assert "The hatched part of a bar is the server's own: 20 votes for" in page.text("reading")
        first, *others = page.find("votes").find_elements(By.TAG_NAME, "tr")
        votes = [int(row.text.split()[1]) for row in (first, *others)]
        assert sum(votes) == 15 + 20
        page.slide(60)
        first, *others = page.find("votes").find_elements(By.TAG_NAME, "tr")
        own = 100 * 20 / votes[0]
        assert (width(first, "i"), width(first, "b")) == pytest.approx((own, own), rel=1e-3)
        for row in others:  # all groups together have fifteen votes
            assert width(row, "i") == pytest.approx(100 * 15 / votes[0], rel=1e-3)
            assert not row.find_elements(By.TAG_NAME, "b")
        above = RunDirectory.open(trusting_directory).summary().public.above_until
        until = "is never above that" if above is None else f"is above that up to m = {above}"
        assert f"the certified accuracy {until}." in page.text("curve-words")


def width(row, tag):
    """The width of a part of a bar, in per cent."""
    return float(row.find_element(By.TAG_NAME, tag).get_attribute("style").split()[1][:-2])
