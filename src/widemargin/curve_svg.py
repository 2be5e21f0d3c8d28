"""Curves and surfaces as SVG text, whose colours a page sets for light and dark screens."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: The sign before negative numbers.
MINUS = "\N{MINUS SIGN}"
#: Width and height of a panel, and the least margins of its plot: left, right, top, bottom.
WIDTH, HEIGHT = 320.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 10.0, 8.0, 26.0
#: Width of the place for missing values, on the right.
MISSING_WIDTH = 46.0
#: Share of the height that the bars of the data take at most.
BARS_SHARE = 0.22
#: Width of a character of a tick, for labels that should not overlap.
CHARACTER = 6.8
#: Most characters of a name of a level, and the angle of a name that is turned.
MAX_NAME, ANGLE = 16, 60.0
#: Height of a named row of a map, space before the row or column of missing values.
ROW_HEIGHT, GAP = 13.0, 4.0
#: Number of colours for classes; further classes begin again.
N_COLOURS = 10
#: Numbers between these are written without a power of ten.
PLAIN_NUMBERS = (1e-4, 1e9)
#: Digits of powers of ten.
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    function : str
        Which of several decision functions they add to, such as "class 3".
    """

    names: tuple[str, str]
    importance: float
    first: NDArray[Any]
    second: NDArray[Any]
    heights: FloatArray
    function: str = ""


def draw_panel(panel: Panel, low: float, high: float) -> str:
    """Draw a panel whose heights go from ``low`` to ``high``."""
    ticks = find_ticks(low, high, 5)
    left = _left_margin(label_ticks(ticks))
    right = WIDTH - RIGHT - (0.0 if panel.missing is None else MISSING_WIDTH)
    pad = 0.06 * (panel.values[-1] - panel.values[0]) if not panel.is_line else 0.0
    pad = max(pad, 0.5 * panel.bar_width) or (0.0 if panel.is_line else 0.5)
    x = _Scale(panel.values[0] - pad, panel.values[-1] + pad, left, right)
    y = _Scale(low, high, HEIGHT - BOTTOM, TOP)
    middle = WIDTH - RIGHT - 0.5 * MISSING_WIDTH
    parts = [_draw_bars(panel, x), _draw_heights(ticks, x, y)]
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
            parts.append(f'<circle class="ring {colour}" cx="{middle:.1f}" cy="{at:.1f}" r="4"/>')
    if panel.missing is not None:
        parts.append(_text(middle, HEIGHT - 10.0, "missing", "middle"))
    places, labels = _place_values(panel, x)
    texts, more = _draw_names(places, labels, HEIGHT - 10.0, may_turn=panel.labels is not None)
    return _svg("".join(parts + texts), f"Curve of {panel.name}", HEIGHT + more)


def draw_surface(surface: Surface, largest: float) -> str:
    """Draw a surface as a map; its strongest colours stand for heights of the size ``largest``."""
    top, height = TOP + 10.0, HEIGHT - TOP - BOTTOM
    if not _are_numbers(surface.second):
        height = max(height, ROW_HEIGHT * len(surface.second))
    names = _name_levels(surface.second, height / len(surface.second) >= ROW_HEIGHT)
    left, bottom = _left_margin([name for _, name in names]), top + height
    columns = _cut(surface.first, left, WIDTH - RIGHT, MISSING_WIDTH)
    rows = _cut(surface.second, bottom, top, ROW_HEIGHT)
    parts = [_draw_cell(surface, i, j, columns[i], rows[j], largest)
             for i, j in np.ndindex(surface.heights.shape)]  # fmt: skip
    parts += [_text(left - 4.0, rows[j].mean() + 3.5, name, "end") for j, name in names]
    texts, more = _name_columns(surface.first, columns, bottom + 12.0)
    parts += texts
    parts.append(_text(0.0, 10.0, f"↑ {shorten(surface.names[1], 46)}", "start"))
    name, at = f"{shorten(surface.names[0], 40)} →", bottom + more + 27.0
    parts.append(_text(WIDTH - RIGHT, at, name, "end"))
    label = f"Surface of {surface.names[0]} and {surface.names[1]}"
    return _svg("".join(parts), label, at + 5.0)


