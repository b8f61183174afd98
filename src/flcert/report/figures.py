"""The figures of a run, a pilot and a plan, as Matplotlib figures."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from flcert.certify import Certificate
from flcert.report.drawing import add_legend, draw_line, one_panel, picture, shares, style
from flcert.report.panels import CERTIFIED, LEVELS, Line, Panel, flat_line
from flcert.report.styles import DASHES, METHODS, Style, styles_of

Curve = NDArray[np.float64]
Steps = Sequence[tuple[int, float]]

RIGHT, WRONG = METHODS["FLCert-D"].colour, METHODS["FLCert-P"].colour


def curve_figure(title: str, method: str, curve: Curve, accuracy: float, public: float | None = None) -> Figure:
    """Certified accuracy against the number of malicious clients, beside the public model alone if there is one.

    Args:
        title: whose it is.
        method: what to call the line; a method looks alike in all figures.
        curve: CA@m at index m.
        accuracy: without attack.
        public: the accuracy of the public model alone.
    """
    last = len(curve) - 1
    lines = [Line(method, list(enumerate(curve.tolist()))), flat_line("accuracy without attack", accuracy, last)]
    lines += [] if public is None else [flat_line("public model alone", public, last)]
    return picture(title, [Panel("", LEVELS, CERTIFIED, lines)])


@style()
def levels_figure(title: str, certificate: Certificate, truth: NDArray[np.generic]) -> Figure:
    """How many inputs have each level, with right and wrong ones shown separately."""
    figure, axes = one_panel(title)
    right = (certificate.labels == truth) & ~certificate.abstained
    wrong = ~right & ~certificate.abstained
    bins = np.arange(int(certificate.levels.max()) + 2) - 0.5
    axes.hist(
        [certificate.levels[right], certificate.levels[wrong]],
        bins=list(bins),
        stacked=True,
        color=[RIGHT, WRONG],
        label=["right", "wrong"],
    )
    axes.set(xlabel="certified security level", ylabel="test inputs")
    add_legend(figure)
    return figure


@style()
def sizes_figure(title: str, sizes: NDArray[np.int64]) -> Figure:
    """How many groups have each number of clients."""
    figure, axes = one_panel(title)
    values, groups = np.unique(sizes, return_counts=True)
    axes.bar(values, groups, color=RIGHT)
    axes.set(xlabel="clients in a group", ylabel="groups")
    return figure


def rounds_figure(title: str, rounds: list[int], curves: list[Curve], levels: list[int]) -> Figure:
    """Certified accuracy by round, for a few numbers of malicious clients."""
    lines = []
    for m in levels:
        shares_at_m = [float(curve[m]) if m < len(curve) else 0.0 for curve in curves]
        lines.append(Line(f"m = {m:,}", list(zip(rounds, shares_at_m, strict=True)), measured=True))
    return picture(title, [Panel("", "rounds", CERTIFIED, lines)])


@style()
def agreement_figure(curves: Mapping[str, Steps], title: str, opposed: Mapping[str, Steps] | None = None) -> Figure:
    """How large a share of the groups must agree to certify m, in steps; equal curves are drawn once.

    Args:
        curves: (m, share) for each m that can be certified, by name; a curve that can certify nothing has no points.
        title: whose groups they are.
        opposed: the same, by the same names, if a trusted model votes against the groups; drawn with dashes.
    """
    against = opposed or {}
    alike: dict[tuple[tuple[tuple[int, float], ...], ...], list[str]] = {}
    for name, steps in curves.items():
        alike.setdefault((tuple(steps), tuple(against.get(name, ()))), []).append(name)
    lines: list[tuple[Line, Style]] = []
    styles = styles_of(" and ".join(names) for names in alike.values())
    for (agrees, disagrees), names in alike.items():
        name = " and ".join(names)
        own = styles[name]
        if against:
            lines += [(_ending(agrees, f"{name}, trusted model agrees"), Style(own.colour, DASHES[0]))]
            lines += [(_ending(disagrees, f"{name}, it disagrees"), Style(own.colour, DASHES[1]))]
        else:
            lines += [(_ending(agrees, name), Style(own.colour, own.dashes))]
    figure, axes = one_panel(f"Groups that must agree, {title}", height=2.4 + 0.16 * len(lines))
    for line, own in lines:
        if line.points:
            draw_line(axes, line, own)
            axes.plot(*line.points[-1], marker="o", color=own.colour)
        else:
            axes.plot([], [], color=own.colour, label=line.label)
    axes.set(xlabel=LEVELS, ylabel="groups that must agree")
    shares(axes)
    add_legend(figure)
    return figure


def _ending(steps: Steps, name: str) -> Line:
    """A curve whose label has the m of its end."""
    return Line(f"{name}: up to m = {steps[-1][0]:,}" if steps else f"{name}: certifies nothing", steps)


def forecast_figure(title: str, curves: Mapping[str, tuple[Curve, Curve, Curve]]) -> Figure:
    """Predicted curves, each with the lower and upper end of its interval."""
    lines = [
        Line(label, list(enumerate(curve.tolist())), list(zip(low.tolist(), high.tolist(), strict=True)))
        for label, (curve, low, high) in curves.items()
    ]
    return picture(title, [Panel("", LEVELS, f"predicted {CERTIFIED}", lines)])
