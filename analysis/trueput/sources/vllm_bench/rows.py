"""The arrays of one `vllm bench serve` result as rows of the table `requests`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from trueput.sources.vllm_bench import bench_json
from trueput.sources.vllm_bench.errors import Failure, classify, classify_value
from trueput.units import MAX_TOKENS, to_ns

_DETAIL_KEYS: Final = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
"""Arrays that only a detailed result has; `latencies` and `queue_times` are in every newer one."""
_OTHER_KEYS: Final = ("latencies", "queue_times", "server_queue_times", "server_ttfts")
END_KEYS: Final = ("errors", "output_lens")
"""Arrays that tell how a request ended."""

_MAX_S: Final = 2**60 / 1e9
"""Gaps of one request add up to less, in seconds."""

_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,4})?")

_COLUMNS: Final = {
    "row_ix": pa.int64(),
    "vantage": pa.string(),
    "traffic": pa.string(),
    "sent_at_ns": pa.int64(),
    "first_token_at_ns": pa.int64(),
    "last_token_at_ns": pa.int64(),
    "ended_at_ns": pa.int64(),
    "prompt_tokens": pa.int64(),
    "output_tokens": pa.int64(),
    "output_tokens_source": pa.string(),
    "status": pa.string(),
    "http_status": pa.int64(),
    "error_kind": pa.string(),
    "queue_ns": pa.int64(),
    "prefill_ns": pa.int64(),
    "ttft_ns": pa.int64(),
    "e2e_ns": pa.int64(),
    "client_queue_ns": pa.int64(),
}


@dataclass
class Details:
    """The arrays of one result, undecoded, and what was counted while rows were made."""

    arrays: Mapping[str, Sequence[bench_json.Buffer]]
    size: int
    bad: set[str] = field(default_factory=set)
    complete: int = 0
    """Rows that the client counts as completed, as far as `table` has been called."""
    odd_errors: int = 0
    """Entries of `errors` that are neither text nor null, as far as `table` has been called."""

    @property
    def timed(self) -> bool:
        """Whether the rows have instants."""
        return bool(self.arrays.get("start_times"))

    @property
    def lengths_differ(self) -> bool:
        """Whether some array is shorter than another."""
        return len({len(items) for items in self.arrays.values()}) > 1

    @property
    def ends_untold(self) -> bool:
        """Whether an array that tells how requests ended is shorter than another."""
        told = [len(self.arrays[key]) for key in END_KEYS if key in self.arrays]
        return any(length < self.size for length in told)

    @property
    def lengths_text(self) -> str:
        """The length of each array, for a message."""
        return ", ".join(f"{key} {len(items)}" for key, items in sorted(self.arrays.items()))

    def table(self, start: int, stop: int, session: str | None, before: int = 0) -> pa.Table:
        """Return rows `start` to `stop` of the table `requests`.

        `before` rows of the file's earlier results stand before them, so that `row_ix` is unique.
        """
        columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        gaps: list[np.ndarray[Any, np.dtype[np.int64]] | None] = []
        for index in range(start, stop):
            row, row_gaps = self._row(index)
            row["row_ix"] += before
            for name, values in columns.items():
                values.append(row.get(name))
            gaps.append(row_gaps)
        arrays = {name: pa.array(columns[name], kind) for name, kind in _COLUMNS.items()}
        arrays["gaps_ns"] = pa.array(gaps, pa.list_(pa.int64()))
        arrays["session"] = pa.repeat(pa.scalar(session, pa.string()), stop - start)
        return pa.table(arrays)

    def _row(self, index: int) -> tuple[dict[str, Any], np.ndarray[Any, np.dtype[np.int64]] | None]:
        gaps = self._gaps(index)
        ttft = self._span("ttfts", index) or None
        latency = self._span("latencies", index)
        output = self._count("output_lens", index)
        # several tokens without a gap between them: when the last one came is not told
        told = gaps is not None and (gaps.size > 0 or output is None or output <= 1)
        token_gaps = int(gaps.sum()) if gaps is not None and told else None
        failure = self._failure(index, ttft, latency, output, gaps)
        row: dict[str, Any] = {
            "row_ix": index,
            "vantage": "client",
            "traffic": "load",
            "prompt_tokens": self._count("input_lens", index),
            "queue_ns": self._span("server_queue_times", index),
            "prefill_ns": self._span("server_ttfts", index),
            "client_queue_ns": self._span("queue_times", index),
            "ttft_ns": ttft,
            "status": failure.status if failure else None,
            "http_status": failure.http_status if failure else None,
            "error_kind": (failure.kind or None) if failure else None,
        }
        status = row["status"]
        row["e2e_ns"] = latency or None
        if not self._has("latencies") and status == "ok" and None not in (ttft, token_gaps):
            row["e2e_ns"] = (ttft or 0) + (token_gaps or 0)
        if output == 0 and status not in {"ok", "empty"}:
            chunks = 0 if ttft is None else 1 + (0 if gaps is None else len(gaps))
            row["output_tokens"], row["output_tokens_source"] = chunks, "chunks"
        elif output is not None:
            row["output_tokens"], row["output_tokens_source"] = output, "client_usage"
        self._instants(row, index, token_gaps)
        return row, gaps

    def _instants(self, row: dict[str, Any], index: int, token_gaps: int | None) -> None:
        sent = self._instant("start_times", index)
        row["sent_at_ns"] = sent
        if sent is None:
            return
        if row["ttft_ns"] is not None:
            row["first_token_at_ns"] = sent + row["ttft_ns"]
            if token_gaps is not None:
                row["last_token_at_ns"] = row["first_token_at_ns"] + token_gaps
        if row["e2e_ns"] is not None:
            row["ended_at_ns"] = sent + row["e2e_ns"]

    def _failure(
        self,
        index: int,
        ttft: int | None,
        latency: int | None,
        output: int | None,
        gaps: np.ndarray[Any, np.dtype[np.int64]] | None,
    ) -> Failure | None:
        """Return how the row ended as the client claims it; None where the file does not say."""
        streamed = ttft is not None or (gaps is not None and len(gaps) > 0)
        error = self._item("errors", index)
        if error is not None and error != "":
            return self._told_failure(error, streamed)
        if self._is_untold("errors", index) or (output is None and self._has("output_lens")):
            return None  # the entry is missing, or what came back is no count
        told = error == ""
        if output is None:
            ok = told and (latency is None or latency > 0 or streamed or "ttfts" not in self.arrays)
        else:
            ok = output > 0
        if ok:
            self.complete += 1
            return Failure("ok", "")
        if output is None and not told:
            return None
        if told and (streamed or latency):
            self.complete += 1
            return Failure("empty", "")
        return Failure("stream_error" if streamed else "failed", "")

    def _told_failure(self, error: Any, streamed: bool) -> Failure:
        """Return what an entry of `errors` says; a value of any other type is a failure too."""
        if isinstance(error, str):
            return classify(error, streamed)
        self.odd_errors += 1
        return classify_value(error, streamed)

    def _has(self, key: str) -> bool:
        """Whether the result holds this key, as an array or as something else."""
        return key in self.arrays or key in self.bad

    def _is_untold(self, key: str, index: int) -> bool:
        """Whether the result holds this array, but nothing that can be read at `index`."""
        items = self.arrays.get(key)
        if items is None:
            return key in self.bad
        return index >= len(items) or (
            bytes(items[index][:5]) != b"null" and self._item(key, index) is None
        )

    def _item(self, key: str, index: int) -> Any:
        items = self.arrays.get(key, ())
        return bench_json.value(items[index]) if index < len(items) else None

    def _number(self, key: str, index: int) -> float | None:
        got = self._item(key, index)
        if got is None:
            return None
        if isinstance(got, bool) or not isinstance(got, int | float):
            self.bad.add(key)
            return None
        return got

    def _count(self, key: str, index: int) -> int | None:
        got = self._number(key, index)
        if got is None:
            return None
        if not 0 <= got <= MAX_TOKENS or got != int(got):
            self.bad.add(key)
            return None
        return int(got)

    def first_instant(self) -> int | None:
        """Return the first send."""
        return self._instant("start_times", 0)

    def _instant(self, key: str, index: int) -> int | None:
        """Return seconds as nanoseconds, straight from the printed digits."""
        items = self.arrays.get(key, ())
        if index >= len(items) or bytes(items[index][:4]) == b"null":
            return None
        text = bytes(items[index][:64])
        ns = to_ns(text.decode(), "s") if _NUMBER.fullmatch(text) else None
        if ns is None or abs(ns) > 2**61:
            self.bad.add(key)
            return None
        return ns

    def _span(self, key: str, index: int) -> int | None:
        ns = self._instant(key, index)
        if ns is not None and ns < 0:
            self.bad.add(key)
            return None
        return ns

    def _gaps(self, index: int) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        items = self.arrays.get("itls", ())
        if index >= len(items):
            return None
        try:
            seconds = msgspec.json.decode(items[index], type=list[float])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            if bytes(items[index]) != b"null":
                self.bad.add("itls")
            return None
        told = np.asarray(seconds, np.float64)
        # each is compared before they are added: the sum of what a file may hold can overflow
        if told.size and not (told.min() >= 0 and told.max() < _MAX_S and told.sum() < _MAX_S):
            self.bad.add("itls")
            return None
        return np.rint(told * 1e9).astype(np.int64)


def details_of(fields: Mapping[str, bench_json.Buffer]) -> Details | None:
    """Return the arrays of a result; None where it holds no record per request."""
    arrays: dict[str, Sequence[bench_json.Buffer]] = {}
    bad: set[str] = set()
    for key in (*_DETAIL_KEYS, *_OTHER_KEYS):
        raw = fields.get(key)
        if raw is None or bytes(raw[:4]) == b"null":
            continue
        items = bench_json.elements(raw)
        if items is None:
            bad.add(key)
        else:
            arrays[key] = items
    if not any(key in arrays for key in _DETAIL_KEYS):
        return None
    return Details(arrays, max(len(items) for items in arrays.values()), bad)
