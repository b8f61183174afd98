"""What a connection may cost before a request has been read: bytes, seconds, and a place."""

import contextlib
import re
import socket
import time

import httpx
import psutil

START = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
MEGABYTE = 1_000_000


@contextlib.contextmanager
def connected(service):
    place = httpx.URL(service.address)
    with socket.create_connection((place.host, place.port), timeout=20) as connection:
        yield connection


def awake(service):
    return httpx.get(f"{service.address}/healthz", timeout=20).status_code == 200


def all_that_comes(connection):
    """Everything until the other side closes; a reset is a way to close."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def answer_of(connection):
    """One answer, all of it."""
    with connection.makefile("rb") as file:
        head = b"".join(iter(file.readline, b"\r\n"))
        return head + file.read(int(re.search(rb"content-length: (\d+)", head).group(1)))


def sent_until_refused(connection, data, most):
    """How many bytes went out before the other side closed."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            connection.sendall(data)
            sent += len(data)
    return sent


def open_connections(service):
    found = psutil.Process(service.process.pid).net_connections("tcp")
    return sum(one.status in ("ESTABLISHED", "CLOSE_WAIT") for one in found)


HEADERS = {
    "one long header": (START + b"X-Long: ", b"a" * 65536),
    "many headers": (START, b"X-Header: some value\r\n" * 3000),
    "a long address": (b"GET /", b"a" * 65536),
    "a header that goes on": (START + b"X-Long: a\r\n", b" and on\r\n" * 7000),
    "no HTTP": (b"", b"\x16\x03\x01\x02" * 16384),
    "empty lines": (b"", b"\r\n" * 32768),
}


def test_headers_without_end_are_cut_off_early(run_directory, serving):
    with serving(run_directory) as service:
        assert awake(service)
        before = psutil.Process(service.process.pid).memory_info().rss
        for kind, (start, more) in HEADERS.items():
            with connected(service) as connection:
                connection.sendall(start)
                assert (kind, sent_until_refused(connection, more, 64 * MEGABYTE) < 32 * MEGABYTE) == (kind, True)
                answer = all_that_comes(connection)
            assert answer == b"" or answer.split(b" ")[1] in (b"400", b"431")
            assert awake(service)
        assert psutil.Process(service.process.pid).memory_info().rss < before + 30 * MEGABYTE
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()


def test_the_limit_on_headers_is_the_same_however_they_arrive(run_directory, serving):
    with serving(run_directory) as service:
        for size in (16_300, 16_500, 100_000):
            head = START + b"Connection: close\r\nX-Long: "
            head += b"a" * (size - len(head) - 4) + b"\r\n\r\n"
            for step in (size, 8000):
                with connected(service) as connection:
                    with contextlib.suppress(ConnectionError):
                        for at in range(0, size, step):
                            connection.sendall(head[at : at + step])
                            time.sleep(0.02)
                    status = all_that_comes(connection)[9:12]
                assert status == b"200" if size < 16_384 else status in (b"431", b"")  # a reset may overtake it
        assert awake(service)


def test_slow_headers_and_idle_connections_are_cut_off(run_directory, serving):
    with serving(run_directory, "--header-seconds", 1) as service, contextlib.ExitStack() as stack:
        silent, slow, second, kept = (stack.enter_context(connected(service)) for _ in range(4))
        request = START + b"\r\n"
        for connection in (second, kept):
            connection.sendall(request)
            assert b"200 OK" in answer_of(connection)
        sent = 0
        with contextlib.suppress(ConnectionError):
            for letter in START * 3:
                for connection in (slow, second):
                    connection.sendall(bytes([letter]))
                sent += 1
                time.sleep(0.2)
        assert sent < 20
        for connection in (silent, slow, second, kept):
            assert all_that_comes(connection) == b""
        assert awake(service)
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()


def test_a_body_after_its_refusal_does_not_hold_the_connection(run_directory, serving):
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n"
    with serving(run_directory, "--header-seconds", 1) as service:
        with connected(service) as connection:
            connection.sendall(head)
            assert b" 413 " in answer_of(connection)
            begun = time.monotonic()
            with contextlib.suppress(ConnectionError):
                while time.monotonic() < begun + 15:
                    connection.sendall(b"a" * 1000)
                    time.sleep(0.05)
            assert time.monotonic() < begun + 10
        assert awake(service)


def test_an_answer_that_is_not_taken_is_given_up(run_directory, serving):
    request = b"GET /swagger/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(run_directory, "--header-seconds", 1, "--body-seconds", 1) as service:
        place = httpx.URL(service.address)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((place.host, place.port))
            connection.sendall(request * 20)
            deadline = time.monotonic() + 15
            while open_connections(service) == 0:
                assert time.monotonic() < deadline
            while open_connections(service):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert awake(service)


def test_requests_in_progress_and_connections_in_use_are_not_cut_off(run_directory, serving):
    with serving(run_directory, "--header-seconds", 1) as service, connected(service) as connection:
        for _ in range(8):
            connection.sendall(START + b"\r\n")
            assert b"200 OK" in answer_of(connection)
            time.sleep(0.4)
        body = b'{"inputs": [' + b"0," * 63 + b"0]}"
        head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n")
        time.sleep(2)
        connection.sendall(body)
        assert b"200 OK" in answer_of(connection)


def test_there_are_only_so_many_connections(run_directory, serving):
    with serving(run_directory, "--max-connections", 5) as service, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(service)) for _ in range(5)]
        for connection in held:
            connection.sendall(START + b"\r\n")
            assert b"200 OK" in answer_of(connection)
        with connected(service) as one_more:
            answer = all_that_comes(one_more)
        assert b" 503 " in answer.splitlines()[0]
        assert answer.endswith(b'{"error":"the service has as many connections as it takes; try again"}')
        held[0].close()
        deadline = time.monotonic() + 10
        while not _answers(service):
            assert time.monotonic() < deadline


def _answers(service):
    with contextlib.suppress(httpx.HTTPError):
        return awake(service)
    return False
