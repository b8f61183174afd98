"""A run's directory: what is in it, and how it is read back.

The files::

    config.json          the resolved configuration; `flcert run config.json` repeats the run
    manifest.json        versions, the guarantee, the key of every group's model, and the digest of every file (seal.py)
    groups.json          user ids of each group
    models/              one safetensors file for each group that has a model
    public.safetensors   the weights that groups started from, of the public function, and of a trusted model
    dropped/             replies from each group's clients that were not used (real clients only)
    votes.npy            groups x inputs; -1 where a group casts no vote
    public.npy           labels that the public model alone gives to the test inputs, if groups started from one
    trusted.npy          labels that the trusted model gives to the test inputs, if there is one
    truth.npy            true labels of the test inputs
    certificate.npz/.csv label, level and abstention of each test input
    curve.csv            certified accuracy for every m
    rounds.csv           the same by round, if the recipe asks for it
    summary.json         the main figures
    ranks.npz            how the models rank the labels, if a certificate needs it
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
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flcert.certify import Certificate, Evidence, Guarantee, RankCounts
from flcert.certify.guarantee import Need
from flcert.certify.ranks import FILES as RANKS
from flcert.certify.ranks import Ballots
from flcert.certify.seats import share_a_client
from flcert.core.digest import digest, digest_named
from flcert.core.files import (
    create_json,
    first_difference,
    json_bytes,
    read_json,
    replacing,
    writable_directory,
    write_atomic,
    write_json,
)
from flcert.core.leftovers import is_temporary, remove_leftovers
from flcert.core.store import Arrays, Store, pack, unpack
from flcert.errors import FlcertError, InputError, IntegrityError, unknown_name
from flcert.features import PublicFunction
from flcert.grouping import Grouping
from flcert.runs.config import Config, from_record, parse_config
from flcert.runs.records import (
    DroppedReplies,
    DroppedReply,
    GroupIds,
    Manifest,
    PublicFigures,
    Record,
    Samples,
    Summary,
)
from flcert.runs.seal import check_seal, recorded_digest, sealed
from flcert.training.public import NOTHING, Public
from flcert.voting.files import load_npy

PUBLIC = "public.safetensors"
"""The file with what no client can influence."""

_Record = TypeVar("_Record", bound=Record)


@dataclass(frozen=True)
class RunDirectory:
    """Paths in a run's directory, and the ways to fill and read it."""

    path: Path

    @classmethod
    def claim(cls, path: Path, config: Config) -> "RunDirectory":
        """Claim a directory for this configuration: a new one, or one begun with the same configuration."""
        run = cls(writable_directory(path))
        for part in ("models", "figures", "dropped"):
            remove_leftovers(path / part)
        run.check_free_for(config)
        if run._lost_its_config(config):
            write_json(path / "config.json", config.recorded())
        elif not (path / "config.json").exists():
            create_json(path / "config.json", config.recorded())
        run.check_free_for(config)  # another command may have claimed it meanwhile
        return run

    def check_free_for(self, config: Config) -> None:
        """Refuse a directory that holds anything but a run of this configuration, and write nothing."""
        there = list(self.path.iterdir()) if self.path.is_dir() else []
        if self._lost_its_config(config):
            return
        if self.path / "config.json" in there:
            begun = self.config()
            if begun != config:
                difference = first_difference(begun.canonical(), config.canonical())
                raise InputError(
                    f"{self.path} holds a run of another configuration ({difference}); give another directory"
                )
        elif not all(map(is_temporary, there)):
            raise InputError(f"{self.path} is not empty and not a run; give another directory")

    def _lost_its_config(self, config: Config) -> bool:
        """Whether a run of this configuration is here whose config.json was damaged or deleted."""
        recorded = recorded_digest(self.path / Manifest.file, "config.json")
        return recorded == digest(json_bytes(config.recorded())) and not self.holds(config)

    def holds(self, config: Config) -> bool:
        """Whether the directory was claimed for this configuration."""
        try:
            return self.config() == config
        except FlcertError:
            return False

    @classmethod
    def prepared(cls, path: Path) -> "RunDirectory":
        """Open a claimed directory, whether or not its run is finished."""
        if not (path / "config.json").exists():
            raise InputError(f"{path} is not a run directory (no config.json); `flcert run --prepare` makes one")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open the directory of a finished run, refused if one of its files is missing or was altered."""
        if not cls(path).finished:
            begun = (path / "config.json").exists()
            state = "holds a run that is not finished; run it again" if begun else "is not a run directory"
            if (path.parent / f".{path.name}.forgotten").exists():
                state = "was being replaced when flcert forget was stopped; repeat that command"
            raise InputError(f"{path} {state} (no manifest.json)")
        check_seal(path / Manifest.file)
        return cls(path)

    @property
    def finished(self) -> bool:
        """Whether its run is finished."""
        return (self.path / Manifest.file).exists()

    def model(self, group: int) -> Path:
        """The file of a group's model."""
        return self.path / "models" / f"group-{group:05d}.safetensors"

    def adopt_model(self, group: int, key: str, store: Store) -> None:
        """Link (or copy) a model from the store, unless it is already here."""
        target = self.model(group)
        if self._stored(target, key) is None:
            with replacing(target) as temporary:
                _link_or_copy(store.path(key), temporary)

    def write_model(self, group: int, key: str, arrays: Arrays) -> None:
        """Write a group's model."""
        write_atomic(self.model(group), pack(arrays, key))

    def stored_model(self, group: int, key: str) -> Arrays | None:
        """The model of this key, if it is here and undamaged."""
        return self._stored(self.model(group), key)

    def write_public(self, public: Public, trusted: Arrays | None) -> None:
        """Write the weights that no client can influence; nothing if there are none."""
        function = public.function.weights if public.function else None
        parts = {"start": public.start, "function": function, "trusted": trusted}
        arrays = {f"{part}/{name}": array for part, owned in parts.items() for name, array in (owned or {}).items()}
        if arrays:
            write_atomic(self.path / PUBLIC, pack(arrays, PUBLIC))

    def public(self) -> Public:
        """What ``write_public`` wrote, checked against the manifest."""
        facts = self.manifest().public
        if facts is None:
            return NOTHING
        function = None
        if (known := facts.function) is not None:  # its module is checked against the identity when it is built
            weights = self._public_arrays("function") if known.weights else None
            function = PublicFunction(
                known.choice, self.manifest().data.input_shape, weights, known.identity, known.width
            )
        start = self._public_arrays("start", facts.start) if facts.start else None
        return Public(start, function, facts.name or "", facts.card)

    def trusted(self) -> Arrays | None:
        """The weights of the trusted model, if there is one."""
        facts = self.manifest().public
        return self._public_arrays("trusted", facts.trusted) if facts and facts.trusted else None

    def _public_arrays(self, part: str, digest: str | None = None) -> Arrays:
        """One part of what ``write_public`` wrote, with the digest that the manifest names."""
        path, prefix = self.path / PUBLIC, f"{part}/"
        try:
            arrays = unpack(path.read_bytes(), PUBLIC)
        except (OSError, IntegrityError):
            raise IntegrityError(f"{path} is missing, altered or cut short") from None
        found = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if digest and digest_named(found) != digest:
            raise IntegrityError(f"{path} does not hold the weights that the manifest names")
        return found

    def write_dropped(self, group: int, dropped: Sequence[DroppedReply]) -> None:
        """Write which replies from a group's clients were not used, and why."""
        write_json(self._dropped(group), DroppedReplies(dropped=tuple(dropped)).model_dump(mode="json"))

    def dropped(self, group: int) -> tuple[DroppedReply, ...] | None:
        """What ``write_dropped`` wrote; None if there is no such file."""
        file = self._dropped(group)
        return DroppedReplies.read(read_json(file), file).dropped if file.exists() else None

    def _dropped(self, group: int) -> Path:
        return self.path / "dropped" / f"group-{group:05d}.json"

    def load_model(self, group: int, key: str) -> Arrays:
        """Load a group's model, and check that the file holds what its key says."""
        try:
            return unpack(self.model(group).read_bytes(), key)
        except OSError as error:
            raise IntegrityError(f"{self.model(group)} cannot be read: {error.strerror}") from None
        except IntegrityError:
            raise IntegrityError(f"{self.model(group)} was altered or cut short; it is not used") from None

    def config(self) -> Config:
        """The resolved configuration."""
        file = self.path / "config.json"
        values = read_json(file)
        if not isinstance(values, dict):
            raise InputError(f"{file} must hold a table of settings, got {type(values).__name__}")
        return parse_config(from_record(values, file))

    def write(self, record: Record) -> None:
        """Write a record to its file."""
        write_json(self.path / record.file, record.model_dump(mode="json"))

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, with the digests of all files that are there; it comes last."""
        write_json(self.path / Manifest.file, sealed(self.path, manifest.model_dump(mode="json")))

    def _read(self, record: type[_Record]) -> _Record:
        file = self.path / record.file
        return record.read(read_json(file), file)

    def manifest(self) -> Manifest:
        """What was recorded about the run."""
        return self._read(Manifest)

    def summary(self) -> Summary:
        """The main figures."""
        return self._read(Summary)

    def samples(self) -> Samples | None:
        """Some test inputs for people to look at, if the run kept any."""
        return self._read(Samples) if (self.path / Samples.file).exists() else None

    def inputs(self) -> NDArray[np.generic] | None:
        """The values of those test inputs, if the run kept them."""
        samples = self.samples()
        if samples is None or not (self.path / "inputs.npy").exists():
            return None
        inputs, expected = self.array("inputs"), len(samples.inputs)
        if inputs.shape != (expected, *self.manifest().data.input_shape):
            raise InputError(f"{self.path / 'inputs.npy'} must hold {expected} inputs, got shape {inputs.shape}")
        return inputs

    def guarantee(self) -> Guarantee:
        """Which theorem applies to the run's votes: it follows from the configuration and the groups."""
        recorded, settings = self.manifest().guarantee, self.config()
        derived = settings.guarantee(settings.grouping.certificate, self.grouping(), self.num_failed())
        if derived != recorded:
            difference = first_difference(recorded.model_dump(mode="json"), derived.model_dump(mode="json"))
            raise IntegrityError(
                f"{self.path / Manifest.file} records another guarantee than follows from the configuration and the "
                f"groups: {difference}"
            )
        return derived

    def num_failed(self) -> int:
        """How many groups have clients but no model."""
        return sum(facts.failure is not None for facts in self.manifest().groups)

    def evidence(self, need: Need = "votes") -> Evidence:
        """The votes on the test inputs.

        Args:
            need: what the certificate needs; with "ranks", how the models rank the labels, if the run keeps that.
        """
        votes, labels = self.array("votes"), self.manifest().data.labels
        trusted = self.array("trusted") if (self.path / "trusted.npy").exists() else None
        return Evidence.of_votes(votes, labels, self.members(), self.ranks() if need == "ranks" else None, trusted)

    def public_figures(self, curve: NDArray[np.float64]) -> PublicFigures | None:
        """What the public model reaches alone, beside a curve of certified accuracy; None if there is no such model."""
        facts = self.manifest().public
        if facts is None or facts.name is None or not (self.path / "public.npy").exists():
            return None
        labels, truth = self.array("public"), self.truth()
        if labels.shape != truth.shape:
            raise InputError(f"{self.path / 'public.npy'} must hold {len(truth)} labels, got shape {labels.shape}")
        return PublicFigures.of(facts.name, labels, truth, curve)  # type: ignore[arg-type]

    def truth(self) -> NDArray[np.generic]:
        """The true labels of the test inputs."""
        truth = self.array("truth")
        expected = self.manifest().data.test_inputs
        if truth.shape != (expected,):
            raise InputError(f"{self.path / 'truth.npy'} must hold {expected} labels, got shape {truth.shape}")
        return truth

    def group_ids(self) -> tuple[tuple[str, ...], ...]:
        """The user ids of each group."""
        return self._read(GroupIds).groups

    def grouping(self, ids: Sequence[str] | None = None) -> Grouping:
        """Who trained together, with all that certificates ask of the groups.

        Args:
            ids: the order of the clients that positions refer to; by default that in which groups.json names them.
        """
        found, settings, clients = self._read(GroupIds), self.config().grouping, self.manifest().data.clients
        members = self.members() if ids is None else _positions(found.groups, ids)
        if found.drawn is None:
            return settings.restored(clients, members)
        return Grouping(settings.kind, clients, members, found.group_size, found.drawn, found.distinct)

    def members(self) -> tuple[NDArray[np.int64], ...]:
        """The positions of each group's clients, in the order in which groups.json first names them."""
        position: dict[str, int] = {}
        numbered = [[position.setdefault(user, len(position)) for user in group] for group in self.group_ids()]
        return tuple(np.array(group, dtype=np.int64) for group in numbered)

    def array(self, name: str) -> NDArray[np.generic]:
        """Read an npy file of the run, by its name without the extension."""
        return load_npy(self.path / f"{name}.npy")

    def write_array(self, name: str, array: NDArray[np.generic]) -> None:
        """Write an npy file."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomic(self.path / f"{name}.npy", buffer.getvalue())

    def write_evidence(self, evidence: Evidence) -> None:
        """Write the votes, and how the models rank the labels if that is known."""
        if evidence.votes is not None:
            self.write_array("votes", evidence.votes)
        if evidence.ranks is not None:
            self.write_ranks(evidence.ranks)
        if evidence.trusted is not None:
            self.write_array("trusted", evidence.trusted)

    def write_certificate(self, certificate: Certificate, truth: NDArray[np.generic]) -> None:
        """Write certificate.npz and certificate.csv."""
        buffer = io.BytesIO()
        np.savez(buffer, labels=certificate.labels, levels=certificate.levels, abstained=certificate.abstained)
        write_atomic(self.path / "certificate.npz", buffer.getvalue())
        rows = zip(truth, certificate.labels, certificate.levels, certificate.abstained.astype(int), strict=True)
        table = ((position, *row) for position, row in enumerate(rows))
        self.write_csv("certificate", ("input", "truth", "label", "level", "abstained"), table)

    def write_ranks(self, ranks: RankCounts) -> None:
        """Write how the models rank the labels."""
        buffer = io.BytesIO()
        arrays = {"votes": ranks.votes, "first_wins": ranks.first_wins, "second_wins": ranks.second_wins}
        small: dict[str, Any] = {name: array.astype(np.int32) for name, array in arrays.items()}
        if ranks.ballots is not None:
            small |= {"tops": ranks.ballots.tops, "above": ranks.ballots.above}
        np.savez_compressed(buffer, num_groups=np.array(ranks.num_groups), **small)
        write_atomic(self.path / RANKS[0], buffer.getvalue())
        for old in RANKS[1:]:
            (self.path / old).unlink(missing_ok=True)

    def ranks(self) -> RankCounts | None:
        """What ``write_ranks`` wrote, if the run has it."""
        file = next((name for name in RANKS if (self.path / name).exists()), None)
        if file is None:
            return None
        data = self.manifest().data
        shape = (data.test_inputs, data.labels)
        *arrays, number = self._arrays(file, ("votes", "first_wins", "second_wins", "num_groups"))
        if any(array.shape != shape for array in arrays):
            raise InputError(f"{self.path / file} must hold tables of shape {shape}, got {arrays[0].shape}")
        votes, first, second = (array.astype(np.int64) for array in arrays)
        return RankCounts(votes, first, second, int(number), self._ballots(file))

    def _ballots(self, file: str) -> Ballots | None:
        """The ballot of each group, which a run keeps if some client is in two groups."""
        if not share_a_client(self.members()):
            return None
        return Ballots(*self._arrays(file, ("tops", "above")))  # type: ignore[arg-type]

    def _arrays(self, name: str, names: tuple[str, ...]) -> list[NDArray[np.generic]]:
        file = self.path / name
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return [arrays[one] for one in names]
        except Exception as error:  # a stranger's bytes may make numpy raise anything
            raise InputError(f"cannot read {file}: {error}") from None

    def certificate(self) -> Certificate:
        """What ``write_certificate`` wrote."""
        file, expected = self.path / "certificate.npz", (self.manifest().data.test_inputs,)
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

    def _stored(self, target: Path, key: str) -> Arrays | None:
        try:
            return unpack(target.read_bytes(), key)
        except (OSError, IntegrityError):
            return None


def _positions(groups: Sequence[Sequence[str]], ids: Sequence[str]) -> tuple[NDArray[np.int64], ...]:
    position = {user: at for at, user in enumerate(ids)}
    for user in (user for group in groups for user in group):
        if user not in position:
            raise unknown_name("client", user, ids)
    return tuple(np.array([position[user] for user in group], dtype=np.int64) for group in groups)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
