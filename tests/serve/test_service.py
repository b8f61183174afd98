"""The service over real HTTP: answers are those of the run, refusals are clear, and it stops when told to."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from flcert.datasets import load
from flcert.runs.directory import RunDirectory

INPUTS = load("digits", num_clients=60).test_inputs
JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def predict(address, inputs, **options):
    return httpx.post(f"{address}/v1/predict", json={"inputs": inputs.tolist()}, timeout=60, **options)


def check_against_run(directory, rows, answer):
    """The service's answers for some rows of the test set are the votes and the certificate of the run."""
    run = RunDirectory.open(directory)
    certificate, votes = run.certificate(), run.array("votes")
    for row, one in zip(rows, answer["predictions"], strict=True):
        assert (one["label"], one["level"], one["abstained"]) == (
            certificate.labels[row],
            certificate.levels[row],
            certificate.abstained[row],
        )
        labels, counts = np.unique(votes[:, row][votes[:, row] >= 0], return_counts=True)
        assert one["votes"] == {str(label): count for label, count in zip(labels, counts, strict=True)}


def test_answers_are_the_votes_and_the_certificate_of_the_run(run_directory, serving):
    rows = list(range(0, 450, 7))
    with serving(run_directory) as service:
        one_by_one = [predict(service.address, INPUTS[row]).json() for row in rows[:20]]
        together = predict(service.address, INPUTS[rows]).json()
        binary = httpx.post(f"{service.address}/v1/predict", content=npy(INPUTS[rows]), headers=NPY).json()
    check_against_run(run_directory, rows, together)
    assert together == binary
    assert [one["predictions"][0] for one in one_by_one] == together["predictions"][:20]
    assert together["certificate"] == "disjoint"
    assert together["budget"] is None
    for one in together["predictions"]:
        assert one["level"] == min(one["takeover"].values()) - 1
        assert {*one["takeover"], str(one["label"])} == {str(label) for label in range(10)}
    best = max(together["predictions"], key=lambda one: one["level"])
    assert (
        best["sentence"]
        == f"{best['label']}, and no {best['level']} of the 60 clients together could have changed this."
    )


def test_the_client_in_the_documentation_works(run_directory, serving):
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    code = re.findall(r"```py\n(.*?)```", text, flags=re.DOTALL)[0]
    with serving(run_directory) as service:
        code = code.replace("http://127.0.0.1:8000", service.address)
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split()[0].isdigit() for line in result.stdout.splitlines()] == [True, True]


def test_what_it_tells_of_itself(run_directory, serving):
    manifest = json.loads((run_directory / "manifest.json").read_text())
    with serving(run_directory) as service:
        info = httpx.get(f"{service.address}/v1/info").json()
        inputs = httpx.get(f"{service.address}/v1/inputs").json()
        health = httpx.get(f"{service.address}/healthz")
        pages = {path: httpx.get(service.address + path) for path in ("/", "/docs", "/openapi.json")}
        script = httpx.get(f"{service.address}/swagger/swagger-ui-bundle.js")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert info["data"] == {name: value for name, value in manifest["data"].items() if name != "excluded"}
    assert info["excluded_clients"] == 0
    assert (info["groups"], info["certificate"], info["versions"]) == (15, "disjoint", manifest["versions"])
    assert (
        info["test"]["certified_accuracy"]
        == json.loads((run_directory / "summary.json").read_text())["certified_accuracy"]
    )
    assert np.array_equal(np.float32(inputs[5]["values"]), INPUTS[inputs[5]["position"]])
    assert set(pages["/openapi.json"].json()["paths"]) == {"/v1/predict", "/v1/info", "/v1/inputs", "/healthz"}
    assert script.status_code == 200
    for path in ("/", "/docs"):
        assert pages[path].status_code == 200
        assert "https://" not in pages[path].text
        assert "default-src 'self'" in pages[path].headers["Content-Security-Policy"]


