"""Stand-ins for pictures: drawing takes nine tenths of a small run, and most tests look at none."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from matplotlib.figure import Figure

PIXEL = (
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
STAND_INS = {
    "png": bytes.fromhex(PIXEL),
    "svg": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>\n',
    "pdf": b"%PDF-1.4\n",
}


_draw = Figure.savefig


def _stand_in(_, target, *, format, **__):
    target.write(STAND_INS[format])


@contextmanager
def not_drawn() -> Iterator[None]:
    """Write a stand-in instead of each picture."""
    with patch.object(Figure, "savefig", _stand_in):
        yield


@contextmanager
def drawn() -> Iterator[None]:
    """Draw pictures all the same."""
    with patch.object(Figure, "savefig", _draw):
        yield
