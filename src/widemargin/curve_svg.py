"""Curves and surfaces as SVG text, whose colours a page sets for light and dark screens."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: The sign before negative numbers, and between the names of a pair.
MINUS = "\N{MINUS SIGN}"
#: Width and height of a panel, and the margins of its plot: left, right, top, bottom.
WIDTH, HEIGHT = 320.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 10.0, 8.0, 26.0
#: Fewest letters of a category that are worth showing below a map.
LEAST_LETTERS = 4
#: Width of the place for missing values, on the right.
MISSING_WIDTH = 46.0
#: Share of the height that the bars of the data take at most.
BARS_SHARE = 0.22
#: Width of a character of a tick, for labels that should not overlap.
CHARACTER = 6.2
#: Most characters of a name that is turned, and the height that these take.
MAX_TURNED, TURNED_HEIGHT = 16, 40.0
#: Number of colours for classes; further classes begin again.
N_COLOURS = 10


@dataclass(frozen=True)
class Panel:
    """What one feature adds to the decision functions.

    Attributes
    ----------
    name : str
        Name of the feature.
    importance : float
        Mean size of what the feature adds, or its largest difference without data.
    values : ndarray of shape (n_values,)
        Values of the feature, ascending.
    heights : ndarray of shape (n_functions, n_values)
        What they add.
    is_line : bool
        Whether the values are joined by a line; else each has a point.
    labels : list of str or None
        Names of the values, of categories.
    band : tuple of two ndarrays of the shape of heights, or None
        Lower and upper ends of a band.
    missing : ndarray of shape (n_functions,) or None
        What a missing value adds.
    bars : tuple of two ndarrays of shape (n_bars,), or None
        Where the data are, and how many.
    bar_width : float
        Width of these bars in the unit of the feature.
    note : str
        What a reader should know about the panel.
    """

    name: str
    importance: float
    values: FloatArray
    heights: FloatArray
    is_line: bool = True
    labels: list[str] | None = None
    band: tuple[FloatArray, FloatArray] | None = None
    missing: FloatArray | None = None
    bars: tuple[FloatArray, FloatArray] | None = None
    bar_width: float = 0.0
    note: str = ""

    def extent(self) -> tuple[float, float]:
        """Return the least and the largest height."""
        parts = [self.heights, *(self.band or ())]
        parts += [] if self.missing is None else [self.missing]
        return min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)


@dataclass(frozen=True)
class Surface:
    """What a pair of features adds beyond the curves of both.

    Attributes
    ----------
    names : tuple of two str
        Names of the features.
    importance : float
        As for `Panel`.
    first, second : ndarray
        Values of the features: numbers, NaN for a missing value, or names of categories.
    heights : ndarray of shape (n_first, n_second)
        What they add.
    """

    names: tuple[str, str]
    importance: float
    first: NDArray[Any]
    second: NDArray[Any]
    heights: FloatArray


def draw_panel(panel: Panel, low: float, high: float) -> str:
    """Draw a panel whose heights go from ``low`` to ``high``."""
    right = WIDTH - RIGHT - (0.0 if panel.missing is None else MISSING_WIDTH)
    pad = 0.06 * (panel.values[-1] - panel.values[0]) if not panel.is_line else 0.0
    pad = max(pad, 0.5 * panel.bar_width) or (0.0 if panel.is_line else 0.5)
    x = _Scale(panel.values[0] - pad, panel.values[-1] + pad, LEFT, right)
    y = _Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [_draw_bars(panel, x), _draw_axes(panel, x, y)]
    for k, heights in enumerate(panel.heights):
        colour = f"c{k % N_COLOURS}"
        if panel.band is not None:
            parts.append(_draw_band(panel, k, colour, x, y))
        if panel.is_line:
            parts.append(f'<path class="line {colour}" d="{_path(x(panel.values), y(heights))}"/>')
        else:
            parts += [
                f'<circle class="dot {colour}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>'
                for a, b in zip(x(panel.values), y(heights), strict=True)
            ]
        if panel.missing is not None:
            at = float(y(panel.missing[[k]])[0])
            middle = WIDTH - RIGHT - 0.5 * MISSING_WIDTH
            parts.append(f'<circle class="dot {colour}" cx="{middle:.1f}" cy="{at:.1f}" r="4"/>')
    if panel.missing is not None:
        middle = WIDTH - RIGHT - 0.5 * MISSING_WIDTH
        parts.append(_text(middle, HEIGHT - 10.0, "missing", "middle"))
    more = TURNED_HEIGHT if _needs_turn(panel.labels) else 0.0
    return _svg("".join(parts), f"Curve of {panel.name}", more)


def draw_surface(surface: Surface, largest: float) -> str:
    """Draw a surface as a map; its strongest colours stand for heights of the size ``largest``."""
    columns = np.linspace(LEFT, WIDTH - RIGHT, len(surface.first) + 1)
    rows = np.linspace(HEIGHT - BOTTOM, TOP, len(surface.second) + 1)
    cells = []
    for i, j in np.ndindex(surface.heights.shape):
        height = float(surface.heights[i, j])
        colour = "above" if height > 0 else "below"
        hint = (
            f"{surface.names[0]} {describe_value(surface.first[i])}, {surface.names[1]} "
            f"{describe_value(surface.second[j])}: {height:+.3g}"
        )
        cells.append(
            f'<rect class="{colour}" x="{columns[i]:.1f}" y="{rows[j + 1]:.1f}" '
            f'width="{columns[i + 1] - columns[i]:.1f}" height="{rows[j] - rows[j + 1]:.1f}" '
            f'fill-opacity="{min(abs(height) / largest, 1.0) if largest > 0 else 0.0:.2f}">'
            f"<title>{escape(hint)}</title></rect>"
        )
    texts = _label_columns(surface, columns) + _label_rows(surface, rows)
    label = f"Surface of {surface.names[0]} and {surface.names[1]}"
    return _svg("".join(cells + texts), label)


def _label_columns(surface: Surface, edges: FloatArray) -> list[str]:
    """Name the feature below a map: with the ends of its numbers, or with its categories."""
    name, values = surface.names[0], surface.first
    middle, n_letters = 0.5 * (edges[0] + edges[-1]), int((edges[1] - edges[0]) / CHARACTER)
    if _are_numbers(values):
        return [
            _text(edges[0], HEIGHT - 10.0, describe_value(values[0]), "start"),
            _text(middle, HEIGHT - 10.0, _shorten(name, 28), "middle"),
            _text(edges[-1], HEIGHT - 10.0, describe_value(values[-1]), "end"),
        ]
    if n_letters < LEAST_LETTERS:
        text = f"{_shorten(name, 28)} ({len(values)} categories)"
        return [_text(middle, HEIGHT - 10.0, text, "middle")]
    places = 0.5 * (edges[1:] + edges[:-1])
    return [
        _text(at, HEIGHT - 15.0, _shorten(describe_value(value), n_letters), "middle")
        for at, value in zip(places, values, strict=True)
    ] + [_text(middle, HEIGHT - 3.0, _shorten(name, 28), "middle")]


def _label_rows(surface: Surface, edges: FloatArray) -> list[str]:
    """Write the ends of the numbers to the left of a map, or the categories, as they fit."""
    values, n_letters = surface.second, int((LEFT - 4.0) / CHARACTER)
    if _are_numbers(values):
        is_gap = np.isnan(values[-1])
        last = _shorten("missing", n_letters) if is_gap else _short_number(values[-1])
        return [
            _text(LEFT - 4.0, HEIGHT - BOTTOM, _short_number(values[0]), "end"),
            _text(LEFT - 4.0, TOP + 8.0, last, "end"),
        ]
    places = 0.5 * (edges[1:] + edges[:-1]) + 3.5
    return [
        _text(LEFT - 4.0, at, _shorten(describe_value(value), n_letters), "end")
        for at, value in zip(places, values, strict=True)
    ]


def _are_numbers(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f"


def describe_value(value: Any) -> str:
    """Return a number or the name of a category; NaN stands for a missing value."""
    if isinstance(value, str):
        return value
    return "missing" if np.isnan(value) else format_number(float(value))


def find_ticks(low: float, high: float, n: int) -> list[float]:
    """Return about ``n`` round numbers from ``low`` to ``high``."""
    if not high > low:
        return [low]
    rough = (high - low) / n
    unit = 10.0 ** np.floor(np.log10(rough))
    step = unit * min((m for m in (1, 2, 5, 10) if m * unit >= rough), default=10)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [k * step for k in range(first, last + 1)]


class _Scale:
    """Straight line from the numbers of an axis to the units of the picture."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self.low, self.high, self.start, self.stop = low, high, start, stop

    def __call__(self, values: FloatArray) -> FloatArray:
        width = self.high - self.low or 1.0
        return self.start + (np.asarray(values) - self.low) / width * (self.stop - self.start)


