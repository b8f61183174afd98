"""Files of data sets: where they are kept, how they are read and checked, and how they are fetched."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from flcert.core.files import writable_directory, write_atomic
from flcert.datasets.catalogue import Source
from flcert.datasets.fetch import Report, fetch, read_members, unpacked
from flcert.errors import InputError, IntegrityError, RunError

UNCHECKED = "unchecked"  # the note of files whose digests were not checked

_SCRATCH = ".fetching-"


@dataclass(frozen=True)
class State:
    """What is known about one file.

    Args:
        name: the file's name.
        path: where it is, or would be.
        found: "present", "missing" or "damaged" (its digest is none of those recorded).
        note: "" for the published file, otherwise what the file is instead.
    """

    name: str
    path: Path
    found: str
    note: str = ""


def data_directory(directory: Path | None = None) -> Path:
    """``directory``, or ``$FLCERT_DATA``, or ``data`` in flcert's cache directory; each data set has a folder there."""
    if directory or os.environ.get("FLCERT_DATA"):
        return directory or Path(os.environ["FLCERT_DATA"])
    cache = os.environ.get("FLCERT_CACHE")
    return (Path(cache) if cache else user_cache_path("flcert")) / "data"


def read_files(source: Source, directory: Path | None = None, check: bool = True) -> tuple[dict[str, bytes], str]:
    """The unpacked content of each file, and a note on what they are.

    Args:
        source: the files.
        directory: as for ``data_directory``.
        check: whether to refuse files whose digest is not recorded. Without it the note is "unchecked".

    Returns:
        The contents by file name; the note is "" for the published files.

    Raises:
        InputError: a file is missing; the message says how to get it.
        IntegrityError: a file is not what its digest says.
    """
    name, contents, notes = source.name, {}, set()
    folder = data_directory(directory) / name
    for file in source.files:
        path = _present(folder, file)
        if path is None:
            raise InputError(
                f"data set {name!r}: {folder / file} is missing; run: flcert data get {name}{_dir(directory)}"
            )
        contents[file] = _read(path, source.largest if check else None)
        notes.add(_checked_note(source, file, contents[file], path) if check else UNCHECKED)
    return contents, ", ".join(sorted(notes - {""}))


def _checked_note(source: Source, file: str, content: bytes, path: Path) -> str:
    """The note of a file that is about to be used; if its digest is wrong, the message says what to do."""
    try:
        return _note(source, file, content, path)
    except IntegrityError as error:
        raise IntegrityError(f"{error}; run: flcert data get {source.name}, or set data.options.check=false") from None


def titled(name: str, note: str) -> str:
    """The name of a federation; if its files are not the published ones, the name says so."""
    return f"{name} ({note})" if note else name


def present(source: Source, directory: Path | None = None) -> bool:
    """Whether all files are there; ``verify`` checks their digests."""
    folder = data_directory(directory) / source.name
    return all(_present(folder, file) for file in source.files)


def verify(source: Source, directory: Path | None = None) -> list[State]:
    """The state of each file, by its digest."""
    folder = data_directory(directory) / source.name
    return [_state(source, file, folder) for file in source.files]


def get(source: Source, directory: Path | None = None, *, given: Path | None = None, report: Report) -> list[str]:
    """Put the files, and those they need, into the data directory.

    Files that are already there with the right digest stay. The others come from ``given`` alone, or, without it, from
    the first origin that has them. A file gets its name only after its digest was checked.

    Args:
        source: the files.
        directory: as for ``data_directory``.
        given: a user's directory that holds the files, directly or in a folder with the source's name.
        report: called while something is fetched.

    Returns:
        What was done, in sentences.

    Raises:
        InputError: ``given`` lacks a file.
        IntegrityError: a file in it is not what its digest says.
        RunError: no origin has them; the message says what to download, from where, and where to put it.
    """
    if given is not None and not given.is_dir():
        raise InputError(f"{given} is not a directory that could hold the files of {source.name}")
    done: list[str] = []
    for wanted in (source, *source.needs):
        folder = data_directory(directory) / wanted.name
        lacking = [state.name for state in verify(wanted, directory) if state.found != "present"]
        if not lacking:
            done.append(f"{wanted.name}: all files are in {folder}")
            continue
        writable_directory(folder)
        done += _get_files(wanted, folder, lacking, given, report)
    return done


