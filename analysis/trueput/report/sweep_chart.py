"""The signature picture: change in GPU activity across, change in goodput up.

A configuration in the lower right kept the GPU busier and finished no more requests within their
promise. The HTML page holds the picture as SVG and no script, so that no name can run in it, and it
opens without a network.
"""

from __future__ import annotations

import html as markup
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import vl_convert as vlc

from trueput.report.points import Point

#: Verdicts with their colours; told apart without colour by shape too.
_COLOURS = {
    "pass": ("#1b7837", "circle"),
    "flagged": ("#c51b1b", "diamond"),
    "inconclusive": ("#b8860b", "square"),
    "not_comparable": ("#6a6a6a", "cross"),
    "unusable": ("#6a6a6a", "triangle-down"),
}
#: Their sides cannot be compared: drawn hollow, in no quadrant.
_HOLLOW = {"not_comparable"}
_POINTING = {("activity", "low"): "triangle-left", ("activity", "high"): "triangle-right",
             ("goodput", "low"): "triangle-down", ("goodput", "high"): "triangle-up"}  # fmt: skip
_FAR = 2.0
"""Bounds are drawn up to this many times the extent of the estimates beyond them."""
_WIDTH, _HEIGHT = 620, 440
_LONGEST_NAME = 26
_MOST_NAMES = 14
_LONGEST_LINE = 110
_MOST_LINES = 8
_SCALE = 2.0


@dataclass(frozen=True)
class Axis:
    """One axis: which change it shows, and where it begins and ends."""

    change: str
    ends: tuple[float, float]

    @property
    def scale(self) -> alt.Scale:
        """The scale, exactly between the ends."""
        return alt.Scale(domain=list(self.ends), nice=False)

    @property
    def drawn(self) -> alt.Axis:
        """Its marks, each with a text of its own."""
        return alt.Axis(format="+.0%", values=_ticks(*self.ends))


@dataclass(frozen=True)
class Picture:
    """A titled set of configurations; `rung` is what activity means, `notes` what to know of it."""

    title: str
    rung: str | None
    slo: str | None
    points: Sequence[Point]
    notes: Sequence[str] = ()


def svg(picture: Picture) -> str:
    """Return the picture as SVG."""
    return vlc.vegalite_to_svg(chart(picture))


def png(picture: Picture) -> bytes:
    """Return the picture as PNG, at twice its size."""
    return vlc.vegalite_to_png(chart(picture), scale=_SCALE)


def html(picture: Picture) -> str:
    """Return a page with the picture and its table; it holds no script and loads nothing."""
    rows = "".join(_table_row(point) for point in picture.points)
    title = markup.escape(_seen(picture.title))
    notes = "".join(f"<p>{markup.escape(_seen(note))}</p>\n" for note in picture.notes)
    head = "".join(
        f"<th>{name}</th>"
        for name in ("no.", "configuration", "activity", "goodput", "recomputed", "verdict")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>{markup.escape(_seen(_about(picture)))}</p>\n{notes}"
        f"{svg(replace(picture, notes=()))}\n"
        f"<table>\n<tr>{head}</tr>\n{rows}</table>\n"
        "<p>A point is the estimate, its lines are one-sided 95 % bounds. "
        "The lower right is busier, not better; a hollow point is in no quadrant, its sides cannot "
        "be compared. A triangle at the edge is a bound beyond it.</p>\n</body>\n</html>\n"
    )


def chart(picture: Picture) -> dict[str, Any]:
    """Return the picture as a Vega-Lite specification; unknown changes are left out."""
    known = [p for p in picture.points if p.activity is not None and p.goodput is not None]
    left = len(picture.points) - len(known)
    subtitle = _about(picture) + (f"; {left} with unknown change not drawn" if left else "")
    title = alt.TitleParams(
        _short(picture.title, 80),
        subtitle=[_short(subtitle, _LONGEST_LINE), *_note_lines(picture.notes)],
        anchor="start",
    )
    drawn = alt.layer(*_layers(picture, known)) if known else _nothing(picture)
    size = {"width": _WIDTH, "height": _HEIGHT}
    return drawn.properties(background="white", title=title, **size).to_dict()


def _note_lines(notes: Sequence[str]) -> list[str]:
    """Return the notes as lines below the title: whole while they are few, then how many more."""
    lines = [line for note in notes for line in textwrap.wrap(_seen(note), _LONGEST_LINE) or [""]]
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], f"… {len(notes)} notes in all: the table has them"]


