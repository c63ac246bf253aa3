"""Lines of a Prometheus exposition -> samples, scrape by scrape, with what is odd about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from trueput.exposition import (
    Marker,
    bare_time,
    marker,
    parse_labels,
    sample_ns,
    split_name,
)
from trueput.source_api import BATCH_ROWS, Fact, Item, Problem, Severity
from trueput.sources.prometheus_text.rows import Lives, Rows
from trueput.sources.prometheus_text.series import (
    Series,
    engine_of,
    is_kept,
    make_series,
)

MAX_SERIES = 200_000
_MAX_REMEMBERED = 20_000
_HARD_ROWS = 4 * BATCH_ROWS
_TYPE_LINE = re.compile(rb"# TYPE\s+([A-Za-z_:][\w:]*)\s+(\w+)\s*$")

TEXTS = {
    "PROM001": (Severity.WARNING, "line is no sample, comment or scrape marker"),
    "PROM002": (Severity.WARNING, "sample has no usable value or timestamp"),
    "PROM003": (Severity.INFO, "value is NaN: nothing observed, not stored"),
    "PROM004": (Severity.WARNING, "value is infinite, not stored"),
    "PROM005": (Severity.WARNING, "the last scrape is cut"),
    "PROM006": (Severity.INFO, "counters began again: a new incarnation of the engine"),
    "PROM007": (Severity.INFO, "no time in the file or its name: modification time taken"),
    "PROM008": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "PROM009": (Severity.INFO, "no vllm:, sglang: or http_request metric in this file"),
    "PROM010": (Severity.WARNING, "a scrape follows without a time between: its time is unknown"),
    "PROM011": (Severity.INFO, "a scrape failed, or its marker has no readable time"),
    "PROM012": (Severity.INFO, "time without a zone read as UTC"),
    "PROM013": (Severity.ERROR, f"more than {MAX_SERIES} series, the others are not read"),
    "PROM014": (
        Severity.WARNING,
        "the last line has no end: its number may lack digits, it is not read",
    ),
}


@dataclass
class Problems:
    """Problems by code: the first line and text of each, and how many there were."""

    found: dict[str, tuple[int | None, int, str]] = field(default_factory=dict)

    def add(self, code: str, line: int | None, text: str = "") -> None:
        """Count one problem; `text` follows the code's own words where it is the first."""
        first, count, old = self.found.get(code, (line, 0, text))
        self.found[code] = (first, count + 1, old)

    def items(self) -> Iterator[Problem]:
        """Yield one `Problem` for each code, in the order of codes."""
        for code, (line, count, text) in sorted(self.found.items()):
            severity, words = TEXTS[code]
            yield Problem(code, severity, f"{words}{text}", line, count)


@dataclass
class _Scrape:
    """Where the scrape being read began and when it was taken."""

    line: int = 0
    at_ns: int | None = None
    key: int = 0
    first: Series | None = None
    rows: int = 0
    from_file: bool = False


