"""Settings as they are shown to others: without the directories of the person who made a run."""

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any


def shortened(value: Any) -> Any:
    """JSON values in which every absolute path is cut to its last part.

    >>> shortened({"path": "/home/ann/study/data", "groups": ["a/b", 3]})
    {'path': '.../data', 'groups': ['a/b', 3]}
    """
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(one) for one in value]
    if isinstance(value, str) and (PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()):
        return f".../{PureWindowsPath(value).name}"
    return value