def _nothing(picture: Picture) -> alt.Chart:
    """Return a sentence in place of axes without a point."""
    text = "no change is known on both sides" if picture.rung else "no activity was recorded"
    sentence = alt.Chart(alt.InlineData(values=[{"text": text}]))
    made: alt.Chart = sentence.mark_text(fontSize=16, color="#6a6a6a").encode(text="text:N")
    return made


def _layers(picture: Picture, known: Sequence[Point]) -> list[alt.Chart]:
    labels = _labels([p.name for p in picture.points], [p.number for p in picture.points])
    by_number = dict(zip((p.number for p in picture.points), labels, strict=True))
    rows = [_datum(point, by_number[point.number]) for point in known]
    across_axis, up_axis = _axis(rows, "activity"), _axis(rows, "goodput")
    x_range, y_range = across_axis.ends, up_axis.ends
    name = (picture.rung or "GPU activity").replace("_", " ")
    x = alt.X("activity:Q", title=f"change in {name}", scale=across_axis.scale,
              axis=across_axis.drawn)  # fmt: skip
    y = alt.Y("goodput:Q", title="change in goodput", scale=up_axis.scale, axis=up_axis.drawn)
    verdicts = [v for v in _COLOURS if any(p.verdict == v for p in known)]
    words = [_word(verdict) for verdict in verdicts]
    legend = alt.Legend(symbolOpacity=1, labelLimit=240)

    def scaled(values: Sequence[str]) -> dict[str, Any]:
        scale = alt.Scale(domain=words, range=list(values))
        return {"title": "verdict", "legend": legend, "scale": scale}

    colours = [_COLOURS[v][0] for v in verdicts]
    stroke = alt.Stroke("verdict:N", **scaled(colours))
    corner = {"x": 0, "x2": x_range[1], "y": y_range[0], "y2": 0}
    area = alt.Chart(alt.InlineData(values=[corner])).mark_rect(color="#c51b1b", opacity=0.07)
    shade = area.encode(x=alt.X("x:Q", scale=across_axis.scale), x2="x2:Q",
                        y=alt.Y("y:Q", scale=up_axis.scale), y2="y2:Q")  # fmt: skip
    place = [{"x": x_range[1], "y": y_range[0], "text": "busier, not better"}]
    named = alt.Chart(alt.InlineData(values=place)).mark_text(
        align="right", baseline="bottom", dx=-6, dy=-6, color="#c51b1b", fontSize=12
    ).encode(x="x:Q", y="y:Q", text="text:N")  # fmt: skip
    line = alt.Chart(alt.InlineData(values=[{"at": 0}])).mark_rule(color="#888")
    zero = [line.encode(x="at:Q"), line.encode(y="at:Q")]
    dots = alt.Chart(alt.InlineData(values=rows)).mark_point(
        size=90, clip=True, opacity=1, strokeWidth=1.5
    ).encode(
        x=x, y=y,
        stroke=stroke,
        fill=alt.Fill("verdict:N", **scaled(
            ["white" if v in _HOLLOW else _COLOURS[v][0] for v in verdicts])),
        shape=alt.Shape("verdict:N", **scaled([_COLOURS[v][1] for v in verdicts])),
    )  # fmt: skip
    across = alt.Chart(_bounded(rows, "activity")).mark_rule(clip=True, opacity=0.45).encode(
        x="activity_low:Q", x2="activity_high:Q", y="goodput:Q", stroke=stroke
    )  # fmt: skip
    up = alt.Chart(_bounded(rows, "goodput")).mark_rule(clip=True, opacity=0.45).encode(
        y="goodput_low:Q", y2="goodput_high:Q", x="activity:Q", stroke=stroke
    )  # fmt: skip
    middle = (x_range[0] + x_range[1]) / 2
    texts = [
        alt.Chart(alt.InlineData(values=[r for r in rows if (r["activity"] > middle) == right]))
        .mark_text(align="right" if right else "left", dx=-9 if right else 9, dy=-8, fontSize=11)
        .encode(x="activity:Q", y="goodput:Q", text="label:N")
        for right in (False, True)
    ]
    arrows = _arrows(rows, across_axis, up_axis)
    return [shade, named, *zero, across, up, *arrows, dots, *texts]


