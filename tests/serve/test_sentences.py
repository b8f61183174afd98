"""No sentence that a person reads claims more than the certificate proves, whatever the kind and wherever it stands."""

import html
import json
import re
from importlib.resources import files

import numpy as np
import pytest

from flcert.report.page import write_report
from flcert.runs.directory import RunDirectory
from flcert.runs.guarantees import guarantee_of_run
from flcert.serve.ledger import Ledger
from flcert.serve.service import Service, account_of
from tests.serve.conftest import made

CLAIM = re.compile(
    r"whatever|provabl|could have changed|keep their|stay so|keeps right|are certified|get the label", re.IGNORECASE
)
OTHERS = ("the proof does not depend on it", "public model", "how many malicious clients")  # no claims of the levels
KINDS = {
    "balanced": ("grouping.kind=balanced", "grouping.num_groups=8"),
    "enumerated": ("grouping.kind=enumerated", "grouping.group_size=2", "data.options.num_clients=7"),
    "finite aggregation": ("grouping.kind=finite-aggregation", "grouping.num_groups=8"),
}


def claims(text):
    """The sentences that claim something about malicious clients."""
    sentences = re.split(r"(?<=[.!?:])\s+(?=[A-Z])|\n", text)
    return [one for one in sentences if CLAIM.search(one) and not any(other in one.lower() for other in OTHERS)]


def check(text, guarantee):
    """The claims of a text, each with its conditions."""
    found = claims(text)
    for sentence in found:
        conditions = ("all possible groups" in sentence, f"probability {guarantee.failure_probability}" in sentence)
        assert conditions == (guarantee.probabilistic,) * 2, sentence
    return found


def words(page):
    """What a page says, the values of its script included."""
    script = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    shown = [*script["sentences"], *(one["sentence"] for one in (script["samples"] or {"inputs": []})["inputs"])]
    visible = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    return "\n".join([html.unescape(re.sub(r"<[^>]+>", "\n", visible)), *shown])


@pytest.fixture(params=["sampled", "disjoint", *KINDS])
def directory(request, tmp_path):
    if request.param == "sampled":
        return RunDirectory.open(request.getfixturevalue("sampled_directory"))
    if request.param == "disjoint":
        return RunDirectory.open(request.getfixturevalue("run_directory"))
    return RunDirectory.open(made(tmp_path, ("data.options.num_clients=20", "recipe.rounds=2", *KINDS[request.param])))


def test_the_report_claims_what_is_proved_at_every_place_of_its_slider(directory):
    page = write_report(directory).read_text()
    found = check(words(page), directory.guarantee())
    curve, inputs = directory.summary().certified_accuracy, directory.summary().inputs
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    for m, share in enumerate(curve):
        assert f"{round(share * inputs):,} of these" in data["sentences"][m]
    assert len(found) > len(curve)


def test_the_command_line_claims_what_is_proved(directory, flcert, tmp_path):
    assert check(flcert("certify", directory.path).out, directory.guarantee())
    for level in (0, 2):
        assert check(directory.guarantee().target_sentence("3", level, 2, 10), directory.guarantee())
    np.save(tmp_path / "inputs.npy", directory.inputs())
    told = flcert("predict", directory.path, tmp_path / "inputs.npy")
    assert directory.guarantee().meaning in " ".join(told.err.split())
    asked = flcert("predict", directory.path, tmp_path / "inputs.npy", "--json")
    assert json.loads(asked.out)["meaning"] == directory.guarantee().meaning


def test_the_service_tells_the_alpha_of_its_answers_from_that_of_the_curve(directory, tmp_path):
    own = directory.guarantee()
    ledger = None
    if own.probabilistic:
        ledger = Ledger(tmp_path / "ledger.json", account_of(directory, own), 0.02, 500)
    service = Service(directory, ledger=ledger)
    info, answers = service.info(), service.predict(directory.inputs())["predictions"]
    assert info["test"]["guarantee"] == own.model_dump(mode="json")
    assert check(info["test"]["caption"], own)
    assert info["meaning"] == service.guarantee.meaning
    assert any(one["level"] for one in answers)
    said = [sentence for one in answers for sentence in check(one["sentence"], service.guarantee)]
    assert len(said) == sum(one["level"] > 0 for one in answers)
    if own.probabilistic:
        assert info["guarantee"]["alpha"] == 0.02 != info["test"]["guarantee"]["alpha"]


def test_other_certificates_of_sampled_groups_are_captioned_as_what_they_are(sampled_directory):
    directory = RunDirectory.open(sampled_directory)
    other = guarantee_of_run(directory, "overlapping")
    assert check(Service(directory, other).info()["test"]["caption"], other)


def test_the_page_of_the_service_has_no_claim_of_its_own():
    page = files("flcert.serve").joinpath("page.html").read_text()
    assert [line.strip() for line in claims(page) if "info.proved" not in line] == []
    assert "info.test.caption" in page
    assert "info.meaning" in page
