"""The HTML page of a model: importances, curves, surfaces and explained rows, in one file."""

from dataclasses import dataclass
from html import escape

from widemargin.additive.pair_model import TIMES
from widemargin.curve_svg import (
    N_COLOURS,
    Panel,
    Surface,
    count_decimals,
    draw_panel,
    draw_surface,
    format_number,
    sign_number,
)

#: Share of the range of all heights that is left free above and below.
MARGIN = 0.05

#: Colours that stay apart for colour-blind readers, on light and on dark screens.
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --card: #f6f7f9; --ink: #1c2127; --soft: #5b6570;
  --rule: #dde1e6; --blue: #2166ac; --orange: #c8690a; --bar: #e08214;
  --c0: #2166ac; --c1: #d95f02; --c2: #1b9e77; --c3: #b2182b; --c4: #7b5fb0; --c5: #8c564b;
  --c6: #d6498f; --c7: #6b7280; --c8: #8a8f00; --c9: #0e9fb5; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1d2228; --ink: #e8eaed;
  --soft: #a3adb8; --rule: #343b44; --blue: #6aa9e9; --orange: #f0a04b; --bar: #e08214;
  --c0: #6aa9e9; --c1: #f28e4b; --c2: #4fc3a1; --c3: #ef7a80; --c4: #b39ddb; --c5: #c49a8f;
  --c6: #f08cbb; --c7: #aab2bd; --c8: #c9ce4a; --c9: #4fd0e3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 1.2rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .4rem 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