def _arrows(rows: Sequence[dict[str, Any]], across: Axis, up: Axis) -> list[alt.Chart]:
    """Return a triangle at the edge for each bound that lies beyond it."""
    ends = []
    for row in rows:
        for axis in (across, up):
            other = "goodput" if axis.change == "activity" else "activity"
            for bound, edge in zip(("low", "high"), axis.ends, strict=True):
                value = row[f"{axis.change}_{bound}"]
                if value is not None and not axis.ends[0] <= value <= axis.ends[1]:
                    at = {axis.change: edge, other: row[other]}
                    ends.append({**at, "points": _POINTING[axis.change, bound]})
    shapes = sorted({end["points"] for end in ends})
    return [
        alt.Chart(alt.InlineData(values=[end for end in ends if end["points"] == shape]))
        .mark_point(shape=shape, filled=True, size=70, color="#444", opacity=1)
        .encode(x="activity:Q", y="goodput:Q")
        for shape in shapes
    ]


def _axis(rows: Sequence[dict[str, Any]], change: str) -> Axis:
    """Return an axis over zero, every estimate and its bounds.

    Bounds far beyond the estimates would press these together: they end at the edge, in an arrow.
    """
    values = [row[change] for row in rows]
    low, high = min([0.0, *values]), max([0.0, *values])
    reach = _FAR * max(0.1, high - low)
    bounds = [row[f"{change}_{end}"] for row in rows for end in ("low", "high")]
    near = [min(max(b, low - reach), high + reach) for b in bounds if b is not None]
    low, high = min([low, *near]), max([high, *near])
    room = max(0.05, 0.1 * (high - low))
    return Axis(change, (low - room, high + room))


def _ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten within a range, six or so."""
    wanted = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= wanted)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(step * n, 10) for n in range(first, last + 1)]


def _word(verdict: str) -> str:
    word = verdict.replace("_", " ")
    return f"{word} (in no quadrant)" if verdict in _HOLLOW else word


def _bounded(rows: Sequence[dict[str, Any]], change: str) -> alt.InlineData:
    """Return the rows whose change has bounds: none where shares were compared in points."""
    return alt.InlineData(values=[row for row in rows if row[f"{change}_low"] is not None])


def _about(picture: Picture) -> str:
    return f"objective {picture.slo or 'none, or not the same'}; activity is " + (
        picture.rung or "not known on both sides"
    )


def _datum(point: Point, label: str) -> dict[str, Any]:
    return {
        "label": _short(label, _LONGEST_NAME),
        "verdict": _word(point.verdict),
        "activity": point.activity,
        "goodput": point.goodput,
        "activity_low": point.activity_low,
        "activity_high": point.activity_high,
        "goodput_low": point.goodput_low,
        "goodput_high": point.goodput_high,
    }


def _labels(names: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Return what tells the names apart, or their numbers in the table where they are many."""
    if len(names) > _MOST_NAMES:
        return [str(number) for number in numbers]
    cut = _shared(names)
    kept = [name[cut:] for name in names]
    return [
        name if len(name) <= _LONGEST_NAME else f"{number}: {_short(name, _LONGEST_NAME - 6)}"
        for name, number in zip(kept, numbers, strict=True)
    ]


def _shared(names: Sequence[str]) -> int:
    """Return how many leading characters all names share, up to the last mark between words."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return max(first[:same].rfind(mark) + 1 for mark in "-_/ ,")


def _short(text: str, most: int) -> str:
    seen = _seen(text)
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


def _seen(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _table_row(point: Point) -> str:
    cells = (
        str(point.number),
        _seen(point.name),
        _percent(point.activity, "+"),
        _percent(point.goodput, "+"),
        _percent(point.recomputed, ""),
        point.verdict.replace("_", " "),
    )
    return "<tr>" + "".join(f"<td>{markup.escape(cell)}</td>" for cell in cells) + "</tr>\n"


def _percent(share: float | None, sign: str) -> str:
    return "-" if share is None else f"{100 * share:{sign}.1f} %"


_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem;max-width:52rem;color:#222}"
    "h1{font-size:1.3rem}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;margin-top:1rem}"
    "th,td{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #ddd}"
    "td:nth-child(3),td:nth-child(4),td:nth-child(5){text-align:right}"
)