SMALL = ("--max-inputs", 40, "--max-body", 100_000)
GOOD = {"inputs": INPUTS[0].tolist()}
NUMBERS = "inputs must be numbers of ordinary size, in lists of equal length"
HEADER = b"\x93NUMPY\x01\x00" + (4000).to_bytes(2, "little")
BAD = {
    "not JSON": ("{", JSON, 400, "the body is not JSON"),
    "empty": ("", JSON, 400, "the body is not JSON"),
    "deep": ("[" * 100_000, JSON, 422, "the body must have no lists within lists beyond the shape of an input"),
    "a number without end": (f'{{"inputs": [{"1" * 5000}]}}', JSON, 422, "inputs must be numbers of ordinary size"),
    "a list": ("[]", JSON, 422, 'the body must be {"inputs": [...]}'),
    "another key": ('{"inputs": [1], "more": 1}', JSON, 422, 'the body must be {"inputs": [...]}'),
    "words": ('{"inputs": "abc"}', JSON, 422, NUMBERS),
    "nothing": ('{"inputs": null}', JSON, 422, NUMBERS),
    "truth": ('{"inputs": [true, false]}', JSON, 422, NUMBERS),
    "ragged": ('{"inputs": [[1], [1, 2]]}', JSON, 422, NUMBERS),
    "huge integer": (json.dumps({"inputs": [10**400] * 64}), JSON, 422, NUMBERS),
    "no input": ('{"inputs": []}', JSON, 422, "inputs must hold at least one input"),
    "one of wrong shape": (json.dumps({"inputs": [1] * 63}), JSON, 422, "each input must have shape (64,), got (63,)"),
    "wrong shape": (json.dumps({"inputs": [[1, 2, 3]]}), JSON, 422, "each input must have shape (64,), got (3,)"),
    "NaN": (f'{{"inputs": [{"NaN, " * 63}NaN]}}', JSON, 422, "inputs must be finite, got nan in row 0"),
    "infinity": (f'{{"inputs": [{"1e999, " * 63}0]}}', JSON, 422, "inputs must be finite"),
    "too many": (json.dumps({"inputs": [[0] * 64] * 41}), JSON, 413, "at most 40 inputs in a request, got 41"),
    "too large": ("x" * 100_001, JSON, 413, "the body must have at most 100,000 bytes"),
    "not npy": (b"abc", NPY, 400, "the body is not an npy file"),
    "npy that lies": (npy(INPUTS[:2])[:200], NPY, 400, "the body is not an npy file"),
    "npy with brackets": (HEADER + b"[" * 4000, NPY, 400, "the body is not an npy file"),
    "npy with a sum": (HEADER + b"1+" * 1999 + b"1\n", NPY, 400, "the body is not an npy file"),
    "pickle": (npy(np.array([{"a": 1}], dtype=object)), NPY, 400, "the body is not an npy file"),
    "complex": (npy(np.zeros((2, 64), dtype=complex)), NPY, 422, "inputs must be of dtype float32, got complex128"),
    "no type": (json.dumps(GOOD), {}, 415, "Content-Type must be application/json or application/x-npy, got ''"),
    "another type": (json.dumps(GOOD), {"Content-Type": "text/html"}, 415, "Content-Type must be application/json"),
}


def test_bad_requests_are_refused_with_a_reason_and_the_next_good_one_is_answered(run_directory, serving):
    with serving(run_directory, *SMALL) as service:
        url = f"{service.address}/v1/predict"
        for name, (body, headers, status, message) in BAD.items():
            refused = httpx.post(url, content=body, headers=headers)
            assert (name, refused.status_code) == (name, status)
            assert message in refused.json()["error"]
            assert "Traceback" not in refused.text
            assert httpx.post(url, json=GOOD).status_code == 200
        chunks = (b"x" * 10_000 for _ in range(100))  # a body that does not say how long it is
        assert httpx.post(url, content=chunks, headers=JSON).status_code == 413
        assert httpx.get(url).status_code == 405
        assert httpx.get(f"{service.address}/nothing").json()["error"].startswith("there is nothing at /nothing")
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()


def test_a_token_is_asked_for(run_directory, serving, tmp_path):
    file = tmp_path / "token"
    file.write_text("correct-horse-battery\n")
    with serving(run_directory, "--token-file", file) as service:
        assert "this service has a token" in httpx.get(f"{service.address}/v1/info").json()["error"]
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "correct-horse-battery"}):
            for path in ("/v1/info", "/v1/inputs"):
                refused = httpx.get(service.address + path, headers=headers)
                assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert predict(service.address, INPUTS[0], headers=headers).status_code == 401
            said = predict(service.address, INPUTS[0], headers=headers).json()["error"]
            assert ("the token is not the service's" in said) == bool(headers)
        for scheme in ("Bearer", "bearer"):
            right = {"Authorization": f"{scheme} correct-horse-battery"}
            assert predict(service.address, INPUTS[0], headers=right).status_code == 200
        assert httpx.get(f"{service.address}/healthz").status_code == 200
        assert httpx.get(f"{service.address}/").status_code == 200


def test_it_works_in_a_locale_without_letters_beyond_ascii(run_directory, serving):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with serving(run_directory, **locale) as service:
        page = httpx.get(f"{service.address}/")
    assert page.status_code == 200
    assert page.content == files("flcert.serve").joinpath("page.html").read_bytes()
    assert not page.content.isascii()