def _draw_cell(
    surface: Surface, i: int, j: int, column: FloatArray, row: FloatArray, largest: float
) -> str:
    """Draw the cell of two levels between the given ends, and say on a touch what it stands for."""
    height = float(surface.heights[i, j])
    hint = (
        f"{surface.names[0]} {describe_value(surface.first[i])}, {surface.names[1]} "
        f"{describe_value(surface.second[j])}: {sign_number(height)}"
    )
    opacity = min(abs(height) / largest, 1.0) if largest > 0 else 0.0
    return (
        f'<rect class="{"above" if height > 0 else "below"}" x="{column[0]:.1f}" '
        f'y="{row[1]:.1f}" width="{column[1] - column[0]:.1f}" height="{row[0] - row[1]:.1f}" '
        f'fill-opacity="{opacity:.2f}"><title>{escape(hint)}</title></rect>'
    )


def _name_columns(values: NDArray[Any], columns: FloatArray, y: float) -> tuple[list[str], float]:
    """Name the levels below a map, and return the height that this takes beyond one line."""
    longest = max(len(describe_value(value)) for value in values)
    names = _name_levels(values, longest * CHARACTER <= np.diff(columns).min())
    places = np.array([columns[k].mean() for k, _ in names])
    if _are_numbers(values):
        # The largest number ends with its column: beside it may be the word for missing values.
        last = len(values) - 1 - (_has_gap(values) and len(values) > 1)
        at = [k for k, _ in names].index(last)
        places[at] = min(places[at], columns[last, 1] - 0.5 * CHARACTER * len(names[at][1]))
    return _draw_names(places, [n for _, n in names], y, may_turn=not _are_numbers(values))


def _cut(values: NDArray[Any], start: float, stop: float, missing: float) -> FloatArray:
    """Return both ends of the cells of levels, shape (n_levels, 2).

    Beside numbers a missing value stands apart, in a cell of the size ``missing``.
    """
    is_apart = _has_gap(values) and len(values) > 1
    direction = np.sign(stop - start)
    end = stop - direction * (missing + GAP) if is_apart else stop
    edges = np.linspace(start, end, len(values) + 1 - is_apart)
    cells = np.column_stack([edges[:-1], edges[1:]])
    return np.append(cells, [[stop - direction * missing, stop]], axis=0) if is_apart else cells


