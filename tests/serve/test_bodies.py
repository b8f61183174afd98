"""No body makes the service build more than the inputs that it may ask about."""

import io
import json
import threading
import time
import tracemalloc

import httpx
import numpy as np
import psutil
import pytest

from flcert.serve.requests import RefusedError, read_inputs
from flcert.serve.service import Limits

LIMITS = Limits(inputs=1000)
NOT_NUMBERS = "inputs must be numbers of ordinary size, in lists of equal length"


def read(body, shape=(64,), dtype="float32", kind="application/json", limits=LIMITS):
    return read_inputs(body, kind, limits, shape, dtype)


def as_json(inputs):
    return json.dumps({"inputs": inputs}).encode()


LONG = "a" * 1_000_000
HOSTILE = {
    "a long word": ([LONG, *[""] * 400], 422, NOT_NUMBERS),
    "a long word in lists": ([[LONG], *[[""]] * 400], 422, NOT_NUMBERS),
    "a long word, deep": ([[[LONG]], *[[[""]]] * 400], 422, "got lists of more than 2 levels"),
    "a long word among numbers": ([[0.5] * 63 + [LONG]] * 4, 422, NOT_NUMBERS),
    "a long word beside lists": ([LONG, *[[0.5] * 64] * 400], 422, NOT_NUMBERS),
    "ragged": ([[0.5] * 60_000, *[[]] * 900], 422, NOT_NUMBERS),
    "ragged and deep": ([[[[]]], [[]], []] * 300, 422, NOT_NUMBERS),
    "objects": ([{}] * 64, 422, NOT_NUMBERS),
    "nothing among numbers": ([None, *[1.5] * 63], 422, NOT_NUMBERS),
    "deep": ([[[[[1.5]]]]] * 64, 422, "each input must have shape (64,), got lists of more than 2 levels"),
    "many empty lists": ([[]] * 2_000_000, 413, "at most 1000 inputs of shape (64,) in a request"),
    "many numbers": ([1] * 2_000_000, 413, "at most 1000 inputs of shape (64,) in a request"),
    "many nested lists": ([[[[[[[[[]]]]]]]]] * 100_000, 413, "at most 1000 inputs of shape (64,) in a request"),
    "many objects": ([{}] * 500_000, 413, "at most 1000 inputs of shape (64,) in a request"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_refused_without_taking_memory(name):
    inputs, status, message = HOSTILE[name]
    body = as_json(inputs)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as refused:
            read(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.status == status
    assert message in refused.value.message
    assert len(refused.value.message) < 300
    assert peak < 40_000_000


def test_only_numbers_in_lists_of_the_right_shape_become_an_array(monkeypatch):
    made = []
    monkeypatch.setattr(np, "array", lambda *given, **_: made.append(given))
    for inputs, *_ in (*HOSTILE.values(), ([[0.5] * 63] * 3,), ([[0.5] * 64] * 1001,), ([True] * 64,)):
        with pytest.raises(RefusedError):
            read(as_json(inputs))
    assert made == []


def test_the_most_that_is_allowed_is_read():
    limits = Limits(inputs=300)
    for shape in ((64,), (8, 8), (2, 4, 8), (64, 1), (1, 1, 1, 64)):
        inputs = np.random.default_rng(0).random((300, *shape), dtype=np.float32)
        for form in (inputs, inputs.reshape(300, 64)):
            assert np.array_equal(read(as_json(form.tolist()), shape, limits=limits), inputs)
        for form in (inputs[0], inputs[0].reshape(64)):
            assert np.array_equal(read(as_json(form.tolist()), shape, limits=limits), inputs[:1])
        for one in (inputs[0], inputs, np.asfortranarray(inputs), inputs.astype(">f8")):
            assert np.array_equal(read(npy(one), shape, kind="application/x-npy"), one.reshape(-1, *shape))


def test_true_and_false_count_as_one_and_nought_beside_numbers_and_are_refused_alone():
    assert read(as_json([True, False, *[0.5] * 62]))[0, :3].tolist() == [1.0, 0.0, 0.5]
    assert read(as_json([True, 5, 7]), (3,), "int64").tolist() == [[1, 5, 7]]
    with pytest.raises(RefusedError, match="inputs must be numbers"):
        read(as_json([True] * 64))


@pytest.mark.parametrize("value", [10**400, 2**63, 1.5])
def test_words_are_whole_numbers_of_ordinary_size(value):
    with pytest.raises(RefusedError, match=r"numbers of ordinary size|must be of dtype int64, got float64"):
        read(as_json([[1, 2, value]]), (3,), "int64")


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(shape, descr="<f4", version=(1, 0)):
    """An npy file of nothing but a header that says this."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}".encode() + b"\n"
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text


LIES = {
    "a huge shape": (header((4_000_000_000, 64)), 400, "needs 1,024,000,000,000 bytes, got 0"),
    "a shape beyond 64 bits": (header((2**62, 2**62)), 400, "the body is not an npy file"),
    "a negative shape": (header((-1, 64)) + bytes(256), 400, "the body is not an npy file"),
    "values of no size": (header((10**15, 64), "|S0"), 422, "inputs must be of dtype float32, got bytes"),
    "words": (npy(np.array([[LONG], [""]])), 422, "inputs must be of dtype float32, got str"),
    "an object": (npy(np.array([{}, None])), 400, "Python objects, which are never loaded"),
    "an object in a field": (header((1,), [("a", "O")]) + bytes(64), 400, "Python objects, which are never loaded"),
    "a long header": (header((1, 64)).replace(b"\x76\x00", (60_000).to_bytes(2, "little")), 400, "not an npy file"),
    "a very long header": (b"\x93NUMPY\x02\x00" + (10**6).to_bytes(4, "little") + b"(" * 10**6, 400, "not an npy file"),
    "another version": (header((1, 64), version=(3, 0)) + bytes(256), 400, "version must be 1.0 or 2.0, got 3.0"),
    "too many": (npy(np.zeros((1001, 64), np.float32)), 413, "at most 1000 inputs in a request, got 1001"),
    "another shape": (npy(np.zeros((2, 63), np.float32)), 422, "each input must have shape (64,), got (63,)"),
    "nothing": (npy(np.zeros((0, 64), np.float32)), 422, "inputs must hold at least one input"),
}


@pytest.mark.parametrize("name", LIES)
def test_an_npy_header_is_checked_before_anything_is_allocated(name):
    body, status, message = LIES[name]
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as refused:
            read(body, kind="application/x-npy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (refused.value.status, message in refused.value.message) == (status, True), refused.value.message
    assert peak < len(body) + 5_000_000


def test_the_service_stays_small_and_awake_while_hostile_bodies_are_read(run_directory, serving):
    json_type = {"Content-Type": "application/json"}
    with serving(run_directory) as service:
        process, slowest, most, ended = psutil.Process(service.process.pid), 0.0, 0, threading.Event()
        before = process.memory_info().rss

        def watch():
            nonlocal slowest, most
            with httpx.Client(timeout=60) as client:
                while not ended.is_set():
                    begun = time.monotonic()
                    assert client.get(f"{service.address}/healthz").status_code == 200
                    slowest = max(slowest, time.monotonic() - begun)
                    most = max(most, process.memory_info().rss - before)
                    time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for name, (inputs, status, _) in HOSTILE.items():
                got = httpx.post(
                    f"{service.address}/v1/predict", content=as_json(inputs), headers=json_type, timeout=60
                )
                assert (name, got.status_code) == (name, status)
        finally:
            ended.set()
            watcher.join()
    assert slowest < 5
    assert most < 200_000_000
