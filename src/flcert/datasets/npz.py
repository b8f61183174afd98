"""Read npz files that strangers made: sizes are bounded before and while anything is unpacked, nothing is unpickled."""

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from flcert.core.files import size_of_file
from flcert.errors import InputError, one_line

Kept = Callable[[np.dtype[np.generic]], type[np.generic]]
"""The type in which an array of a given type will be kept."""

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MOST_MEMBERS = 64  # of a client's file
_LONGEST_DIRECTORY = 65_536  # bytes
_LONGEST_END = 66_000  # bytes of the record at the end of a zip file, with its comment
_ENCRYPTED = 1  # a flag of a member of a zip file


def read_npz(
    file: Path, arrays: Mapping[str, Kept], most: int | None, shown: str | None = None
) -> list[NDArray[np.generic]]:
    """The named arrays of an npz file, refused if it is anything else.

    Args:
        file: the file.
        arrays: the names of the arrays, each with the type in which it will be kept.
        most: the most bytes that the file, and the arrays together, as they are and as they will be kept, may have;
            None for any number.
        shown: what to call the file in messages; by default its path.
    """
    shown = shown or str(file)
    _check_size(f"{shown} has", size_of_file(file, shown), most)
    try:
        if most is not None:
            _check_directory(file)
        with ZipFile(file) as archive:
            members = {member.filename: member for member in archive.infolist()}
            chosen = [members[f"{name}.npy"] for name in arrays]
            _check_size(f"{shown} unpacks to", sum(member.file_size for member in chosen), most)
            kept = sum(_kept_bytes(archive, *one) for one in zip(chosen, arrays.values(), strict=True))
            _check_size(f"{shown}, in the types in which {' and '.join(arrays)} are kept, has", kept, most)
            return [_array(archive, member) for member in chosen]
    except InputError:
        raise
    except KeyError:
        wanted = " and ".join(map(repr, arrays))
        raise InputError(f"{shown} must hold the arrays {wanted}") from None
    except Exception as error:  # a stranger's bytes may make the readers of numpy and zip raise anything
        reason = getattr(error, "strerror", None) or one_line(str(error)) or type(error).__name__
        raise InputError(f"{shown} cannot be read as npz: {reason}") from None


def _check_directory(file: Path) -> None:
    """Refuse a zip file with more members than an npz file of examples has, before its directory is read."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _LONGEST_END))
        end = stream.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 16:
        raise ValueError("it is not a zip file")
    members = int.from_bytes(end[at + 10 : at + 12], "little")
    large = end[max(0, at - 20) : at].startswith(b"PK\x06\x07")  # a second record, with numbers of 64 bits
    if large or members > MOST_MEMBERS or int.from_bytes(end[at + 12 : at + 16], "little") > _LONGEST_DIRECTORY:
        raise ValueError(f"it may hold at most {MOST_MEMBERS} arrays")


def _check_size(what: str, size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise InputError(f"{what} {size:,} bytes, more than max_client_bytes={most:,}")


def _kept_bytes(archive: ZipFile, member: ZipInfo, kept: Kept) -> int:
    """The bytes that an array will have in the type in which it is kept, by its checked header."""
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
        raise ValueError(f"{member.filename} must be stored or deflated, and not encrypted")
    with archive.open(member) as stream:
        shape, dtype = _checked_header(stream, member)
    return prod(shape) * np.dtype(kept(dtype)).itemsize


def _array(archive: ZipFile, member: ZipInfo) -> NDArray[np.generic]:
    """One array; ``zipfile`` never gives more bytes than the directory says, if they are stored or deflated."""
    with archive.open(member) as stream:
        array: NDArray[np.generic] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _checked_header(stream: IO[bytes], member: ZipInfo) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Shape and type of an array, refused if they tell another size than its content has, before it is unpacked."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"{member.filename} is of npy version {version}, which is not read")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: nothing is unpickled")
    if dtype.subdtype is not None:  # it would be read as an array of another shape and type
        raise ValueError(f"{member.filename} must be an array of numbers, got dtype {dtype}")
    told, found = prod(shape) * dtype.itemsize, member.file_size - stream.tell()
    if min(shape, default=0) < 0 or told != found:
        raise ValueError(f"{member.filename} must have {told:,} bytes for shape {shape}, got {found:,}")
    return shape, dtype
