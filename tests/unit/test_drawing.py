"""Figures are drawn alike: one look for one method, any colour vision, text as text, the same bytes every time."""

import math
import re
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from selenium.webdriver.common.by import By

from flcert.report import figures
from flcert.report.chart import Chart
from flcert.report.drawing import FORMS, NARROW, POINTS, WIDE, picture, rendered
from flcert.report.inline import inlined, panels_on_page
from flcert.report.panels import CERTIFIED, LEVELS, Line, Panel, flat_line
from flcert.report.points import Also
from flcert.report.styles import COLOURS, DASHES, INK, METHODS, MOST_LINES, styles_of

pytestmark = pytest.mark.draws

# What the three kinds of cones see, and what people see who lack the first or the second kind (Machado et al., 2009).
VISIONS = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
WHITE, DARK = "#ffffff", "#121212"


def linear(colour):
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(light, 0, 1) / [0.9505, 1, 1.089])
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(first, second):
    bright, dim = sorted((linear(one) @ [0.2126, 0.7152, 0.0722] for one in (first, second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def panel(*labels, measured=False):
    return Panel(
        "", LEVELS, CERTIFIED, [Line(label, [(0, 0.9), (1, 0.5), (2, 0)], measured=measured) for label in labels]
    )


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.decode())


def test_a_method_looks_alike_in_every_figure_whatever_stands_beside_it():
    alone = {name: styles_of([name])[name] for name in METHODS}
    assert alone == METHODS
    beside = styles_of(["N = 5", "CRFL", "FLCert-P", "Krum", "FLCert-D, balanced", "FLCert-D"])
    for name in ("CRFL", "FLCert-P"):
        assert beside[name] == METHODS[name]
    same = [beside["FLCert-D"], beside["FLCert-D, balanced"], styles_of(["a group of FLCert-D"])["a group of FLCert-D"]]
    assert {(style.colour, style.mark) for style in same} == {(METHODS["FLCert-D"].colour, "o")}
    assert same[0] != same[1]
    assert not {style.colour for style in METHODS.values()} & set(COLOURS)


@pytest.mark.parametrize("label", ["setting {}", "FLCert-D {}"])
def test_no_two_lines_of_a_figure_look_alike(label):
    styles = styles_of(label.format(number) for number in range(MOST_LINES))
    assert len({(style.colour, style.dashes) for style in styles.values()}) == MOST_LINES
    assert math.gcd(len(COLOURS), len(DASHES)) == 1


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_can_be_told_apart_with_any_colour_vision(vision):
    seen = {colour: lab(VISIONS[vision] @ linear(colour)) for colour in (*COLOURS, *_methods())}
    for group in (COLOURS, _methods()):
        nearest = min(math.dist(seen[first], seen[second]) for first, second in combinations(group, 2))
        assert nearest > 15  # of CIELAB; 2.3 is just noticeable


def _methods():
    return sorted({style.colour for style in METHODS.values()} - {INK})


@pytest.mark.parametrize("ground", [WHITE, DARK])
def test_colours_stand_out_from_light_and_dark_pages(ground):
    for colour in (*COLOURS, *_methods()):
        assert contrast(colour, ground) >= 3  # of WCAG 2, for graphics


@pytest.mark.parametrize(("columns", "width"), [(1, NARROW), (2, WIDE), (5, WIDE)])
def test_a_figure_is_as_wide_as_one_or_two_columns_of_a_paper_with_eight_point_text(columns, width):
    figure = picture("Certified accuracy, MNIST-0.5, N = 500", [panel("FLCert-D")] * columns, columns)
    assert figure.get_figwidth() == width
    svg = rendered(figure, "svg")
    assert {"Certified accuracy, MNIST-0.5, N = 500", "malicious clients m", "certified accuracy"} <= set(texts(svg))
    assert {"0%", "100%", "FLCert-D"} <= set(texts(svg))
    assert {float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg.decode())} == {POINTS}


def test_a_figure_has_one_legend_that_names_each_line_once():
    figure = picture("Both", [panel("N = 1", "N = 2"), panel("N = 2", "N = 3")], 2)
    (legend,) = figure.legends
    assert [entry.get_text() for entry in legend.get_texts()] == ["N = 1", "N = 2", "N = 3"]
    assert not any(axes.get_legend() for axes in figure.axes)
    first, second = figure.axes
    assert first.lines[1].get_color() == second.lines[0].get_color()
    assert panels_on_page([panel("N = 1", "N = 2"), panel("N = 2")], 2, "both", "Both").count("<li>") == 2


@pytest.mark.parametrize("form", FORMS)
def test_the_same_figure_gives_the_same_bytes(form):
    first, second = (rendered(picture("Same", [panel("FLCert-D", "FLCert-P")]), form) for _ in range(2))
    assert first == second


def test_a_pdf_holds_its_letters_as_a_font():
    pdf = rendered(picture("Letters", [panel("FLCert-D")]), "pdf")
    assert b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf


def test_what_is_proved_is_drawn_in_steps_and_what_was_measured_with_every_point_marked():
    (proved,) = picture("Proved", [panel("FLCert-D")]).axes[0].lines
    (measured,) = picture("Measured", [panel("FLCert-D", measured=True)]).axes[0].lines
    assert (proved.get_drawstyle(), measured.get_drawstyle()) == ("steps-post", "default")
    assert measured.get_markevery() == 1
    assert (proved.get_color(), proved.get_marker()) == (measured.get_color(), measured.get_marker())
    curve = np.array([0.9, 0.5, 0.0])
    drawn = figures.forecast_figure("Predicted", {"N = 5": (curve, curve - 0.1, curve + 0.1)})
    assert drawn.axes[0].lines[0].get_drawstyle() == "steps-post"


def corners(points):
    return [tuple(map(float, point.split(","))) for point in points.split()]


@pytest.mark.parametrize("complete", [True, False])
def test_every_curve_of_the_page_s_chart_is_a_staircase(complete):
    chart = Chart(np.array([0.9, 0.5, 0.2, 0.0]), 0.9)
    for points in (chart.points, chart.line(Also("a", "A", {0: 0.9, 1: 0.7, 3: 0.1}, complete=complete))):
        steps = list(zip(corners(points), corners(points)[1:], strict=False))
        assert len(steps) == 6
        assert all(before[0] == after[0] or before[1] == after[1] for before, after in steps)


def test_a_certificate_that_was_computed_for_some_m_is_drawn_as_high_as_it_is_proved_and_no_higher():
    own = np.array([0.9, 0.8, 0.5, 0.3, 0.2, 0.1, 0.0])
    sparse = Also("whole", "whole", {0: 0.9, 1: 0.85, 4: 0.4}, complete=False, same_labels=True)
    assert [sparse.proved_at(m, own) for m in range(7)] == [0.9, 0.85, 0.5, 0.4, 0.4, 0.1, 0.0]
    other = Also("other", "other", {0: 0.7, 4: 0.4}, complete=False)  # about labels of its own
    assert [other.proved_at(m, own) for m in range(6)] == [0.7, 0.4, 0.4, 0.4, 0.4, 0.0]
    public = Also("public", "public model alone", {}, complete=True, flat=0.6)
    assert public.proved_at(6, own) == 0.6


def test_a_picture_on_a_page_has_the_page_s_colours_and_ids_of_its_own():
    svg = rendered(picture("A & B", [panel("FLCert-D", "single global model")]), "svg")
    one, two = (inlined(svg, name, 'what "it" shows') for name in ("one", "two"))
    for shown in (one, two):
        assert not re.search(r"#000000|#ffffff|http|<style|font-family|DejaVu|<\?xml", shown)
        assert "A &amp; B" in shown
        assert 'aria-label="what &quot;it&quot; shows"' in shown
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', shown))
        assert {first or second for first, second in used} <= set(re.findall(r'\bid="([^"]+)"', shown))
    assert not set(re.findall(r'\bid="([^"]+)"', one)) & set(re.findall(r'\bid="([^"]+)"', two))


def test_settings_of_the_user_s_own_figures_stay_as_they_are():
    before = dict(matplotlib.rcParams)
    rendered(
        picture("Mine", [panel("FLCert-D"), Panel("", LEVELS, CERTIFIED, [flat_line("public model alone", 0.5, 3)])]),
        "svg",
    )
    assert dict(matplotlib.rcParams) == before


def test_a_label_cannot_bring_markup_to_a_page(browser, tmp_path):
    label = "<script>document.title = 'taken'</script>"
    page = tmp_path / "page.html"
    page.write_text(str(panels_on_page([panel(label)], 1, "it", label)))
    browser.get(page.as_uri())
    assert browser.title != "taken"
    assert label in browser.find_element(By.CSS_SELECTOR, ".legend").text
