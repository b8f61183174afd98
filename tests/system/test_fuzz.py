"""Whatever bytes a file or a request holds, flcert answers, or refuses in one line; it never breaks.

Each test starts from something sound and damages it. The short version is part of the usual tests, the long one runs
with ``-m slow``.
"""

import contextlib
import io
import json
import shutil
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flcert import datasets
from flcert.cli.main import main
from flcert.core.store import Store
from flcert.engines import Inline
from flcert.errors import FlcertError
from flcert.pipeline.run import run
from flcert.runs.config import load_config
from flcert.runs.seal import COVERED
from flcert.serve.requests import RefusedError, read_inputs
from flcert.serve.service import Limits

SHAPE = (2, 3)
LENGTHS = [
    pytest.param(40, id="short"),
    pytest.param(4000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**members):
    """An archive of files, as NumPy makes it of arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, raw in members.items():
            archive.writestr(f"{name}.npy", raw)
    return buffer.getvalue()


@st.composite
def damaged(draw, sound):
    """A sound file with some bytes replaced, left out, repeated or put in."""
    raw = bytearray(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 12)))
        raw[start:end] = draw(st.one_of(st.binary(max_size=12), st.just(bytes(raw[start:end] * 2)), st.just(b"")))
    return bytes(raw)


def call(*arguments):
    """The exit code and the standard error of a command."""
    err = io.StringIO()
    before = sys.argv
    sys.argv = ["flcert", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        return int(stop.code or 0), err.getvalue()
    finally:
        sys.argv = before
    return 0, err.getvalue()


def each(number, strategy, test):
    """Call a test with that many examples."""
    settings(max_examples=number, suppress_health_check=QUIET)(given(strategy)(test))()


VOTES = np.random.default_rng(0).integers(-1, 4, (7, 5))


@pytest.mark.parametrize("number", LENGTHS)
def test_any_vote_table_is_certified_or_refused(number, tmp_path):
    tables = {
        "csv": ["\n".join(",".join(map(str, row)) for row in VOTES).encode(), b"0;1\n,2\n", "0,1\n\u0661,2\n".encode()],
        "npy": [npy(VOTES), npy(VOTES.astype(np.float32)), npy(VOTES.astype(np.uint8)), npy(np.array(["a", "b"]))],
    }

    def test(table):
        suffix, raw = table
        file = tmp_path / f"votes.{suffix}"
        file.write_bytes(raw)
        code, err = call("certify", file)
        assert code in (0, 2), err
        assert code == 0 or len(err.splitlines()) == 1
        assert "FLCERT_TRACEBACK" not in err

    kinds = st.sampled_from(sorted(tables))
    each(2 * number, kinds.flatmap(lambda kind: st.tuples(st.just(kind), damaged(tables[kind]))), test)


@pytest.mark.parametrize("number", LENGTHS)
def test_any_client_file_is_loaded_refused_or_left_out(number, tmp_path):
    labels = np.array([0, 1, 0, 1])
    sound = npz(inputs=npy(np.ones((4, 3), dtype=np.float32)), labels=npy(labels))
    (tmp_path / "clients").mkdir()
    for name in ("test", "clients/a", "clients/b"):
        (tmp_path / f"{name}.npz").write_bytes(sound)

    def test(raw):
        (tmp_path / "clients" / "b.npz").write_bytes(raw)
        with contextlib.suppress(FlcertError):
            datasets.load("folder", path=str(tmp_path))
        kept = datasets.load("folder", path=str(tmp_path), on_bad_client="exclude")
        assert kept.ids == ("a", "b")
        inputs, labels = kept.client(1)
        assert inputs.shape == (len(labels), 3)
        assert np.isfinite(inputs).all()
        assert set(labels.tolist()) <= {0, 1}

    inputs = damaged([npy(np.ones((4, 3))), npy(np.ones((4, 3), dtype=np.float16)), npy(np.eye(3, dtype=np.int64))])
    numbers = damaged([npy(labels), npy(labels.astype(np.uint8)), npy(labels.astype(bool))])
    each(number, damaged([sound]) | st.builds(npz, inputs=inputs, labels=numbers), test)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=30,
)
BODIES = st.one_of(
    JSON.map(lambda value: json.dumps({"inputs": value}).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    damaged([json.dumps({"inputs": np.ones((3, *SHAPE)).tolist()}).encode(), b'{"inputs": [[1, 2, 3], [4, 5, 6]]}']),
    damaged([npy(np.ones((3, *SHAPE), dtype=np.float32)), npy(np.ones((3, 6))), npy(np.ones((2, 6), dtype=np.int8))]),
)


@pytest.mark.parametrize("number", LENGTHS)
@pytest.mark.parametrize("kind", ["application/json", "application/x-npy"])
def test_any_request_gives_finite_inputs_or_a_refusal(number, kind):
    def test(body):
        with contextlib.suppress(RefusedError):
            inputs = read_inputs(body, kind, Limits(inputs=10), SHAPE, "float32")
            assert inputs.shape[1:] == SHAPE
            assert 1 <= len(inputs) <= 10
            assert np.isfinite(inputs).all()

    each(number, BODIES, test)


@pytest.mark.parametrize("number", LENGTHS)
def test_any_damage_to_a_file_of_a_run_is_noticed(number, tmp_path):
    config = load_config(None, ["data.options.num_clients=6", "grouping.num_groups=2", "recipe.rounds=1"])
    run(config, tmp_path / "run", engine=Inline(), store=Store(tmp_path / "cache"))
    sound = {
        name: (tmp_path / "run" / name).read_bytes()
        for name in (*COVERED, "manifest.json")
        if (tmp_path / "run" / name).exists()
    }
    shutil.copytree(tmp_path / "run", tmp_path / "copy")

    def test(change):
        name, raw = change
        (tmp_path / "copy" / name).write_bytes(raw)
        code, err = call("certify", tmp_path / "copy")
        (tmp_path / "copy" / name).write_bytes(sound[name])
        if raw != sound[name] and not (name == "manifest.json" and _same_values(raw, sound[name])):
            assert code in (1, 2), name
            assert len(err.splitlines()) == 1
            assert "FLCERT_TRACEBACK" not in err

    names = st.sampled_from(sorted(sound))
    each(number, names.flatmap(lambda name: st.tuples(st.just(name), damaged([sound[name]]))), test)


def _same_values(raw, sound):
    """Whether a manifest was changed only in what JSON ignores, such as spaces."""
    with contextlib.suppress(ValueError):
        return json.loads(raw) == json.loads(sound)
    return False