def test_under_load_with_rubbish_every_good_request_is_answered_right_and_memory_stays(run_directory, serving):
    run = RunDirectory.open(run_directory)
    certificate = run.certificate()
    with serving(run_directory, *SMALL) as service:
        process = psutil.Process(service.process.pid)

        def client(number):
            wrong = []
            with httpx.Client(timeout=120) as connection:
                for step in range(12):
                    row = (37 * number + step) % 450
                    if number % 3 == 0:
                        body, headers, status, _ = list(BAD.values())[(number + step) % len(BAD)]
                        got = connection.post(f"{service.address}/v1/predict", content=body, headers=headers)
                        wrong += [] if got.status_code == status else [got.status_code]
                        continue
                    got = connection.post(f"{service.address}/v1/predict", json={"inputs": INPUTS[row].tolist()})
                    answer = got.json()["predictions"][0]
                    right = (answer["label"], answer["level"]) == (certificate.labels[row], certificate.levels[row])
                    wrong += [] if right else [row]
            return wrong

        def wave():
            with ThreadPoolExecutor(30) as pool:
                return [one for found in pool.map(client, range(30)) for one in found]

        assert wave() == []
        settled = process.memory_info().rss
        assert [wave() for _ in range(3)] == [[], [], []]
        assert process.memory_info().rss < settled + 40_000_000
        assert service.stop() == 0


def test_more_requests_than_it_may_have_in_hand_are_told_to_come_back(run_directory, serving):
    with serving(run_directory, "--concurrency", 2) as service:
        begun, ended = threading.Semaphore(0), threading.Event()

        def slow():
            begun.release()
            yield b'{"inputs": '
            ended.wait(30)
            yield json.dumps(INPUTS[0].tolist()).encode() + b"}"

        url = f"{service.address}/v1/predict"
        with ThreadPoolExecutor(2) as pool:
            held = [pool.submit(httpx.post, url, content=slow(), headers=JSON, timeout=60) for _ in range(2)]
            for _ in held:
                begun.acquire()
            for _ in range(200):  # until both are in hand
                refused = predict(service.address, INPUTS[0])
                if refused.status_code == 503:
                    break
            ended.set()
            assert refused.json()["error"] == "2 requests are in hand already; try again"
            assert [one.result().status_code for one in held] == [200, 200]
        assert predict(service.address, INPUTS[0]).status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_finishes_what_it_has_in_hand_when_it_is_stopped(run_directory, serving, number):
    with serving(run_directory) as service, ThreadPoolExecutor(1) as pool:
        begun, told = threading.Event(), threading.Event()

        def slow():
            yield b'{"inputs": '
            begun.set()
            told.wait(30)
            yield json.dumps(INPUTS[0].tolist()).encode() + b"}"

        held = pool.submit(httpx.post, f"{service.address}/v1/predict", content=slow(), headers=JSON, timeout=60)
        begun.wait(30)
        assert predict(service.address, INPUTS[0]).status_code == 200  # so the first one has arrived too
        service.process.send_signal(number)
        time.sleep(0.5)
        assert service.process.poll() is None
        told.set()
        assert held.result().status_code == 200
        assert service.process.wait(timeout=60) == 0
        assert service.log.read_text().endswith("stopped\n")
        with pytest.raises(httpx.ConnectError):
            predict(service.address, INPUTS[0])


BEGUN = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nabc"


def test_bodies_that_stall_or_break_off_leave_no_traceback(run_directory, serving):
    with serving(run_directory, "--body-seconds", 1) as service:
        place = httpx.URL(service.address)
        with socket.create_connection((place.host, place.port)) as broken:
            broken.sendall(BEGUN)
        with socket.create_connection((place.host, place.port)) as stalled:
            stalled.sendall(BEGUN)
            stalled.settimeout(30)
            answer = stalled.recv(4096)
        assert b"408" in answer.splitlines()[0]
        assert predict(service.address, INPUTS[0]).status_code == 200
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()


@pytest.mark.slow
def test_a_body_that_never_ends_is_told_that_the_service_stops(run_directory, serving):
    with serving(run_directory) as service:
        place = httpx.URL(service.address)
        with socket.create_connection((place.host, place.port)) as stalled:
            stalled.sendall(BEGUN)
            assert predict(service.address, INPUTS[0]).status_code == 200
            assert service.stop() == 0
            answer = stalled.recv(4096)
        assert b"503" in answer.splitlines()[0]
        assert b'{"error":"the service is stopping"}' in answer
        assert "Traceback" not in service.log.read_text()