class Reader:
    """The state of one reading: known series, the scrape at hand, rows not yet handed out."""

    def __init__(self, file_ns: int | None) -> None:
        self.file_ns = file_ns
        self.known: dict[bytes, Series] = {}
        self.series: list[Series] = []
        self.ignored: set[bytes] = set()
        self.comments: set[bytes] = set()
        self.types: dict[str, str] = {}
        self.lives = Lives()
        self.rows = Rows()
        self.problems = Problems()
        self.facts: dict[str, Fact] = {}
        self.scrape = _Scrape()
        self.rows_before = 0
        self.last_before = 0
        self.reset_line = 0
        self.marked = False
        self.used_file_time = False
        self.own_times = False

    def lines(self, lines: list[bytes], line_no: int) -> Iterator[Item]:
        """Read whole lines, the first of which is number `line_no`."""
        known, ixs = self.known, self.rows.ixs
        for number, line in enumerate(lines, line_no):
            cut = line.rfind(b"}") + 1 or line.find(b" ")
            series = known.get(line[:cut])
            if series is not None:
                rest, first = line[cut:], self.scrape.first
                if rest == series.rest and first is not None and first is not series:
                    self.repeat(series)
                else:
                    self.sample(series, rest, number)
            elif line[:1] == b"#":
                if line not in self.comments:
                    self.comment(line, number)
            elif line and not line.isspace():
                self.unknown(line, number)
            if len(ixs) >= BATCH_ROWS:
                yield from self.flush()

    def flush(self) -> Iterator[Item]:
        """Hand out the scrapes before the one at hand, whose incarnation is not settled yet."""
        count = len(self.rows) - self.scrape.rows
        if count <= 0 and len(self.rows) >= _HARD_ROWS:
            count = len(self.rows)
            self.scrape.rows = 0
        if count > 0:
            yield from self.rows.take(count, self.series, self.lives)

    def comment(self, line: bytes, number: int) -> None:
        """Take a comment: a type, the end of a scrape, a marker, or nothing of use."""
        found = _TYPE_LINE.match(line)
        if found is None and (mark := marker(line)) is not None:
            self.mark(mark, number)
            return
        if len(self.comments) < _MAX_REMEMBERED and len(line) < 4096:
            self.comments.add(line)
        if found is not None and len(self.types) < MAX_SERIES:
            name = found[1].decode()
            if is_kept(name) or is_kept(name + "_total"):
                self.types[name] = found[2].decode().lower()

    def mark(self, mark: Marker, number: int) -> None:
        """Begin a scrape at a marker."""
        self.marked = True
        if mark.zone_assumed:
            self.problems.add("PROM012", number)
        if mark.failed or mark.at_ns is None:
            self.problems.add("PROM011", number)
        if mark.failed:
            return
        if self.scrape.from_file and self.scrape.rows:
            # What came before the first marker was not taken at the file's own time.
            self.rows.forget_times(self.scrape.rows)
            self.problems.add("PROM010", self.scrape.line)
        self.end_scrape()
        key = number if mark.at_ns is None else mark.at_ns
        self.scrape = _Scrape(number, mark.at_ns, key)

    def end_scrape(self) -> None:
        """Remember how full the scrape at hand was, and its last series."""
        if self.scrape.rows:
            self.rows_before = self.scrape.rows
            self.last_before = self.rows.ixs[-1]
        self.scrape = _Scrape()

    def begin_unmarked(self, number: int) -> None:
        """Begin a scrape that no marker announced: the file's time is that of the last."""
        if self.scrape.rows:
            if self.scrape.from_file:
                self.rows.forget_times(self.scrape.rows)
            self.problems.add("PROM010", number)
        self.end_scrape()
        at_ns = None if self.marked else self.file_ns
        self.scrape = _Scrape(number, at_ns, number, from_file=at_ns is not None)

    def unknown(self, line: bytes, number: int) -> None:
        """Take a line whose series is not known yet: a new one, an ignored family, or garbage."""
        if (mark := bare_time(line)) is not None:
            self.mark(mark, number)
            return
        body = line
        exemplar = line.find(b" # ")
        if exemplar > 0 and line.count(b'"', 0, exemplar) % 2 == 0:
            body = line[:exemplar]
        body = body.strip()
        cut = body.rfind(b"}") + 1 or len(body.split(None, 1)[0])
        name = body[:cut].partition(b"{")[0].rstrip()
        if name and name in self.ignored:
            return
        key = body[:cut]
        series = self.known.get(key) or self.new_series(key, number)
        if series is not None:
            self.sample(series, body[cut:], number)

    def new_series(self, key: bytes, number: int) -> Series | None:
        """Return the series that `key` names, once it is known to be one that is kept."""
        parts = split_name(key)
        if parts is None:
            self.problems.add("PROM001", number)
            return None
        name, text = parts
        if not is_kept(name):
            if len(self.ignored) < _MAX_REMEMBERED and not key.startswith(b"{"):
                self.ignored.add(name.encode())
            return None
        labels = parse_labels(text)
        model = self.facts.get("model")
        series = None
        if labels is not None and len(self.series) < MAX_SERIES:
            known_model = str(model.value) if model else None
            series = make_series(len(self.series), name, labels, self.types, known_model)
        if series is None:
            full = len(self.series) >= MAX_SERIES
            self.problems.add("PROM013" if full else "PROM001", number)
            return None
        self.series.append(series)
        self.known[key] = series
        self.lives.know(series)
        self.learn(series, number)
        return series

    def learn(self, series: Series, number: int) -> None:
        """Keep what a new series says of the whole run."""
        told: dict[str, str | int | float | bool | None] = {}
        if series.model:
            told["model"] = series.model
        if engine := engine_of(series.metric):
            told["engine"] = engine
        for name, text in (series.config or {}).items():
            value = _plain(text)
            told[f"config.{name}"] = value
            if name == "block_size" and isinstance(value, int):
                told["kv.block_size"] = value
            if name == "num_gpu_blocks" and isinstance(value, int):
                told["kv.blocks"] = value
        for key, value in told.items():
            self.facts.setdefault(key, Fact(key, value, number))

    def sample(self, series: Series, rest: bytes, number: int) -> None:
        """Take one sample: `rest` is what follows the series (value, timestamp, exemplar)."""
        fields = rest.split()
        try:
            value = float(fields[0])
            own = None if len(fields) == 1 else self.own_time(fields)
        except (IndexError, ValueError):
            self.problems.add("PROM002", number)
            return
        if value - value != 0.0:
            self.problems.add("PROM003" if value != value else "PROM004", number)
            return
        scrape = self.scrape
        if own is None:
            if not scrape.line or series is scrape.first:
                self.begin_unmarked(number)
                scrape = self.scrape
            at_ns, key = scrape.at_ns, scrape.key
            series.rest = rest
        else:
            at_ns = key = own
            self.own_times = True
            series.rest = None
            scrape.line = scrape.line or number
        if own is None and scrape.first is None:
            scrape.first = series
        self.watch(series, value, key, number)
        scrape.rows += 1
        rows = self.rows
        rows.ixs.append(series.ix)
        rows.values.append(value)
        rows.ats.append(at_ns)
        rows.keys.append(key)
        rows.lines.append(scrape.line)

    def repeat(self, series: Series) -> None:
        """Take a sample whose text is that of the sample before it: by far most of them."""
        scrape, rows = self.scrape, self.rows
        series.last_key = scrape.key
        scrape.rows += 1
        rows.ixs.append(series.ix)
        rows.values.append(series.last)
        rows.ats.append(scrape.at_ns)
        rows.keys.append(scrape.key)
        rows.lines.append(scrape.line)

    def own_time(self, fields: list[bytes]) -> int | None:
        """Return a sample's own instant. Raises ValueError where there is one that is unusable."""
        if fields[1] == b"#":
            return None
        own = sample_ns(fields[1])
        if own is None or (len(fields) > 2 and fields[2] != b"#"):
            raise ValueError
        return own

    def watch(self, series: Series, value: float, key: int, number: int) -> None:
        """Compare a sample with the one before it: a counter that fell began again."""
        last = series.last
        if series.last_key is not None and value != last:
            if series.monotone:
                if value < last and self.lives.counter_fell(series, key):
                    self.problems.add("PROM006", number)
                    self.reset_line = self.scrape.line
            elif series.is_start_time and self.lives.process_restarted(series, key):
                self.problems.add("PROM006", number)
                self.reset_line = self.scrape.line
        series.last = value
        series.last_key = key

    def finish(self, *, cut_line: int | None) -> Iterator[Item]:
        """Yield what is left; `cut_line` is a last line without a newline, which was not read."""
        scrape = self.scrape
        self.used_file_time = scrape.from_file and scrape.rows > 0
        unread = cut_line is not None
        if unread:
            self.problems.add("PROM014", cut_line)
        if (
            0 < scrape.rows < self.rows_before - unread
            and self.reset_line != scrape.line
            and self.rows.ixs[-1] != self.last_before
        ):
            text = f": {scrape.rows} samples where the one before had {self.rows_before}"
            self.problems.add("PROM005", scrape.line, text)
        if not self.series:
            self.problems.add("PROM009", None)
        yield from self.rows.take(len(self.rows), self.series, self.lives)
        yield from self.facts.values()


def _plain(text: str) -> str | int | float | bool | None:
    """Return the value that vLLM printed as a Python word into a label."""
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if abs(value) < 2**63 else text
    return text
