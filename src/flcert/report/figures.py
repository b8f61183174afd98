"""The figures of a run, as Matplotlib figures."""

import io

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from flcert.certify import Certificate

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"  # distinguishable with any colour vision

Curve = NDArray[np.float64]


def curve_figure(curve: Curve, accuracy: float, public: float | None = None) -> Figure:
    """Certified accuracy against the number of malicious clients, beside the public model alone if there is one."""
    figure, axes = _figure()
    axes.step(np.arange(len(curve)), curve, where="post", color=BLUE, label="certified accuracy")
    axes.axhline(accuracy, color=ORANGE, linestyle="--", label="accuracy without attack")
    if public is not None:
        axes.axhline(public, color=GREEN, linestyle=":", label="public model alone")
    axes.set(xlabel="malicious clients m", ylabel="share of test inputs", ylim=(0, 1.02), xlim=(0, len(curve) - 1))
    axes.legend()
    return figure


def levels_figure(certificate: Certificate, truth: NDArray[np.generic]) -> Figure:
    """How many inputs have each level, with right and wrong ones shown separately."""
    figure, axes = _figure()
    right = (certificate.labels == truth) & ~certificate.abstained
    wrong = ~right & ~certificate.abstained
    bins = np.arange(int(certificate.levels.max()) + 2) - 0.5
    axes.hist(
        [certificate.levels[right], certificate.levels[wrong]],
        bins=list(bins),
        stacked=True,
        color=[BLUE, ORANGE],
        label=["right", "wrong"],
    )
    axes.set(xlabel="certified security level", ylabel="test inputs")
    axes.legend()
    return figure


def sizes_figure(sizes: NDArray[np.int64]) -> Figure:
    """How many groups have each number of clients."""
    figure, axes = _figure()
    values, groups = np.unique(sizes, return_counts=True)
    axes.bar(values, groups, color=BLUE)
    axes.set(xlabel="clients in a group", ylabel="groups")
    return figure


def rounds_figure(rounds: list[int], curves: list[Curve], levels: list[int]) -> Figure:
    """Certified accuracy by round, for a few numbers of malicious clients."""
    figure, axes = _figure()
    for m in levels:
        axes.plot(rounds, [curve[m] if m < len(curve) else 0 for curve in curves], marker="o", label=f"m = {m}")
    axes.set(xlabel="rounds", ylabel="certified accuracy", ylim=(0, 1.02))
    axes.legend()
    return figure


def rendered(figure: Figure, form: str) -> bytes:
    """The figure as "png" or "svg"; the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "flcert"}):
        figure.savefig(buffer, format=form, metadata=metadata, dpi=150)
    return buffer.getvalue()


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # every figure has counts along this axis
    return figure, axes
