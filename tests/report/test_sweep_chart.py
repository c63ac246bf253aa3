"""The picture of a sweep: what it shows, and that a page of it runs nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from trueput.report.points import Point
from trueput.report.sweep_chart import Picture, chart, html, png, svg

HOSTILE = "</svg></script><script>alert(1)</script><img src=x onerror=alert(1)>&\"'\x1b"
POINTS = (
    Point(1, "seqs=8", "flagged", 0.4, -0.2, 0.3, 0.3, 0.5, -0.3, -0.1),
    Point(2, "seqs=4", "pass", 0.1, 0.2, None, 0.05, 0.15, 0.1, 0.3),
    Point(3, "seqs=2", "inconclusive", -0.1, 0.0, 0.0),
    Point(4, "broken", "unusable", None, None),
)
PICTURE = Picture("4 configurations against base", "engine_step", "ttft=1000ms", POINTS)


def data_of(spec: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of one layer."""
    rows: list[dict[str, Any]] = spec["datasets"][layer["data"]["name"]]
    return rows


def values(spec: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the data of the points: every row that has `key`, once."""
    layer = next(x for x in spec["layer"] if x["mark"]["type"] == "point")
    assert all(key in row for row in data_of(spec, layer))
    return data_of(spec, layer)


def test_known_changes_are_drawn_and_others_are_said() -> None:
    spec = chart(PICTURE)
    rows = values(spec, "verdict")
    assert [(r["activity"], r["goodput"], r["verdict"]) for r in rows][:2] == [
        (0.4, -0.2, "flagged"), (0.1, 0.2, "pass"),
    ]  # fmt: skip
    drawn = Xml.fromstring(svg(PICTURE))
    words = " ".join("".join(e.itertext()) for e in drawn.iter() if e.tag.endswith("text"))
    for text in ("seqs=8", "seqs=4", "busier, not better", "change in engine step",
                 "1 with unknown change not drawn"):  # fmt: skip
        assert text in words
    assert "broken" not in words
    assert data_of(spec, spec["layer"][0])[0]["x"] == 0, "the shaded quadrant begins at zero"


def test_lines_only_where_bounds_are_known() -> None:
    spec = chart(PICTURE)
    for bound in ("x2", "y2"):
        (layer,) = (
            x for x in spec["layer"] if bound in x["encoding"] and x["mark"]["type"] == "rule"
        )
        assert {row["label"] for row in data_of(spec, layer)} == {"seqs=8", "seqs=4"}


def test_many_names_become_numbers_and_shared_words_go() -> None:
    many = [Point(n, f"SERVE--max_num_seqs={n}", "pass", n / 50, 0.1) for n in range(1, 21)]
    labels = {r["label"] for r in values(chart(Picture("t", None, None, many)), "label")}
    assert labels == {str(n) for n in range(1, 21)}
    few = [Point(n, f"SERVE--max_num_seqs={n}", "pass", 0.1, n / 50) for n in (1, 2)]
    labels = {r["label"] for r in values(chart(Picture("t", None, None, few)), "label")}
    assert labels == {"seqs=1", "seqs=2"}


def test_png() -> None:
    made = png(PICTURE)
    assert made[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(made) > 5000


class Page(HTMLParser):
    """What a browser would make of a page: its tags, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.mark.parametrize("name", ["plain", HOSTILE])
def test_a_page_runs_nothing_and_loads_nothing(name: str) -> None:
    points = [Point(1, name, "flagged", 0.1, -0.1), Point(2, "other", "pass", 0.1, 0.1)]
    text = html(Picture(name, "engine_step", name, points))
    page = Page(text)
    assert "svg" in page.tags
    assert "table" in page.tags
    assert set(page.tags).isdisjoint({"script", "img", "iframe", "object", "link", "foreignobject"})
    assert not [a for a, _ in page.attributes if a.startswith("on")]
    loaded = [v for a, v in page.attributes if a in {"src", "href", "xlink:href"}]
    assert loaded == []
    assert not re.search(r"url\((?!#)|@import", text)
    assert "\x1b" not in text
    assert page.tags.count("td") == 12


def words_of(picture: Picture) -> list[str]:
    drawn = Xml.fromstring(svg(picture))
    return ["".join(e.itertext()) for e in drawn.iter() if e.tag.endswith("text")]


def test_without_a_rung_the_picture_says_so_and_has_no_axes() -> None:
    empty = Picture("none", None, None, [Point(1, "a", "pass", None, 0.1)])
    assert "no activity was recorded" in words_of(empty)
    assert "busier, not better" not in words_of(empty)


def test_axes_hold_every_bound() -> None:
    point = Point(1, "wide", "inconclusive", 0.1, 0.0, None, -0.05, 0.25, -0.15, 0.2)
    shade = data_of(spec := chart(Picture("t", "power", None, [point])), spec["layer"][0])[0]
    assert shade["x2"] > 0.25
    assert shade["y"] < -0.15
    assert not [x for x in spec["layer"] if str(x["mark"].get("shape", "")).startswith("triangle")]


def test_a_bound_beyond_the_axis_ends_in_a_triangle_at_its_edge() -> None:
    point = Point(1, "wide", "inconclusive", 0.1, 0.0, None, 0.05, 9.0, -0.1, 0.1)
    spec = chart(Picture("t", "power", None, [point]))
    (arrow,) = (x for x in spec["layer"] if x["mark"].get("shape") == "triangle-right")
    edge = data_of(spec, spec["layer"][0])[0]["x2"]
    assert edge < 9
    assert [(r["activity"], r["goodput"]) for r in data_of(spec, arrow)] == [(edge, 0.0)]


def test_what_is_not_comparable_is_hollow_and_the_legend_says_in_no_quadrant() -> None:
    points = [Point(1, "a", "pass", 0.1, 0.1), Point(2, "b", "not_comparable", 0.1, -0.1)]
    picture = Picture("t", "power", None, points)
    (dots,) = (x for x in chart(picture)["layer"] if "fill" in x["encoding"])
    fill = dots["encoding"]["fill"]["scale"]
    hollow = "not comparable (in no quadrant)"
    assert dict(zip(fill["domain"], fill["range"], strict=True))[hollow] == "white"
    assert hollow in words_of(picture)


@pytest.mark.parametrize("size", [0.001, 0.02, 0.3, 5.0])
def test_no_tick_is_written_twice(size: float) -> None:
    point = Point(1, "a", "pass", size, -size / 2, None, size / 2, 2 * size, -size, 0.0)
    (dots,) = (
        x for x in chart(Picture("t", "power", None, [point]))["layer"] if "fill" in x["encoding"]
    )
    for side in ("x", "y"):
        axis = dots["encoding"][side]["axis"]
        written = [f"{tick:+.0%}" for tick in axis["values"]]
        assert axis["format"] == "+.0%"
        assert len(set(written)) == len(written) >= 3


@pytest.mark.long
def test_notes_stand_below_the_title_and_on_the_page() -> None:
    notes = ["notice: the policy judges otherwise than by default: margin = 0.5", HOSTILE]
    picture = Picture("t", "power", None, POINTS, notes)
    drawn = Xml.fromstring(svg(picture))
    words = " ".join("".join(e.itertext()) for e in drawn.iter() if e.tag.endswith("text"))
    assert notes[0] in words
    assert png(picture) != png(Picture("t", "power", None, POINTS))
    page = html(picture)
    assert page.count("margin = 0.5") == 1
    assert "<script>" not in page


def test_many_notes_are_counted() -> None:
    picture = Picture("t", "power", None, POINTS, [f"note {n}" for n in range(40)])
    lines = chart(picture)["title"]["subtitle"]
    assert (len(lines), lines[1], lines[-1]) == (
        9, "note 0", "… 40 notes in all: the table has them",
    )  # fmt: skip