def _name_levels(values: NDArray[Any], has_room: bool) -> list[tuple[int, str]]:
    """Return the levels to name: all, or of many numbers the ends, the middle, and a missing value."""
    shown = set(range(len(values)))
    if _are_numbers(values) and not has_room:
        last = max(len(values) - 1 - _has_gap(values), 0)
        shown = {0, last // 2, last, len(values) - 1}
    return [(k, shorten(describe_value(values[k]), MAX_NAME)) for k in sorted(shown)]


def round_levels(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers with the digits in which they differ; each may stand for several values."""
    if not _are_numbers(values) or np.count_nonzero(~np.isnan(values)) < 2:
        return values
    decimals = count_decimals(float(np.nanmin(np.diff(values))), 1)
    return values if decimals is None else np.round(values, decimals)


def _has_gap(values: NDArray[Any]) -> bool:
    return _are_numbers(values) and bool(np.isnan(values[-1]))


def _are_numbers(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f"


def _left_margin(labels: list[str]) -> float:
    """Return the room that labels to the left of a plot take."""
    return max(LEFT, CHARACTER * max(map(len, labels)) + 8.0)


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


def place_ticks(
    low: float, high: float, n_characters: int, *, is_whole: bool = False
) -> tuple[list[float], list[str]]:
    """Return ticks whose labels stand beside each other in some characters, and these labels.

    ``is_whole`` asks for whole numbers.
    """
    for n in (6, 5, 4, 3, 2, 1):
        ticks = find_ticks(low, high, n)
        if is_whole:
            ticks = [tick for tick in ticks if abs(tick - round(tick)) < 1e-9]
        labels = label_ticks(ticks)
        if sum(len(label) + 2 for label in labels) <= n_characters:
            break
    return ticks, labels


def label_ticks(ticks: list[float]) -> list[str]:
    """Return ticks as text, with as many decimals as their distance has."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    decimals = count_decimals(step, 1)
    return [format_number(tick, decimals) for tick in ticks]


def _draw_heights(ticks: list[float], x: _Scale, y: _Scale) -> str:
    """Draw lines at some heights, and what these are."""
    parts = []
    for tick, label in zip(ticks, label_ticks(ticks), strict=True):
        at = float(y(np.array(tick)))
        style = "zero" if tick == 0 else "grid"
        parts.append(
            f'<line class="{style}" x1="{x.start:.1f}" x2="{WIDTH - RIGHT}" '
            f'y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(_text(x.start - 5.0, at + 3.5, label, "end"))
    return "".join(parts)


def _place_values(panel: Panel, x: _Scale) -> tuple[FloatArray, list[str]]:
    """Return where values of a feature are named below its panel, and their names."""
    if panel.labels is not None:
        return x(panel.values), [shorten(label, MAX_NAME) for label in panel.labels]
    is_whole = not panel.is_line and bool((panel.values == np.floor(panel.values)).all())
    n_characters = int((x.stop - x.start) / CHARACTER)
    ticks, labels = place_ticks(x.low, x.high, n_characters, is_whole=is_whole)
    places = x(np.array(ticks))
    # The word for missing values begins where the axis ends.
    most = WIDTH if panel.missing is None else x.stop
    fit = [k for k, label in enumerate(labels) if places[k] + 0.5 * CHARACTER * len(label) <= most]
    return places[fit], [labels[k] for k in fit]


def _draw_names(
    places: FloatArray, names: list[str], y: float, *, may_turn: bool = True
) -> tuple[list[str], float]:
    """Draw names below a plot, turned if they are long, and return their height beyond one line."""
    longest = max(map(len, names), default=0)
    room = np.diff(places).min() if len(places) > 1 else WIDTH - 2.0 * LEFT
    ends = [at + 0.5 * CHARACTER * len(name) for at, name in zip(places, names, strict=True)]
    if not may_turn or (longest * CHARACTER <= room + 1.0 and max(ends) <= WIDTH):
        return [_text(at, y, name, "middle") for at, name in zip(places, names, strict=True)], 0.0
    texts = []
    for at, name in zip(places, names, strict=True):
        text = _text(at + 4.0, y - 2.0, name, "end")
        turn = f'<text transform="rotate({-ANGLE:g} {at + 4.0:.1f} {y - 2.0:.1f})"'
        texts.append(text.replace("<text", turn))
    return texts, longest * CHARACTER * float(np.sin(np.radians(ANGLE))) - 6.0


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


def _svg(content: str, label: str, height: float) -> str:
    """Return a picture of the given height."""
    box = f"0 0 {WIDTH:g} {height:.1f}"
    name = escape(label, quote=True)
    return f'<svg viewBox="{box}" role="img" aria-label="{name}">{content}</svg>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def count_decimals(size: float, n_digits: int = 3) -> int | None:
    """Return how many decimals numbers of a size need for some digits; None for powers of ten."""
    if not PLAIN_NUMBERS[0] <= size < PLAIN_NUMBERS[1]:
        return None
    return max(0, n_digits - 1 - int(np.floor(np.log10(size) + 1e-9)))


def format_number(value: float, decimals: int | None = None) -> str:
    """Return a number with some decimals, or in four digits; thousands stand apart from 10,000 on."""
    rounded = float(f"{value:.4g}") if decimals is None else round(value, decimals)
    if rounded == 0:
        # Zero has no sign.
        rounded = 0.0
    if decimals is None and rounded and not PLAIN_NUMBERS[0] <= abs(rounded) < PLAIN_NUMBERS[1]:
        digits, power = f"{rounded:.3e}".split("e")
        text = f"{float(digits):g}\N{MULTIPLICATION SIGN}10{str(int(power)).translate(RAISED)}"
    elif abs(rounded) >= 1e4:
        text = f"{value:,.{decimals or 0}f}"
    else:
        text = f"{rounded:g}" if decimals is None else f"{rounded:.{decimals}f}"
    return text.replace("-", MINUS)


def sign_number(value: float, decimals: int | None = None) -> str:
    """Return a number as `format_number` does, with a plus if it is positive."""
    text = format_number(value, decimals)
    return f"+{text}" if value > 0 and text.strip("0.") else text


def shorten(text: str, n_characters: int) -> str:
    """Return a name, or its beginning if it has more characters."""
    return text if len(text) <= n_characters else text[: n_characters - 1] + "…"
