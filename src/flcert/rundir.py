"""A run's directory: what is in it, and how it is read back.

config.json          the resolved configuration; `flcert run config.json` repeats the run
manifest.json        versions, digests, the guarantee, and the key of every group's model
groups.json          user ids of each group
models/              one safetensors file for each group that has a model
dropped/             replies of each group's clients that were not used, where clients are real ones
votes.npy            groups x inputs; -1 where a group casts no vote
truth.npy            true labels of the test inputs
certificate.npz/.csv label, level and abstention of each test input
curve.csv            certified accuracy for every m
rounds.csv           the same along the rounds, where the recipe asks for it
summary.json         the figures in short
runoff.npz           how the models rank the labels, where a run-off was asked for
samples.json         some test inputs with their votes, for the report
inputs.npy           the values of those inputs
figures/, report.html
"""

import csv
import io
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from flcert.certify import Certificate, Tally
from flcert.config import Config, parse_config
from flcert.errors import InputError, IntegrityError
from flcert.files import first_difference, read_json, replacing, writable_directory, write_atomic, write_json
from flcert.guarantee import Guarantee
from flcert.registry import complaint
from flcert.store import Arrays, Store, pack, unpack
from flcert.tables import load_npy


class DataFacts(BaseModel):
    """What the manifest tells of the data."""

    name: str
    clients: int
    test_inputs: int
    input_shape: list[int]
    input_dtype: Literal["float32", "int64"]
    labels: int


class DroppedReply(BaseModel):
    """A reply of a real client that was not used."""

    round: int
    user: str
    reason: str


class GroupFacts(BaseModel):
    """What the manifest tells of a group."""

    clients: int
    model: str | None
    failure: str | None
    dropped: list[DroppedReply] = []


class Manifest(BaseModel):
    """What must be in a manifest for the run to be used."""

    versions: dict[str, str]
    platform: str
    sources: list[str]
    data: DataFacts
    guarantee: Guarantee
    groups: list[GroupFacts]


class Summary(BaseModel):
    """What must be in a summary for the report."""

    inputs: int
    accuracy: float
    abstained: int
    certified_accuracy: list[float]


class Sample(BaseModel):
    """A test input for people to look at.

    Args:
        position: in the test set.
        truth: its true label.
        label: that the groups vote for.
        level: proved for it.
        abstained: whether nothing is certified.
        votes: labels with most votes, and how many.
        shown: what a person sees: pixels of a picture as base64 of bytes, a text, or numbers.
    """

    position: int
    truth: int
    label: int
    level: int
    abstained: bool
    votes: list[tuple[int, int]]
    shown: str | list[float]


class Samples(BaseModel):
    """Some test inputs for people to look at.

    Args:
        kind: what ``shown`` is.
        shape: of a picture: rows and columns, after channels if there are several.
        names: what people call the labels, where they have names.
        inputs: the test inputs.
    """

    kind: Literal["image", "text", "features"]
    shape: list[int]
    names: dict[int, str]
    inputs: list[Sample]


