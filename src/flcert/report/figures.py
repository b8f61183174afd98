"""The figures of a run, as Matplotlib figures."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from flcert.certify import Certificate

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"  # distinguishable with any colour vision

Curve = NDArray[np.float64]
Steps = Sequence[tuple[int, float]]


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


def agreement_figure(curves: Mapping[str, Steps], title: str, opposed: Mapping[str, Steps] | None = None) -> Figure:
    """How large a share of the groups must agree to certify m, in steps; equal curves are drawn once.

    Args:
        curves: (m, share) for each m that can be certified, by name; a curve that can certify nothing has no points.
        title: whose groups they are.
        opposed: the same, by the same names, if a trusted model votes against the groups; drawn with dashes.
    """
    figure, axes = _figure()
    figure.set_size_inches(6.4, 4.6)
    against = opposed or {}
    alike: dict[tuple[tuple[tuple[int, float], ...], ...], list[str]] = {}
    for name, steps in curves.items():
        alike.setdefault((tuple(steps), tuple(against.get(name, ()))), []).append(name)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(alike)))
    for ((agrees, disagrees), names), colour in zip(alike.items(), colours, strict=True):
        name = " and ".join(names)
        _draw_steps(axes, agrees, f"{name}, trusted model agrees" if against else name, color=colour)
        if against:
            _draw_steps(axes, disagrees, f"{name}, it disagrees", color=colour, linestyle="--")
    axes.set(xlabel="malicious clients m", ylabel="share of groups that must agree", title=title)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlim(left=0)
    axes.set_ylim(top=1.02)
    figure.legend(loc="outside lower center", ncols=1 if against else 2)
    return figure


def _draw_steps(axes: Axes, steps: Steps, name: str, **style: Any) -> None:
    """Draw a curve that ends in a dot, and name it with the m of its end."""
    if not steps:
        axes.plot([], [], label=f"{name}: certifies nothing", **style)
        return
    levels, shares = zip(*steps, strict=True)
    axes.step(levels, shares, where="post", label=f"{name}: up to m = {levels[-1]:,}", **style)
    axes.plot(levels[-1], shares[-1], marker="o", markersize=4, color=style["color"])


def forecast_figure(curves: Mapping[str, tuple[Curve, Curve, Curve]]) -> Figure:
    """Predicted curves, each with the lower and upper end of its interval."""
    figure, axes = _figure()
    for label, (curve, low, high) in curves.items():
        levels = np.arange(len(curve))
        (line,) = axes.step(levels, curve, where="post", label=label)
        axes.fill_between(levels, low, high, step="post", color=line.get_color(), alpha=0.2, linewidth=0)
    longest = max(len(curve) for curve, _, _ in curves.values())
    axes.set(xlabel="malicious clients m", ylabel="predicted certified accuracy", ylim=(0, 1.02), xlim=(0, longest - 1))
    axes.legend()
    return figure


def rendered(figure: Figure, form: str) -> bytes:
    """The figure as "png", "svg" or "pdf"; the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {{"svg": "Date", "png": "Software", "pdf": "CreationDate"}[form]: None}
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
