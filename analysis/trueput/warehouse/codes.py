"""Codes of the problems that the view `problems` finds itself, beside those of the readers."""

from __future__ import annotations

from collections.abc import Mapping

PROBLEM_CODES: Mapping[str, str] = {
    "SUM001": "The engine's phases of requests exceed their end-to-end time; "
    "the least certain phase was cut.",
    "SUM002": "Printed step times exceed the window; the largest work was cut. "
    "A warning where overlapping iterations cannot explain it.",
    "ATTR019": "Iterations of the log have no step annotation in a profile that shows "
    "those around them.",
    "OVERHEAD001": "The profiler did work of its own in the window.",
    "TIME001": "The engine recorded longer times than the client for the same requests.",
    "TIME002": "The client's instants leave the engine more or less time than it recorded.",
    "TIME003": "The engine's histograms hold more long requests than the client's times.",
    "TIME004": "The client's own times contradict each other.",
    "TIME005": "The engine's steps took longer than the client's times leave.",
    "COVER001": "Iterations are missing from the engine's log.",
    "COVER002": "The engine's log begins after the load's first token, or ends before its end.",
    "COVER003": "The engine's log schedules fewer tokens than the load received or was counted.",
    "COVER004": "A file of the engine's record is damaged.",
    "WINDOW001": "Nothing was observed in the window, or nothing places the load in time.",
    "WINDOW002": "Requests without an instant: of the whole load, or perhaps of the window.",
    "WINDOW003": "The window holds only few of the load's requests.",
    "WINDOW004": "Iterations were printed in the seconds that the ends of the window divide.",
    "WINDOW005": "The window ends after the load.",
    "WINDOW006": "The window is shorter than the second that iterations are printed to.",
}