def _get_files(source: Source, folder: Path, lacking: list[str], given: Path | None, report: Report) -> list[str]:
    """Try each origin for the files that are still missing."""
    name, done, reasons, left = source.name, [], [], list(lacking)
    for where, files in _offers(source, folder, left, given, report):
        before = len(left)
        try:
            for file, content in files:
                note = _note(source, file, content, Path(where))
                write_atomic(folder / file, content)
                left.remove(file)
                done += [f"{name}: {file} is not the published file ({note})"] if note else []
        except (RunError, IntegrityError) as error:
            reasons.append(f"{where}: {error}")
        if before > len(left):
            done.append(f"{name}: {before - len(left)} files from {where} to {folder}")
        if not left:
            return done
    if given is not None:
        raise _not_given(name, given, left, reasons)
    raise RunError(_instructions(source, folder, left, reasons))


def _offers(
    source: Source, folder: Path, left: list[str], given: Path | None, report: Report
) -> Iterator[tuple[str, Iterator[tuple[str, bytes]]]]:
    """The name of each origin and an iterator over its files; the caller shrinks ``left`` meanwhile."""
    if given is not None:
        yield str(given), _from_directory(given, source, list(left))
        for origin in source.origins:
            archive = given / origin.address.rpartition("/")[2]
            if origin.kind == "web" and origin.inside and archive.is_file():
                members = {origin.inside.format(name=file): file for file in left}
                yield str(archive), read_members([archive], members, source.largest)
        return
    for origin in source.origins:
        with _scratch(folder) as scratch:
            yield str(origin), fetch(origin, list(left), scratch, report, source.largest)


def _from_directory(given: Path, source: Source, files: list[str]) -> Iterator[tuple[str, bytes]]:
    """Those of the files that a user's directory holds."""
    for file in files:
        path = _present(given, file) or _present(given / source.name, file)
        if path is not None:
            yield file, _read(path, source.largest)


def _not_given(name: str, given: Path, left: list[str], reasons: list[str]) -> InputError | IntegrityError:
    """What to say if a user's directory does not hold all files, or not the right ones."""
    if reasons:
        return IntegrityError(f"data set {name!r}: {'; '.join(reasons)}; with --from nothing is downloaded")
    more = f" ({len(left)} files are missing: {', '.join(left)})" if len(left) > 1 else ""
    lacking = f"{given} holds neither {left[0]} nor {left[0]}.gz{more}"
    return InputError(f"data set {name!r}: {lacking}; with --from nothing is downloaded")


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A temporary directory, deleted afterwards; those of commands killed over an hour ago are deleted too."""
    for old in folder.glob(f"{_SCRATCH}*"):
        if old.stat().st_mtime < time.time() - 3600:
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
        yield Path(scratch)


def _present(folder: Path, file: str) -> Path | None:
    """The file, plain or gzipped, if it exists."""
    return next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)


def _read(path: Path, most: int | None) -> bytes:
    try:
        return unpacked(path.read_bytes(), most)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except RunError as error:
        raise IntegrityError(f"{path}: {error}") from None


def _note(source: Source, file: str, content: bytes, path: Path) -> str:
    """The note recorded for the digest of the content."""
    found = hashlib.sha256(content).hexdigest()
    if found not in source.files[file]:
        expected = " or ".join(source.files[file])
        where = str(path) if path.name.startswith(file) else f"{path}: {file}"
        raise IntegrityError(f"{where} must have the SHA-256 {expected}, got {found}")
    return source.files[file][found]


def _state(source: Source, file: str, folder: Path) -> State:
    path = _present(folder, file)
    if path is None:
        return State(file, folder / file, "missing")
    try:
        return State(file, path, "present", _note(source, file, _read(path, source.largest), path))
    except IntegrityError:
        return State(file, path, "damaged")


def _instructions(source: Source, folder: Path, left: list[str], reasons: list[str]) -> str:
    addresses = [origin.address for origin in source.origins if origin.kind == "web"] or [str(source.origins[0])]
    places = "\n".join(f"  {address}" for address in addresses)
    tried = "\n".join(f"  {reason};" for reason in reasons)
    return (
        f"data set {source.name!r} could not be downloaded:\n{tried}\nDownload {', '.join(left)} from\n{places}\n"
        f"and put it into {folder} (plain or .gz), or run: flcert data get {source.name} --from DIRECTORY"
    )


def _dir(directory: Path | None) -> str:
    return f" --data-dir {directory}" if directory else ""