def _draw_axes(panel: Panel, x: _Scale, y: _Scale) -> str:
    parts = []
    for tick in find_ticks(y.low, y.high, 5):
        at = float(y(np.array(tick)))
        style = "zero" if tick == 0 else "grid"
        parts.append(
            f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(_text(LEFT - 5.0, at + 3.5, format_number(tick), "end"))
    if panel.labels is not None:
        return "".join(parts) + _draw_labels(panel.values, panel.labels, x)
    # The word for missing values begins where the axis ends.
    free = WIDTH - x.stop if panel.missing is None else 0.0
    for tick in find_ticks(x.low, x.high, 4):
        at, label = float(x(np.array(tick))), format_number(tick)
        if at + 0.5 * CHARACTER * len(label) <= x.stop + free:
            parts.append(_text(at, HEIGHT - 10.0, label, "middle"))
    return "".join(parts)


def _needs_turn(labels: list[str] | None) -> bool:
    """Return whether names of categories are too long to stand beside each other."""
    if labels is None:
        return False
    room = (WIDTH - LEFT - RIGHT - MISSING_WIDTH) / len(labels)
    return max(map(len, labels)) * CHARACTER > room


def _draw_labels(values: FloatArray, labels: list[str], x: _Scale) -> str:
    """Draw the names of categories, turned if they are long."""
    parts = []
    for at, label in zip(x(values), labels, strict=True):
        if not _needs_turn(labels):
            parts.append(_text(at, HEIGHT - 10.0, label, "middle"))
            continue
        y = HEIGHT - BOTTOM + 12.0
        turned = _text(at + 4.0, y, _shorten(label, MAX_TURNED), "end")
        parts.append(
            turned.replace("<text", f'<text transform="rotate(-35 {at + 4.0:.1f} {y:.1f})"')
        )
    return "".join(parts)


def _draw_bars(panel: Panel, x: _Scale) -> str:
    if panel.bars is None:
        return ""
    at, counts = panel.bars
    roots = np.sqrt(counts)
    tall = BARS_SHARE * (HEIGHT - TOP - BOTTOM) * roots / max(float(roots.max()), 1.0)
    left, right = x(at - 0.5 * panel.bar_width), x(at + 0.5 * panel.bar_width)
    return "".join(
        f'<rect class="bar" x="{a:.1f}" y="{HEIGHT - BOTTOM - h:.1f}" width="{max(b - a, 0.5):.1f}" '
        f'height="{h:.1f}"/>'
        for a, b, h in zip(left, right, tall, strict=True)
        if h > 0
    )


def _draw_band(panel: Panel, function: int, colour: str, x: _Scale, y: _Scale) -> str:
    assert panel.band is not None
    lower, upper = (y(end[function]) for end in panel.band)
    at = x(panel.values)
    if panel.is_line:
        outline = _path(np.append(at, at[::-1]), np.append(lower, upper[::-1]))
        return f'<path class="band {colour}" d="{outline}Z"/>'
    return "".join(
        f'<line class="whisker {colour}" x1="{a:.1f}" x2="{a:.1f}" y1="{b:.1f}" y2="{c:.1f}"/>'
        for a, b, c in zip(at, lower, upper, strict=True)
    )


def _path(x: FloatArray, y: FloatArray) -> str:
    """Return a line through points, without those inside level pieces."""
    is_kept = np.ones(len(y), bool)
    is_kept[1:-1] = (y[1:-1] != y[:-2]) | (y[1:-1] != y[2:])
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(x[is_kept], y[is_kept], strict=True)]
    return "M" + "L".join(points)


def _svg(content: str, label: str, more: float = 0.0) -> str:
    """Return a picture that is higher than others by ``more``."""
    box = f"0 0 {WIDTH:g} {HEIGHT + more:g}"
    name = escape(label, quote=True)
    return f'<svg viewBox="{box}" role="img" aria-label="{name}">{content}</svg>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def format_number(value: float) -> str:
    """Return a number in four digits, without an exponent up to ten million."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("-", MINUS)


def _short_number(value: float) -> str:
    """Return a number that fits into the left margin."""
    text = f"{value:.3g}"
    return (text if len(text) <= 5 else f"{value:.2g}").replace("-", MINUS)


def _shorten(text: str, n_characters: int) -> str:
    most = max(n_characters, 2)
    return text if len(text) <= most else text[: most - 1] + "…"
