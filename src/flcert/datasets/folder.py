"""A user's own data: a folder with one npz file for each client, and one for the test set."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from flcert.datasets.dataset import DataSet, Options
from flcert.datasets.federation import Examples, Federation
from flcert.errors import InputError


class FolderOptions(Options):
    """Options of a user's own folder.

    Args:
        path: the folder.
        num_labels: L; by default one more than the largest label of the test set.
    """

    path: Path
    num_labels: int | None = None


def load(options: FolderOptions) -> Federation:
    """Read ``<path>/clients/*.npz`` (the file's name is the user id) and ``<path>/test.npz``.

    Each npz holds ``inputs`` (examples x input shape) and ``labels`` (integers from 0).
    """
    path = options.path
    files = sorted((path / "clients").glob("*.npz"))
    if not files:
        raise InputError(f"no client files: {path / 'clients'} must hold one npz file for each client")
    clients = {file.stem: _examples(file) for file in files}
    return Federation.build(path.name, clients, _examples(path / "test.npz"), options.num_labels)


def _examples(file: Path) -> Examples:
    try:
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise ValueError("it holds one array without a name")
        with arrays:
            return arrays["inputs"], arrays["labels"]
    except FileNotFoundError:
        raise InputError(f"missing file {file}") from None
    except KeyError:
        raise InputError(f"{file} must hold the arrays 'inputs' and 'labels'") from None
    except (OSError, EOFError, ValueError, MemoryError, BadZipFile) as error:
        raise InputError(f"{file} cannot be read as npz: {error}") from None


FOLDER = DataSet(
    title="your own folder, one npz file for each client",
    options=FolderOptions,
    load=load,
    input_shape=None,
    num_labels=None,
)
