"""Files that were altered, truncated or belong to another run are noticed, never used."""

import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from flcert.certify.ranks import FILES as RANKS
from flcert.core import plugins
from flcert.core.store import Store
from flcert.engines import Inline
from flcert.pipeline.run import run
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory
from flcert.runs.seal import COVERED
from flcert.training import train
from tests.sealing import change_manifest, seal

SMALL = ("--clients", 12, "--groups", 4, "--rounds", 2, "--engine", "inline", "--out", "run")


def flip_a_bit(raw):
    return raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]


DAMAGE = {
    "a flipped bit": flip_a_bit,
    "cut short": lambda raw: raw[: len(raw) // 2],
    "emptied": lambda _: b"",
    "another header length": lambda raw: b"\xff" * 8 + raw[8:],
    "no digest": lambda raw: raw.replace(b"digest", b"digesT", 1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_stored_model_is_trained_again(damage, federation, grouping, recipe, store):
    ensemble = train(federation, grouping, recipe, engine=Inline(), store=store)
    path = store.path(next(iter(ensemble.model_keys().values())))
    sound = path.read_bytes()
    path.write_bytes(DAMAGE[damage](sound))
    again = train(federation, grouping, recipe, engine=Inline(), store=store)
    assert (again.trained, again.damaged) == (1, 1)
    assert path.read_bytes() == sound


def test_a_model_under_another_s_key_is_not_used(federation, grouping, recipe, store):
    ensemble = train(federation, grouping, recipe, engine=Inline(), store=store)
    first, second = list(ensemble.model_keys().values())[:2]
    store.path(first).write_bytes(store.path(second).read_bytes())
    assert train(federation, grouping, recipe, engine=Inline(), store=store).damaged == 1


def test_votes_that_were_altered_are_cast_again(flcert, tmp_path):
    assert flcert("run", *SMALL).code == 0
    sound = (tmp_path / "run" / "votes.npy").read_bytes()
    altered = [entry for entry in Store().entries() if entry.stat().st_size < 5000]  # votes, not models
    assert altered
    for entry in altered:
        entry.write_bytes(flip_a_bit(entry.read_bytes()))
    assert flcert("run", *SMALL).code == 0
    assert (tmp_path / "run" / "votes.npy").read_bytes() == sound


@pytest.mark.parametrize("damage", DAMAGE)
def test_predict_refuses_a_damaged_model_and_another_run_mends_it(damage, flcert, tmp_path):
    flcert("run", *SMALL)
    np.save(tmp_path / "inputs.npy", np.zeros((1, 64)))
    model = next((tmp_path / "run" / "models").iterdir())
    model.write_bytes(DAMAGE[damage](model.read_bytes()))
    result = flcert("predict", "run", "inputs.npy")
    assert result.code == 1
    assert f"{model.name} was altered or cut short; it is not used" in result.err
    assert flcert("run", *SMALL).code == 0
    assert flcert("predict", "run", "inputs.npy").code == 0


def test_a_run_directory_outlives_the_store(flcert, tmp_path):
    flcert("run", *SMALL)
    np.save(tmp_path / "inputs.npy", np.zeros((1, 64)))
    before = flcert("predict", "run", "inputs.npy").out
    assert flcert("store", "prune", "--days", 0).code == 0
    assert not list(Store().entries())
    (tmp_path / "run").rename(tmp_path / "moved")
    assert flcert("predict", "moved", "inputs.npy").out == before


def test_a_run_directory_of_another_configuration_is_refused(flcert):
    flcert("run", *SMALL)
    result = flcert("run", *SMALL, "--seed", 1)
    assert result.code == 2
    assert "run holds a run of another configuration" in result.err


def test_a_directory_that_is_no_run_is_refused(flcert, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("precious")
    result = flcert("run", *SMALL)
    assert result.code == 2
    assert "run is not empty and not a run" in result.err


def test_certify_notices_a_certificate_that_does_not_follow_from_the_votes(flcert, tmp_path):
    flcert("run", *SMALL)
    assert flcert("certify", "run").code == 0
    votes = np.load(tmp_path / "run" / "votes.npy")
    votes[:, 0] = (votes[:, 0] + 1) % 10
    np.save(tmp_path / "run" / "votes.npy", votes)
    seal(tmp_path / "run")
    result = flcert("certify", "run")
    assert result.code == 1
    assert "the recorded certificate does not follow from the votes" in result.err


@pytest.mark.parametrize(("change", "code"), [(1, 1), (-1, 0)])
def test_certify_refuses_levels_above_what_the_votes_prove_and_tells_of_lower_ones(flcert, tmp_path, change, code):
    flcert("run", *SMALL)
    before = flcert("certify", "run").out
    path = tmp_path / "run" / "certificate.npz"
    recorded = dict(np.load(path))
    best = int(recorded["levels"].argmax())
    recorded["levels"][best] += change
    np.savez(path, **recorded)
    seal(tmp_path / "run")
    result = flcert("certify", "run")
    assert result.code == code
    expected = "does not follow from the votes" if code else "recorded lower levels than its votes prove"
    assert expected in " ".join(result.err.split())
    assert code or result.out == before


def damaged(directory, how):
    if how == "shorter":
        buffer = io.BytesIO()
        np.save(buffer, np.zeros(3, dtype=np.int64))
        return buffer.getvalue()
    manifest = json.loads((directory / "run" / "manifest.json").read_text())
    manifest["data" if how == "labels" else "guarantee"][how] = "nonsense"
    return json.dumps(manifest).encode()


def test_the_report_refuses_a_summary_that_is_not_one(flcert, tmp_path):
    flcert("run", *SMALL)
    (tmp_path / "run" / "summary.json").write_text("{}")
    seal(tmp_path / "run")
    result = flcert("report", "run")
    assert result.code == 2
    assert "summary.json is damaged: certificate is needed, but was not given" in result.err


def test_a_file_where_the_models_should_be_gives_a_message(flcert, tmp_path):
    flcert("run", *SMALL)
    shutil.rmtree(tmp_path / "run" / "models")
    (tmp_path / "run" / "models").write_text("in the way")
    result = flcert("run", *SMALL)
    assert result.code == 1
    assert "cannot write run/models" in result.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("certificate.npz", b""),
        ("certificate.npz", b"PK"),
        ("manifest.json", b"[]"),
        ("manifest.json", b"{}"),
        ("manifest.json", b"{"),
        ("manifest.json", "labels"),
        ("manifest.json", "kind"),
        ("votes.npy", b""),
        ("truth.npy", "shorter"),
    ],
)
def test_a_forged_run_directory_that_makes_no_sense_gives_a_message(flcert, tmp_path, name, content):
    flcert("run", *SMALL)
    (tmp_path / "run" / name).write_bytes(content if isinstance(content, bytes) else damaged(tmp_path, content))
    if name != "manifest.json" or isinstance(content, str):
        seal(tmp_path / "run")
    result = flcert("certify", "run")
    assert result.code == 2
    assert name in result.err
    assert "unexpected" not in result.err
    assert "unexpected" not in flcert("report", "run").err
    assert flcert("run", *SMALL).code == 0
    assert flcert("certify", "run").code == 0


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A run with every file that a run can have, except those of public models."""
    place = tmp_path_factory.mktemp("everything")
    settings = ["data.options.num_clients=12", "grouping.num_groups=4", "recipe.rounds=2", "recipe.evaluate_at=[1]"]
    config = load_config(None, [*settings, "certificate.also=['runoff']"])
    run(config, place / "run", engine=Inline(), store=Store(place / "cache"))
    np.save(place / "inputs.npy", np.zeros((1, 64)))
    return place


READERS = {
    "certify": ("certify", "run"),
    "certify by another certificate": ("certify", "run", "--also", "overlapping"),
    "report": ("report", "run"),
    "predict": ("predict", "run", "inputs.npy"),
    "compare": ("compare", "run"),
    "forget": ("forget", "run", "client-0001", "--engine", "inline"),
    "compress": ("compress", "run", "--dtype", "int8"),
    "plan": ("plan", "--run", "run"),
    "serve": ("serve", "run", "--port", 0),
}
FILES = (*(name for name in COVERED if "public" not in name and "trusted" not in name), "manifest.json")


def test_every_file_that_a_run_writes_is_covered_by_a_digest_or_never_read(everything):
    """A new kind of file must be put into COVERED."""
    files = {path.relative_to(everything / "run") for path in (everything / "run").rglob("*") if path.is_file()}
    others = {str(path) for path in files if path.parts[0] not in ("models", "figures")}
    assert others - {*COVERED} == {"manifest.json", "report.html"}
    assert set(FILES) - {*RANKS[1:]} == others - {"report.html"}


@pytest.mark.parametrize("name", [name for name in FILES if name not in RANKS[1:]])
def test_no_command_says_anything_about_a_run_with_a_changed_byte_or_without_a_file(flcert, everything, tmp_path, name):
    file = shutil.copytree(everything / "run", tmp_path / "run") / name
    shutil.copy(everything / "inputs.npy", tmp_path)
    raw = file.read_bytes()
    digit = next(at for at in range(len(raw) // 2, len(raw)) if raw[at : at + 1].isdigit() or name.endswith("npy"))
    for content in (raw[:digit] + bytes([raw[digit] ^ 1]) + raw[digit + 1 :], None):
        file.unlink() if content is None else file.write_bytes(content)
        for command in ("certify", "report", "predict"):
            result = flcert(*READERS[command])
            assert result.code in (1, 2), command
            assert name in result.err, command
            assert (result.out, len(result.err.splitlines())) == ("", 1), command


@pytest.mark.parametrize("command", READERS)
def test_each_command_that_reads_a_run_checks_its_files_first(flcert, everything, tmp_path, command):
    file = shutil.copytree(everything / "run", tmp_path / "run") / "truth.npy"
    shutil.copy(everything / "inputs.npy", tmp_path)
    file.write_bytes(flip_a_bit(file.read_bytes()))
    result = flcert(*READERS[command])
    assert (result.code, result.out) == (1, "")
    assert "run/truth.npy is not as the run wrote it" in result.err


@pytest.mark.parametrize("content", [b"{}", b"", None], ids=["another", "empty", "gone"])
def test_repeating_a_run_mends_its_configuration(flcert, tmp_path, content):
    flcert("run", *SMALL)
    file = tmp_path / "run" / "config.json"
    sound = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    assert flcert("certify", "run").code in (1, 2)
    refused = flcert("run", *SMALL, "--seed", 1)
    assert refused.code == 2, refused.out
    assert flcert("run", *SMALL).code == 0
    assert file.read_bytes() == sound
    assert flcert("certify", "run").code == 0


@pytest.mark.parametrize("field", ["num_clients", "num_groups", "num_failed"])
def test_the_guarantee_is_derived_and_a_manifest_that_names_another_is_refused(flcert, everything, tmp_path, field):
    copy = shutil.copytree(everything / "run", tmp_path / "run")
    shutil.copy(everything / "inputs.npy", tmp_path)
    change_manifest(copy, lambda values: values["guarantee"].update({field: values["guarantee"][field] + 1}))
    for command in ("certify", "report", "predict", "serve"):
        result = flcert(*READERS[command])
        assert result.code == 1, command
        assert f"records another guarantee than follows from the configuration and the groups: {field}" in result.err


def test_a_run_of_an_earlier_version_has_no_digests_and_is_read(flcert, everything, tmp_path):
    copy = shutil.copytree(everything / "run", tmp_path / "run")
    values = json.loads((copy / "manifest.json").read_text())
    del values["files"], values["digest"]
    (copy / "manifest.json").write_text(json.dumps(values))
    assert flcert("certify", "run").code == 0
    assert RunDirectory.open(copy).manifest().files == {}


def test_predict_refuses_a_model_whose_source_was_edited(flcert, tmp_path):
    text = "from flcert.models.mlp import MLP\nclass Net(MLP):\n    pass\n"
    (tmp_path / "edited_net.py").write_text(text)
    np.save(tmp_path / "inputs.npy", np.zeros((1, 64)))
    assert flcert("run", *SMALL, "--set", "recipe.model=edited_net:Net").code == 0
    assert flcert("predict", "run", "inputs.npy").code == 0
    (tmp_path / "edited_net.py").write_text(text + "    def forward(self, x): return -super().forward(x)\n")
    plugins._digests.clear()  # as in a process that starts now
    result = flcert("predict", "run", "inputs.npy")
    assert result.code == 1
    assert "is not as it was when this run was trained" in result.err


@pytest.mark.parametrize("limit", [2_000, 60_000])
@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_disk_that_takes_no_more_gives_a_message_and_leaves_no_scraps(limit, engine, tmp_path):
    """A limit on the size of files makes writes fail in the middle, as a full disk does."""
    script = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        "from flcert.cli.main import main; main()"
    )
    options = ["--clients", "12", "--groups", "4", "--rounds", "2", "--engine", engine, "--cache", "c", "--out", "run"]
    result = subprocess.run(
        [sys.executable, "-c", script, "run", *options], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 1, result.stderr
    assert "cannot write" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.rglob("*.tmp"))
