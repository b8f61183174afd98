"""What many tests share: a small federation, and the command line called in this process."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from selenium import webdriver

from flcert.cli.main import main
from flcert.core.store import Store
from flcert.datasets import Federation, load
from flcert.grouping import Grouping, hashed
from flcert.training import Recipe
from tests.pictures import drawn, not_drawn

os.environ.setdefault("MPLBACKEND", "agg")
settings.register_profile("flcert", deadline=None)  # a busy machine is no failure
settings.load_profile("flcert")


@pytest.fixture(scope="session", autouse=True)
def _sketches() -> Iterator[None]:
    with not_drawn():
        yield


def _pictures(request) -> Iterator[None]:
    """Real pictures in tests and modules that are marked ``draws``; elsewhere stand-ins."""
    with drawn() if request.node.get_closest_marker("draws") else nullcontext():
        yield


_pictures_of_module = pytest.fixture(scope="module", autouse=True)(_pictures)
_pictures_of_test = pytest.fixture(autouse=True)(_pictures)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def flcert(capsys, monkeypatch, tmp_path):
    """Call ``flcert ...`` in a directory of its own with a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLCERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["flcert", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    """A headless Chromium with its driver, both as Debian packages them."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no browser here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("chromium")
    flags = "headless no-sandbox disable-gpu no-first-run disable-background-networking disable-component-update"
    for flag in (*flags.split(), f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chromium
    chromium.quit()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store-of-this-test")


@pytest.fixture(scope="session")
def federation() -> Federation:
    return load("digits", num_clients=14, num_test=60)


@pytest.fixture(scope="session")
def grouping(federation: Federation) -> Grouping:
    return hashed(federation.ids, num_groups=5, key="tests")


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return Recipe(rounds=3, local_steps=2)
