"""The problem codes of Nsight Systems exports."""

from __future__ import annotations

from typing import Final

from trueput.source_api import Severity
from trueput.tally import Codes

CODES: Final[Codes] = {
    "NSYS001": (Severity.ERROR, "not readable as an Nsight Systems export"),
    "NSYS002": (Severity.ERROR, "damaged: the rest of a table is not read"),
    "NSYS003": (Severity.WARNING, "operations that end before they start, or have no time"),
    "NSYS004": (Severity.INFO, "operations of no length, kept and marked zero_duration"),
    "NSYS005": (Severity.WARNING, "operations longer than half the capture, marked"),
    "NSYS006": (Severity.WARNING, "graph spans whose times could not be collected"),
    "NSYS007": (Severity.INFO, "ranges that were never closed, not read"),
    "NSYS008": (Severity.INFO, "ranges that end on another thread: not projected on the GPU"),
    "NSYS009": (Severity.WARNING, "ranges or calls that end before they start, not read"),
    "NSYS010": (Severity.ERROR, "no operation on a GPU in this export"),
    "NSYS011": (Severity.WARNING, "blind to graphs: graph launches, but neither kernels nor spans"),
    "NSYS012": (Severity.INFO, "no start of the session in UTC: instants cannot be dated"),
    "NSYS013": (Severity.INFO, "instants were shifted by the exporter; the shift is taken back"),
    "NSYS014": (Severity.INFO, "only some tables or times were exported"),
    "NSYS015": (Severity.WARNING, "the profiler warns of its own capture"),
    "NSYS016": (Severity.WARNING, "launches without any operation: the GPU side was not recorded"),
    "NSYS017": (Severity.INFO, "devices without an identity: keyed by process and ordinal"),
    "NSYS018": (Severity.INFO, "processes not told for operations: they join no launch"),
    "NSYS019": (Severity.WARNING, "unfinished journal beside the file; it is not read"),
    "NSYS021": (Severity.INFO, "launches that waited for a full command buffer"),
    "NSYS022": (Severity.INFO, "graph spans instead of kernels: gaps inside a span are not seen"),
    "NSYS023": (Severity.WARNING, "sampled ratios outside 0..1: missing"),
    "NSYS024": (Severity.WARNING, "operations were lost: gaps between the rest are not idle"),
    "NSYS025": (Severity.WARNING, "kernels without a name: it is not known which communicate"),
    "NSYS026": (Severity.INFO, "launches that returned an error, and launched nothing"),
    "NSYS027": (Severity.WARNING, "no launch and no graph span exported: graphs may run in gaps"),
}
"""Code -> severity and meaning."""
