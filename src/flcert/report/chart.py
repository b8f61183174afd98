"""The layout of the page's interactive chart of certified accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass

from flcert.report.points import Also, Curve

BOX = {"left": 72, "top": 12, "width": 640, "height": 320}


@dataclass(frozen=True)
class Tick:
    """A grid line and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Coordinates of the curve and the grid, in the units of the picture.

    Args:
        curve: CA@m at index m, padded with zeros to the end of the longest curve.
        value: accuracy without attack.
        also: curves of further certificates.
    """

    curve: Curve
    value: float
    also: Sequence[Also] = ()

    left, top, width, height = BOX["left"], BOX["top"], BOX["width"], BOX["height"]
    box = BOX

    @property
    def accuracy(self) -> float:
        """Height of the line of accuracy without attack."""
        return self._height(self.value)

    @property
    def points(self) -> str:
        """The curve as steps: CA@m holds from m to the next whole number."""
        return self._steps(self.curve.tolist())

    def line(self, other: Also) -> str:
        """Another curve as steps, as far as the chart extends: all that is proved, and no more."""
        return self._steps([other.proved_at(m, self.curve) for m in range(len(self.curve))])

    @property
    def shares(self) -> list[Tick]:
        """Grid lines from 0 to 100 %."""
        return [Tick(self._height(percent / 100), f"{percent}%") for percent in range(0, 101, 20)]

    @property
    def levels(self) -> list[Tick]:
        """Grid lines at round numbers of malicious clients."""
        last = max(1, len(self.curve) - 2)
        sizes = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
        step = next(size for size in sizes if last / size <= 8)
        return [Tick(self._across(m), f"{m:,}") for m in range(0, last + 1, step)]

    def _steps(self, shares: Sequence[float]) -> str:
        corners = []
        for m, share in enumerate(shares):
            if m:
                corners.append((self._across(m), self._height(shares[m - 1])))
            corners.append((self._across(m), self._height(share)))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)

    def _across(self, m: int) -> float:
        return round(self.left + self.width * m / max(1, len(self.curve) - 1), 1)

    def _height(self, share: float) -> float:
        return round(self.top + self.height * (1 - share), 1)
