"""How much of the failure probability is spent, in a file that outlives the service.

A certificate of groups drawn at random fails with some probability, and a service that issues many must share one alpha
among them. It fixes in advance how many predictions alpha covers; each takes an equal share.
"""

import fcntl
from pathlib import Path
from threading import Lock
from typing import IO

from pydantic import Field, ValidationError, model_validator

from flcert.core.files import read_json, write_json
from flcert.core.settings import Strict, complaint
from flcert.errors import InputError, RunError

BEGUN = b"begun\n"  # written to the lock when there is an account


class Account(Strict):
    """What is covered and what is spent.

    Args:
        run: a digest of the models and the theorem.
        alpha: failure probability of all certificates together.
        predictions: how many predictions share it.
        spent: how many of them are spent.
    """

    run: str
    alpha: float = Field(gt=0, lt=1)
    predictions: int = Field(gt=0)
    spent: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _within_the_promise(self) -> "Account":
        if self.spent > self.predictions:
            raise ValueError(f"spent must be at most predictions={self.predictions}, got {self.spent}")
        return self


class Ledger:
    """The account of one run, in a file that only one service holds at a time.

    Args:
        path: the file; it is created if it does not exist.
        run: a digest of the models and the theorem.
        alpha: failure probability of all certificates together.
        predictions: how many predictions share it.
    """

    def __init__(self, path: Path, run: str, alpha: float, predictions: int) -> None:
        self.path, self._lock = path.resolve(), Lock()  # a link is another name of the same account
        asked = Account(run=run, alpha=alpha, predictions=predictions)
        self._claimed = _claim(self.path)
        if BEGUN in self._claimed.read() and not self.path.exists():
            raise InputError(
                f"{path} is gone, and with it what is spent of alpha; put it back, or give another one for other inputs"
            )
        self.account = _read(self.path) if self.path.exists() else asked
        for name in ("run", "alpha", "predictions"):
            if getattr(self.account, name) != getattr(asked, name):
                raise InputError(
                    f"{path} is of {name} {getattr(self.account, name)}, got {getattr(asked, name)}; what it says is "
                    f"spent stays spent: give what it was begun with, or another file for other inputs"
                )
        write_json(self.path, self.account.model_dump(), durable=True)
        self._claimed.write(BEGUN)
        self._claimed.flush()

    def spend(self, wanted: int) -> int:
        """Spend up to this many predictions; return how many are covered, after recording them.

        Raises:
            RunError: the file cannot be read or written, or is not as this service left it.
        """
        with self._lock:
            try:
                there = _read(self.path)
            except InputError as error:  # not the fault of whoever asks for a prediction
                raise RunError(str(error)) from None
            if there != self.account:
                raise RunError(f"{self.path} was changed by somebody else; nothing more is certified from it")
            covered = min(wanted, self.account.predictions - self.account.spent)
            if covered:
                after = self.account.model_copy(update={"spent": self.account.spent + covered})
                write_json(self.path, after.model_dump(), durable=True)
                self.account = after
            return covered


def _claim(path: Path) -> IO[bytes]:
    """Take a lock beside the file, which ends with this process; it knows whether an account was ever begun."""
    beside = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = beside.open("a+b")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"{path} is in use by another service; two must not spend the same alpha") from None
    lock.seek(0)
    return lock


def _read(path: Path) -> Account:
    try:
        return Account.model_validate(read_json(path))
    except ValidationError as failure:
        where = ".".join(map(str, failure.errors()[0]["loc"])) or "it"
        raise complaint(failure, f"{path} is damaged: {where}") from None