h3 { font-size: .95rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h3 small { font-weight: 400; color: var(--soft); }
p { margin: .2rem 0 .8rem; max-width: 46rem; color: var(--soft); }
dl { display: flex; flex-wrap: wrap; gap: .4rem 1.8rem; margin: 0; }
dt { font-size: .8rem; color: var(--soft); } dd { margin: 0; font-weight: 600; }
.grid { display: grid; gap: .9rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.card { background: var(--card); border-radius: .5rem; padding: .7rem .8rem .5rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
line.grid { stroke: var(--rule); stroke-width: 1; }
line.zero { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.dot { fill: var(--c); } .ring { fill: none; stroke: var(--c); stroke-width: 1.8; }
.band { fill: var(--c); fill-opacity: .2; }
.whisker { stroke: var(--c); stroke-width: 2; stroke-opacity: .5; }
.bar { fill: var(--bar); fill-opacity: .35; }
.above { fill: var(--blue); } .below { fill: var(--orange); }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
td { padding: .16rem .3rem; vertical-align: middle; }
td.name { width: 45%; overflow-wrap: anywhere; } td.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; width: 4.2rem; }
td .value { color: var(--soft); }
.track { position: relative; height: .8rem; background: var(--rule); border-radius: .2rem;
  overflow: hidden; min-width: 3rem; }
.track i { position: absolute; top: 0; bottom: 0; background: var(--blue); }
.track i.down { background: var(--orange); }
.track.two::after { content: ""; position: absolute; left: 50%; top: 0; bottom: 0; width: 1px;
  background: var(--soft); }
tr.total td { border-top: 1px solid var(--rule); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 0 0 .6rem; font-size: .88rem; }
.scale { display: flex; align-items: center; gap: .5rem; margin: 0 0 .6rem; font-size: .88rem; }
.scale i { width: 9rem; height: .8rem; border-radius: .2rem;
  background: linear-gradient(to right, var(--orange), var(--card), var(--blue)); }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem;
  background: var(--c); margin-right: .35rem; vertical-align: -.08rem; }
footer { margin-top: 2.5rem; font-size: .8rem; color: var(--soft); }
"""


@dataclass(frozen=True)
class Share:
    """What a feature or a pair adds to the score of a row, and its value there as text."""

    name: str
    value: str
    size: float


@dataclass(frozen=True)
class Example:
    """A row whose score is explained.

    Attributes
    ----------
    title : str
        Which row it is, and what the model says.
    average : float
        The mean score.
    shares : list of Share
        What single features add to it, the largest first.
    rest : float
        What all others add together.
    """

    title: str
    average: float
    shares: list[Share]
    rest: float

    @property
    def score(self) -> float:
        """The score of the row."""
        return self.average + self.rest + sum(share.size for share in self.shares)


@dataclass(frozen=True)
class Page:
    """Content of the page of a model.

    Attributes
    ----------
    title : str
        Name of the model.
    facts : list of (str, str)
        What the model is, as pairs of a word and a value.
    note : str
        What a reader should know about these.
    target : str
        What the curves add up to.
    about : str
        What zero stands for in the curves.
    classes : list of str
        Names of the decision functions; empty for a single one.
    panels : list of Panel
        Curves, the most important first.
    surfaces : list of Surface
        Surfaces of pairs of features.
    examples : list of Example
        Explained rows.
    has_bands : bool
        Whether the panels have bands.
    """

    title: str
    facts: list[tuple[str, str]]
    note: str
    target: str
    about: str
    classes: list[str]
    panels: list[Panel]
    surfaces: list[Surface]
    examples: list[Example]
    has_bands: bool = False


def render_page(page: Page) -> str:
    """Return the page as HTML text that refers to nothing else."""
    sections = [_render_importances(page), _render_curves(page)]
    sections += [_render_surfaces(page)] if page.surfaces else []
    sections += [_render_examples(page)] if page.examples else []
    facts = "".join(
        f"<div><dt>{escape(word)}</dt><dd>{escape(value)}</dd></div>" for word, value in page.facts
    )
    colours = "".join(f".c{k}{{--c:var(--c{k})}}" for k in range(N_COLOURS))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n<style>{STYLE}{colours}</style>\n</head>\n<body>\n"
        f"<h1>{escape(page.title)}</h1>\n<dl>{facts}</dl>\n"
        + (f"<p>{escape(page.note)}</p>\n" if page.note else "")
        + "\n".join(sections)
        + "\n<footer>Made by widemargin. The page needs no network.</footer>\n</body>\n</html>\n"
    )


def _render_importances(page: Page) -> str:
    sizes = [(panel.name, panel.importance) for panel in page.panels]
    sizes += [(TIMES.join(surface.names), surface.importance) for surface in page.surfaces]
    sizes.sort(key=lambda pair: -pair[1])
    largest = sizes[0][1] or 1.0
    decimals = count_decimals(largest)
    rows = "".join(
        f'<tr><td class="name">{escape(name)}</td><td><div class="track"><i style="left:0;'
        f'width:{100 * size / largest:.1f}%"></i></div></td>'
        f'<td class="number">{format_number(size, decimals)}</td></tr>'
        for name, size in sizes
    )
    if page.about == "the average":
        who = "each column and each pair" if page.surfaces else "each column"
        text = f"The mean size of what {who} adds to {page.target}, over the rows given."
    else:
        which = "each curve and each map" if page.surfaces else "each curve"
        text = f"The difference between the highest and the lowest point of {which}."
    text += " Of several classes it is the mean." if page.classes else ""
    return (
        f"<h2>What matters</h2><p>{escape(text)}</p><div class='card'><table>{rows}</table></div>"
    )


def _render_curves(page: Page) -> str:
    extents = [panel.extent() for panel in page.panels]
    low, high = min(e[0] for e in extents), max(e[1] for e in extents)
    free = MARGIN * (high - low) or 1.0
    cards = "".join(
        f'<div class="card"><h3>{escape(panel.name)}{_render_note(panel.note)}</h3>'
        f"{draw_panel(panel, low - free, high + free)}</div>"
        for panel in page.panels
    )
    zero = "; the average is zero" if page.about == "the average" else ""
    text = f"What a value adds to {page.target}{zero}. "
    if any(panel.bars is not None for panel in page.panels):
        text += "Bars show where the data are: square roots of their number. "
    if page.has_bands:
        text += "Bands show how much a curve varies between samples of the data. "
    legend = "".join(
        f'<span><i class="c{k % N_COLOURS}"></i>{escape(name)}</span>'
        for k, name in enumerate(page.classes)
    )
    legend = f'<div class="legend">{legend}</div>' if legend else ""
    return f'<h2>Curves</h2><p>{escape(text)}</p>{legend}<div class="grid">{cards}</div>'


def _render_note(note: str) -> str:
    return f" <small>{escape(note)}</small>" if note else ""


def _render_surfaces(page: Page) -> str:
    largest = max(float(abs(surface.heights).max()) for surface in page.surfaces)
    cards = "".join(
        f'<div class="card"><h3>{escape(TIMES.join(surface.names))}'
        f"{_render_note(surface.function and f'for {surface.function}')}</h3>"
        f"{draw_surface(surface, largest)}</div>"
        for surface in page.surfaces
    )
    text = f"What two columns add together to {page.target}, beyond their curves. "
    if page.classes:
        text += "Each map shows the class in which the pair adds most. "
    end = format_number(largest, count_decimals(largest))
    scale = f"<span>takes away {end}</span><i></i><span>adds {end}</span>"
    return (
        f'<h2>Pairs</h2><p>{escape(text)}</p><div class="scale">{scale}</div>'
        f'<div class="grid">{cards}</div>'
    )


def _render_examples(page: Page) -> str:
    sizes = [abs(share.size) for example in page.examples for share in example.shares]
    largest = max(sizes, default=0.0) or 1.0
    decimals = count_decimals(largest)
    cards = "".join(_render_example(example, largest, decimals) for example in page.examples)
    target = "the score of the class predicted for the row" if page.classes else page.target
    text = f"The average and what the columns add to it make {target}."
    return f'<h2>Explained rows</h2><p>{escape(text)}</p><div class="grid">{cards}</div>'


def _render_example(example: Example, largest: float, decimals: int | None) -> str:
    rows = [f'<tr><td class="name">average</td><td></td>{_cell(example.average, decimals)}</tr>']
    for share in example.shares:
        half = 50 * abs(share.size) / largest
        left, kind = (50.0, "up") if share.size > 0 else (50.0 - half, "down")
        rows.append(
            f'<tr><td class="name">{escape(share.name)}{_render_value(share.value)}</td>'
            f'<td><div class="track two"><i class="{kind}" style="left:{left:.1f}%;'
            f'width:{half:.1f}%"></i></div></td>{_cell(share.size, decimals)}</tr>'
        )
    if example.rest:
        number = _cell(example.rest, decimals)
        rows.append(f'<tr><td class="name">all others</td><td></td>{number}</tr>')
    number = _cell(example.score, decimals)
    rows.append(f'<tr class="total"><td class="name">sum</td><td></td>{number}</tr>')
    return f'<div class="card"><h3>{escape(example.title)}</h3><table>{"".join(rows)}</table></div>'


def _render_value(value: str) -> str:
    return f' <span class="value">= {escape(value)}</span>' if value else ""


def _cell(number: float, decimals: int | None) -> str:
    return f'<td class="number">{sign_number(number, decimals)}</td>'
