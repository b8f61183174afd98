"""A page of another site cannot use the service, and answers that cost alpha need a token."""

import json
import socket
from types import SimpleNamespace

import httpx
import pytest

from flcert.datasets import load
from flcert.errors import InputError
from flcert.serve.hosts import Hosts, allowed_hosts

ONE = {"inputs": load("digits", num_clients=60).test_inputs[:1].tolist()}
ALPHA = ("--alpha", 0.05, "--predictions", 3)


def post(service, **headers):
    return httpx.post(f"{service.address}/v1/predict", json=ONE, headers=headers, timeout=60)


def test_only_requests_to_its_own_name_are_answered(run_directory, serving):
    with serving(run_directory, "--allow-host", "certified.example.org") as service:
        port = httpx.URL(service.address).port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LocalHost", f"[::1]:{port}", "certified.example.org"):
            assert (host, post(service, Host=host).status_code) == (host, 200)
        for host in (f"evil.example:{port}", "evil.example", "127.0.0.1.evil.example", "localhost@evil", "10.0.0.1"):
            for path in ("/", "/v1/info", "/v1/inputs", "/healthz", "/docs", "/nothing"):
                refused = httpx.get(service.address + path, headers={"Host": host})
                assert (host, path, refused.status_code) == (host, path, 403)
            refused = post(service, Host=host)
            assert refused.status_code == 403
            assert refused.json()["error"].startswith(f"the Host must be a name of this service, got '{host}'")
        place = httpx.URL(service.address)
        with socket.create_connection((place.host, place.port)) as old:
            old.sendall(b"GET /v1/info HTTP/1.0\r\n\r\n")
            assert b" 403 " in old.recv(4096).splitlines()[0]


def test_pages_of_other_sites_may_not_post(run_directory, serving):
    with serving(run_directory, "--allow-host", "certified.example.org") as service:
        own = service.address
        port = httpx.URL(own).port
        for origin in (own, "https://certified.example.org", "https://certified.example.org:8443"):
            assert (origin, post(service, Origin=origin).status_code) == (origin, 200)
        forwarded = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}  # through a tunnel
        assert post(service, **forwarded).status_code == 200
        for origin in (
            "http://evil.example",
            "null",
            "",
            f"http://evil.example:{port}",
            f"http://127.0.0.1:{port + 1}",
        ):
            refused = post(service, Origin=origin)
            assert (origin, refused.status_code) == (origin, 403)
            assert refused.json()["error"] == (
                f"pages of other sites may not use this service, got the Origin '{origin}'"
            )
        assert httpx.get(f"{own}/v1/info", headers={"Origin": "http://evil.example"}).status_code == 200


def test_nothing_redirects(run_directory, serving):
    with serving(run_directory) as service:
        for path in ("/v1/info/", "/swagger", "/healthz/", "//evil.example/"):
            answer = httpx.get(service.address + path, follow_redirects=False)
            assert (path, answer.status_code) == (path, 404)
            assert "location" not in answer.headers


def bound(address):
    return SimpleNamespace(getsockname=lambda: (address, 8000))


@pytest.mark.parametrize(
    ("given", "address", "allowed", "refused"),
    [
        ("127.0.0.1", "127.0.0.1", ["localhost", "127.0.0.1:8000", "[::1]"], ["10.0.0.1", "x.localhost", ""]),
        ("localhost", "::1", ["localhost:1", "[::1]:8000", "127.0.0.1"], ["[::2]", "::1", None]),
        ("box.lan", "10.0.0.1", ["box.lan:8000", "BOX.lan.", "10.0.0.1"], ["localhost", "10.0.0.2", "lan"]),
        ("0.0.0.0", "0.0.0.0", ["10.0.0.2:8000", "localhost", "[fe80::1]", "127.0.0.1"], ["evil.example", "1.2.3"]),
        ("::", "::", ["[::1]:8000", "192.168.0.1"], ["evil.example", "[evil]", "a b"]),
    ],
)
def test_a_service_answers_to_what_it_listens_on(given, address, allowed, refused):
    hosts = allowed_hosts(given, bound(address), ["certified.example.org", "fd00::1"])
    for host in (*allowed, "certified.example.org", "Certified.Example.org:443", "[FD00::1]:80"):
        assert (host, hosts.allow(host)) == (host, True)
    for host in refused:
        assert (host, hosts.allow(host)) == (host, False)


def test_a_page_at_another_address_is_another_site_wherever_the_service_listens():
    hosts = Hosts(any_address=True)
    assert hosts.allow_page("http://10.0.0.1:8000", "10.0.0.1:8000")
    assert not hosts.allow_page("http://10.0.0.66:8000", "10.0.0.1:8000")
    assert not hosts.allow_page("file://10.0.0.1:8000", "10.0.0.1:8000")


@pytest.mark.parametrize("name", ["https://certified.example.org", "a b", "*", "", "name:80", "name/path"])
def test_a_wrong_name_to_allow_is_an_error(name, flcert, run_directory):
    with pytest.raises(InputError, match="allow_host must be a name or an address without scheme and port, got"):
        allowed_hosts("127.0.0.1", bound("127.0.0.1"), [name])
    done = flcert("serve", run_directory, "--port", "0", "--allow-host", name)
    assert (done.code, f"got {name!r}" in " ".join(done.err.split())) == (2, True)


def test_answers_that_spend_alpha_need_a_token_that_only_the_operator_is_told(sampled_directory, serving, tmp_path):
    options = (*ALPHA, "--ledger", tmp_path / "ledger.json")
    tokens = []
    for _ in range(2):
        with serving(sampled_directory, *options) as service:
            tokens.append(service.token())
            told = service.log.read_text()
            assert told.count(tokens[-1]) == 1
            for advice in ("Authorization: Bearer TOKEN", "the page asks for it", "--token-file", "--no-token"):
                assert advice in told
            assert post(service).status_code == 401
            assert post(service, Authorization="Bearer wrong").status_code == 401
            right = {"Authorization": f"Bearer {tokens[-1]}"}
            assert httpx.get(f"{service.address}/v1/info").status_code == 401
            info = httpx.get(f"{service.address}/v1/info", headers=right)
            assert tokens[-1] not in info.text + httpx.get(service.address).text
            assert post(service, **right).status_code == 200
    assert tokens[0] != tokens[1]
    assert min(map(len, tokens)) >= 32
    assert json.loads((tmp_path / "ledger.json").read_text())["spent"] == 2


def test_a_token_of_the_operator_is_used_and_no_token_is_asked_for_where_that_is_said(
    sampled_directory, serving, tmp_path
):
    (tmp_path / "token").write_text("correct-horse-battery\n")
    with serving(sampled_directory, *ALPHA, "--ledger", tmp_path / "a", "--token-file", tmp_path / "token") as service:
        assert "this time" not in service.log.read_text()
        assert post(service).status_code == 401
        assert post(service, Authorization="Bearer correct-horse-battery").status_code == 200
    with serving(sampled_directory, *ALPHA, "--ledger", tmp_path / "b", "--no-token") as service:
        assert "token" not in service.log.read_text()
        assert post(service).status_code == 200


def test_certificates_that_cost_nothing_need_no_token(sampled_directory, serving):
    with serving(sampled_directory, "--certificate", "overlapping") as service:
        assert post(service).status_code == 200
        assert "token" not in service.log.read_text()
