"""Pages that are too narrow: what is left out is said, and no path or figure is broken."""

from __future__ import annotations

import io
from pathlib import Path

from cli.program import Program
from rich.console import Console

from trueput.cli.output import Grid, print_grid
from trueput.cli.pages.doctor_page import draw
from trueput.cli.pages.layout import table
from trueput.verbs.doctor import Diagnosis

PROFILE = "torch_profile/dp0_pp0_tp0_dcp0_ep0_rank0.1767268842342483617.pt.trace.json.gz"


def printed(grid: Grid, width: int) -> list[str]:
    out = io.StringIO()
    print_grid(Console(file=out, width=width), grid)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_columns_that_find_no_room_are_named_with_the_width_that_shows_them() -> None:
    """Columns of 9 and gaps of 2: 4 x 9 + 3 x 2 and a blank on either side are 44."""
    names = ("first", "second", "third", "fourth")
    grid = Grid(names, [["x" * 9] * 4], spare=("third", "second"))
    lines = printed(grid, 43)
    assert lines[0].split() == ["first", "second", "fourth"]
    told = " ".join(" ".join(lines[3:]).split())
    assert told == "not shown, for the page is too narrow: third; COLUMNS=44 shows all"
    assert printed(grid, 44)[0].split() == list(names)
    assert len(printed(grid, 44)) == 3


def test_runs_names_what_it_leaves_out(store: Path) -> None:
    page = Program(store, 80)("runs").stdout
    assert "not shown, for the page is too narrow: engine, model;" in page
    assert "not shown" not in Program(store, 160)("runs").stdout


def test_a_figure_is_broken_after_the_words_beside_it() -> None:
    out = io.StringIO()
    table(Console(file=out, width=30), ("file", "+-"), [["a" * 60, "1.00 us"]], right=("+-",))
    assert "1.00 us" in out.getvalue()


def diagnosis(path: str) -> Diagnosis:
    source = {"source_id": path, "format": "kineto_json", "record_rows": 6150, "clock_kind": "utc",
              "clock_method": "baseTimeNanoseconds", "clock_uncertainty_ns": 1000}  # fmt: skip
    answer = {"question": "preemptions", "best_basis": "unknown", "source": None,
              "what_would_improve_it": "scrape /metrics during the run"}  # fmt: skip
    problem = {"source_id": path, "line": 7, "code": "KINETO001", "severity": "warning",
               "occurrences": 3, "text": "the file ends early"}  # fmt: skip
    return Diagnosis(
        run_id="r", usable=True, sources=[source], evidence=[answer], problems=[problem],
        failed_checks=[],
    )  # fmt: skip


def test_doctor_breaks_neither_paths_nor_spans() -> None:
    for width in (80, 160):
        out = io.StringIO()
        draw(Console(file=out, width=width), [diagnosis(PROFILE)])
        page = out.getvalue()
        assert max(map(len, page.splitlines())) <= width
        assert page.count(PROFILE.partition("/")[2]) == 2
        for text in ("6150", "1.00 us", "KINETO001", "the file ends early", "scrape /metrics"):
            assert text in page


def test_a_path_longer_than_the_page_is_broken_at_its_folder() -> None:
    out = io.StringIO()
    draw(Console(file=out, width=80), [diagnosis(f"nights/monday/{PROFILE}")])
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert "nights/monday/torch_profile/" in lines
    assert PROFILE.partition("/")[2] in lines
