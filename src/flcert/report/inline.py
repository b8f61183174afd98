"""Figures as parts of an HTML page: SVG that takes the page's colours and type, in panels that stack."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from markupsafe import Markup
from matplotlib.figure import Figure

from flcert.report.drawing import panel_figure, rendered, styles_of_panels
from flcert.report.panels import Panel
from flcert.report.styles import INK, Style

LARGE, SMALL = 3.2, 2.4  # inches: the width of a panel; it is small if there are more than two in a row
SHAPES = {
    "o": '<circle cx="20" cy="6" r="3.5"/>',
    "s": '<path d="M16.5 2.5h7v7h-7z"/>',
    "^": '<path d="M20 2l4.2 7.5h-8.4z"/>',
    "D": '<path d="M20 1.2l4.8 4.8l-4.8 4.8l-4.8-4.8z"/>',
    "v": '<path d="M20 10l4.2-7.5h-8.4z"/>',
}


def inlined(svg: bytes, name: str, words: str) -> Markup:
    """A picture that Matplotlib drew, as a part of a page.

    Black becomes the colour of the page's text, white becomes nothing, so the picture suits a light and a dark page.
    It has the page's typeface, grows and shrinks with its place, and its ids begin with ``name``.

    Args:
        svg: the file.
        name: unique on the page.
        words: what it shows, for people who do not see it.
    """
    text = svg.decode()
    head, body = re.search(r"<svg ([^>]*)>(.*)</svg>", text, re.DOTALL).groups()  # type: ignore[union-attr]
    (box,) = re.findall(r'viewBox="([^"]*)"', head)
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r"font-family: [^;\"]*;?", "", body)
    body = body.replace(INK, "currentColor").replace("#ffffff", "none")
    lines = "\n".join(filter(None, (line.strip() for line in body.splitlines())))
    return Markup(f'<svg viewBox="{box}" role="img" aria-label="{escape(words)}">\n{lines}\n</svg>')


def figure_on_page(figure: Figure, name: str, words: str) -> Markup:
    """A whole figure as a part of a page; see ``inlined``."""
    return inlined(rendered(figure, "svg"), name, words)


def panels_on_page(panels: Sequence[Panel], columns: int, name: str, words: str) -> Markup:
    """The panels of a figure, side by side where there is room, and one legend below them.

    Args:
        panels: row by row.
        columns: number of panels in a row.
        name: unique on the page.
        words: what the figure shows.
    """
    styles, width = styles_of_panels(panels), LARGE if columns <= 2 else SMALL
    drawn = [
        figure_on_page(panel_figure(panel, styles, width), f"{name}-{number}", f"{panel.title or words}: {panel.y}")
        for number, panel in enumerate(panels)
    ]
    rows = [drawn[at : at + columns] for at in range(0, len(drawn), columns)]
    kind = ("one", "two")[columns - 1] if columns <= 2 else "many"
    shown = Markup().join(Markup('<div class="panels {}">{}</div>').format(kind, Markup().join(row)) for row in rows)
    return shown + legend(styles)


def legend(styles: Mapping[str, Style]) -> Markup:
    """A list of labels, each with a piece of its line."""
    entries = [Markup("<li>{} {}</li>").format(swatch(style), label) for label, style in styles.items()]
    return Markup('<ul class="legend">{}</ul>').format(Markup().join(entries))


def swatch(style: Style) -> Markup:
    """A piece of a line with its mark."""
    colour = on_page(style.colour)
    line = f'<path d="M0 6h40" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{style.dash_array(2.5)}"/>'
    mark = f'<g fill="{colour}">{SHAPES[style.mark]}</g>' if style.mark else ""
    return Markup(f'<svg width="40" height="12" aria-hidden="true">{line}{mark}</svg>')


def on_page(colour: str) -> str:
    """A colour as pages have it: ink is the colour of their text."""
    return "currentColor" if colour == INK else colour