@dataclass(frozen=True)
class RunDirectory:
    """Paths in a run's directory, and the ways to fill and read it."""

    path: Path

    @classmethod
    def claim(cls, path: Path, config: Config) -> "RunDirectory":
        """A directory for this configuration: new, or begun by the same configuration before."""
        run = cls(writable_directory(path))
        recorded = path / "config.json"
        if recorded.exists():
            begun = parse_config(read_json(recorded))
            if begun != config:
                difference = first_difference(begun.canonical(), config.canonical())
                raise InputError(f"{path} holds a run of another configuration ({difference}); give another directory")
        elif any(path.iterdir()):
            raise InputError(f"{path} is not empty and not a run; give another directory")
        else:
            write_json(recorded, config.canonical())
        return run

    @classmethod
    def prepared(cls, path: Path) -> "RunDirectory":
        """A directory that a configuration claimed, its run finished or not."""
        if not (path / "config.json").exists():
            raise InputError(f"{path} is not a run directory (no config.json); `flcert run --prepare` makes one")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The directory of a finished run."""
        if not (path / "manifest.json").exists():
            begun = (path / "config.json").exists()
            state = "holds a run that is not finished; run it again" if begun else "is not a run directory"
            raise InputError(f"{path} {state} (no manifest.json)")
        return cls(path)

    def model(self, group: int) -> Path:
        """The file of a group's model."""
        return self.path / "models" / f"group-{group:05d}.safetensors"

    def adopt_model(self, group: int, key: str, store: Store) -> None:
        """Link (or copy) a model from the store, unless the right one is here."""
        target = self.model(group)
        if not self._holds(target, key):
            with replacing(target) as temporary:
                _link_or_copy(store.path(key), temporary)

    def write_model(self, group: int, key: str, arrays: Arrays) -> None:
        """Write a group's model."""
        write_atomic(self.model(group), pack(arrays, key))

    def has_model(self, group: int, key: str) -> bool:
        """Whether the model of this key is here, undamaged."""
        return self._holds(self.model(group), key)

    def write_dropped(self, group: int, dropped: Sequence[dict[str, Any]]) -> None:
        """Write which replies of a group's clients were not used, and why."""
        write_json(self._dropped(group), list(dropped))

    def dropped(self, group: int) -> list[dict[str, Any]]:
        """What ``write_dropped`` wrote."""
        found: list[dict[str, Any]] = read_json(self._dropped(group)) if self._dropped(group).exists() else []
        return found

    def _dropped(self, group: int) -> Path:
        return self.path / "dropped" / f"group-{group:05d}.json"

    def load_model(self, group: int, key: str) -> Arrays:
        """A group's model, if its file is what the manifest says."""
        try:
            return unpack(self.model(group).read_bytes(), key)
        except OSError as error:
            raise IntegrityError(f"{self.model(group)} cannot be read: {error.strerror}") from None
        except IntegrityError:
            raise IntegrityError(f"{self.model(group)} was altered or cut short; it is not used") from None

    def config(self) -> Config:
        """The resolved configuration."""
        return parse_config(read_json(self.path / "config.json"))

    def manifest(self) -> dict[str, Any]:
        """What was recorded about the run."""
        return self._read("manifest.json", Manifest)

    def summary(self) -> dict[str, Any]:
        """The figures in short."""
        return self._read("summary.json", Summary)

    def samples(self) -> dict[str, Any] | None:
        """Some test inputs for people to look at, if the run kept any."""
        return self._read("samples.json", Samples) if (self.path / "samples.json").exists() else None

    def inputs(self) -> NDArray[np.generic] | None:
        """The values of those test inputs, if the run kept them."""
        samples = self.samples()
        if samples is None or not (self.path / "inputs.npy").exists():
            return None
        inputs, expected = self.array("inputs"), len(samples["inputs"])
        if inputs.shape != (expected, *self.manifest()["data"]["input_shape"]):
            raise InputError(f"{self.path / 'inputs.npy'} must hold {expected} inputs, got shape {inputs.shape}")
        return inputs

    def guarantee(self) -> Guarantee:
        """Which theorem applies to the run's votes."""
        return Guarantee.model_validate(self.manifest()["guarantee"])

    def truth(self) -> NDArray[np.generic]:
        """The true labels of the test inputs."""
        truth = self.array("truth")
        expected = self.manifest()["data"]["test_inputs"]
        if truth.shape != (expected,):
            raise InputError(f"{self.path / 'truth.npy'} must hold {expected} labels, got shape {truth.shape}")
        return truth

    def _read(self, name: str, schema: type[BaseModel]) -> dict[str, Any]:
        """A JSON file of the run, refused if it is not what a run writes."""
        values: dict[str, Any] = read_json(self.path / name)
        try:
            schema.model_validate(values)
        except ValidationError as failure:
            key = ".".join(str(part) for part in failure.errors()[0]["loc"])
            raise complaint(failure, f"{self.path / name} is damaged: {key or 'it'}") from None
        return values

    def members(self) -> tuple[NDArray[np.int64], ...]:
        """For each group the positions of its clients, in the order in which groups.json first names them."""
        groups = read_json(self.path / "groups.json")
        if not (isinstance(groups, list) and all(isinstance(group, list) for group in groups)):
            raise InputError(f"{self.path / 'groups.json'} must hold a list of user ids for each group")
        position: dict[str, int] = {}
        numbered = [[position.setdefault(str(user), len(position)) for user in group] for group in groups]
        return tuple(np.array(group, dtype=np.int64) for group in numbered)

    def array(self, name: str) -> NDArray[np.generic]:
        """An npy file of the run, by its name without the ending."""
        return load_npy(self.path / f"{name}.npy")

    def write_array(self, name: str, array: NDArray[np.generic]) -> None:
        """Write an npy file."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomic(self.path / f"{name}.npy", buffer.getvalue())

    def write_certificate(self, certificate: Certificate, truth: NDArray[np.generic]) -> None:
        """Write certificate.npz and certificate.csv."""
        buffer = io.BytesIO()
        np.savez(buffer, labels=certificate.labels, levels=certificate.levels, abstained=certificate.abstained)
        write_atomic(self.path / "certificate.npz", buffer.getvalue())
        rows = zip(truth, certificate.labels, certificate.levels, certificate.abstained.astype(int), strict=True)
        table = ((position, *row) for position, row in enumerate(rows))
        self.write_csv("certificate", ("input", "truth", "label", "level", "abstained"), table)

    def write_tally(self, counted: Tally) -> None:
        """Write runoff.npz."""
        buffer = io.BytesIO()
        arrays = {"votes": counted.votes, "first_wins": counted.first_wins, "second_wins": counted.second_wins}
        small = {name: array.astype(np.int32) for name, array in arrays.items()}
        np.savez_compressed(buffer, num_groups=np.array(counted.num_groups), **small)  # type: ignore[arg-type]
        write_atomic(self.path / "runoff.npz", buffer.getvalue())

    def tally(self) -> Tally | None:
        """What ``write_tally`` wrote, if the run has it."""
        if not (self.path / "runoff.npz").exists():
            return None
        data = self.manifest()["data"]
        shape = (data["test_inputs"], data["labels"])
        names = ("votes", "first_wins", "second_wins", "num_groups")
        *arrays, number = self._arrays("runoff.npz", names)
        if any(array.shape != shape for array in arrays):
            raise InputError(f"{self.path / 'runoff.npz'} must hold tables of shape {shape}, got {arrays[0].shape}")
        votes, first, second = (array.astype(np.int64) for array in arrays)
        return Tally(votes, first, second, int(number))

    def _arrays(self, name: str, names: tuple[str, ...]) -> list[NDArray[np.generic]]:
        file = self.path / name
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return [arrays[one] for one in names]
        except (OSError, EOFError, ValueError, LookupError, AttributeError, TypeError, BadZipFile) as error:
            raise InputError(f"cannot read {file}: {error}") from None

    def certificate(self) -> Certificate:
        """What ``write_certificate`` wrote."""
        file, expected = self.path / "certificate.npz", (self.manifest()["data"]["test_inputs"],)
        found = self._arrays(file.name, ("labels", "levels", "abstained"))
        if any(array.shape != expected for array in found):
            raise InputError(f"{file} must hold {expected[0]} labels and levels, got shape {found[0].shape}")
        return Certificate(*found)  # type: ignore[arg-type]

    def write_csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write a CSV file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        write_atomic(self.path / f"{name}.csv", text.getvalue().encode())

    def _holds(self, target: Path, key: str) -> bool:
        try:
            return bool(unpack(target.read_bytes(), key))
        except (OSError, IntegrityError):
            return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
