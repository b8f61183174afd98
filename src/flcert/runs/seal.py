"""Digests of a run's files: a changed byte is noticed before a command says anything about the run.

The manifest holds the digest of every file that commands read, and one of itself. Models have digests of their own (see
``flcert.core.store``), which are checked when a model is used. The report and the figures are covered by none: no
command reads them, and `flcert report` draws them again. Digests have no key, so they detect damage, not forgery.
"""

from pathlib import Path
from typing import Any

from flcert.certify.ranks import FILES as RANKS
from flcert.core.digest import digest, digest_json
from flcert.core.files import read_json
from flcert.errors import InputError, IntegrityError

COVERED = (
    "config.json",
    "groups.json",
    "votes.npy",
    "public.npy",
    "public.safetensors",
    "trusted.npy",
    "truth.npy",
    "certificate.npz",
    "certificate.csv",
    "curve.csv",
    "rounds.csv",
    "summary.json",
    *RANKS,
    "samples.json",
    "inputs.npy",
)
"""The files of a run directory that the manifest has digests of, as far as a run has them."""


def sealed(directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The values of a manifest with the digests of the files beside it, and of themselves."""
    dropped = sorted(str(path.relative_to(directory)) for path in directory.glob("dropped/*.json"))
    names = [name for name in (*COVERED, *dropped) if (directory / name).exists()]
    files = {name: digest((directory / name).read_bytes()) for name in names}
    return _with_digest({**manifest, "files": files})


def recorded_digest(manifest_file: Path, name: str) -> str | None:
    """The digest of a file by a manifest that is intact; None if there is none."""
    try:
        manifest = read_json(manifest_file)
    except InputError:
        return None
    sound = isinstance(manifest, dict) and bool(manifest.get("digest")) and manifest == _with_digest(manifest)
    return manifest["files"].get(name) if sound else None


def check_seal(manifest_file: Path) -> None:
    """Refuse a run directory in which a file is missing or is not as the run wrote it.

    Manifests of earlier versions have no digests, and cover nothing.
    """
    manifest, directory = read_json(manifest_file), manifest_file.parent
    if not isinstance(manifest, dict):  # which reading the record refuses in its own words
        return
    if manifest.get("digest") and manifest != _with_digest(manifest):
        raise _altered(manifest_file)
    files = manifest.get("files")
    for name, expected in files.items() if isinstance(files, dict) else ():
        try:
            found = digest((directory / name).read_bytes())
        except OSError as error:
            raise IntegrityError(f"{directory / name} cannot be read: {error.strerror}") from None
        if found != expected:
            raise _altered(directory / name)


def _with_digest(manifest: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in manifest.items() if name != "digest"}
    return {**rest, "digest": digest_json(rest)}


def _altered(file: Path) -> IntegrityError:
    return IntegrityError(
        f"{file} is not as the run wrote it: it was altered or cut short, or a later run into this directory was "
        "stopped; repeating the run writes it anew"
    )
