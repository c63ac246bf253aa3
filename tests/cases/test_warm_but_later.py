"""A warm replica that reaches decode after a cold one, through each kind of file that tells it.

Warm on A: 80 ms of queue + 10 ms of prefill, 90 ms to decode. Cold on B, at the same time and of
the same length: 5 + 50, 55 ms. The first-token times follow, yet A saved 40 ms of prefill.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueput.gate.rule_api import Finding
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

START_S = 1_795_959_000
PROMPT = 1000
#: replica, queue and prefill in ms, cached prompt tokens
WARM, COLD = ("A", 80, 10, 900), ("B", 5, 50, 0)
Route = tuple[str, int, int, int]
CLIENT = """
[[columns]]
file = "client.jsonl"
vantage = "client"
[columns.names]
request_id = "id"
sent_at = "sent"
ttft = "ttft"
e2e = "e2e"
prompt_tokens = "prompt"
output_tokens = "tokens"
cached_prompt_tokens = "cached"
status = "status"
[columns.units]
sent = "s"
ttft = "ms"
e2e = "ms"
"""
SERVED = """
[[columns]]
file = "{vantage}.jsonl"
vantage = "{vantage}"
[columns.names]
request_id = "id"
arrived_at = "at"
{names}
[columns.units]
at = "s"
queue = "ms"
prefill = "ms"
"""
TIMES = 'queue = "queue"\nprefill = "prefill"\n'
REPLICA = 'replica = "replica"\n'


def lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")


def sent_by_a_client(folder: Path, routes: list[Route]) -> list[dict[str, object]]:
    """Write the client's records; return the server side's, one a request.

    The run called `cand` is an hour later, and its answers take 3 ms longer.
    """
    folder.mkdir()
    later = folder.name == "cand"
    client: list[dict[str, object]] = []
    served: list[dict[str, object]] = []
    for place, (replica, queue, prefill, cached) in enumerate(routes):
        at = START_S + place // 2 + 3600 * later
        client.append(
            {"id": f"r{place}", "sent": at, "ttft": queue + prefill,
             "e2e": queue + prefill + 400 + 3 * later, "prompt": PROMPT, "tokens": 20,
             "status": "ok", "cached": cached}
        )  # fmt: skip
        served.append(
            {"id": f"r{place}", "at": at, "replica": replica, "queue": queue, "prefill": prefill}
        )  # fmt: skip
    lines(folder / "client.jsonl", client)
    return served


def by_router(folder: Path, routes: list[Route]) -> None:
    """A router's record names the replica, an engine's record has the times."""
    served = sent_by_a_client(folder, routes)
    lines(folder / "router.jsonl", [{k: row[k] for k in ("id", "at", "replica")} for row in served])
    lines(folder / "engine.jsonl", served)
    (folder / "run.toml").write_text(
        CLIENT
        + SERVED.format(vantage="router", names=REPLICA)
        + SERVED.format(vantage="engine", names=TIMES)
    )


def by_column(folder: Path, routes: list[Route]) -> None:
    """A column of the engines' own records, described in run.toml."""
    lines(folder / "engine.jsonl", sent_by_a_client(folder, routes))
    (folder / "run.toml").write_text(
        CLIENT + SERVED.format(vantage="engine", names=REPLICA + TIMES)
    )


def span(row: dict[str, object], instance: str | None) -> dict[str, object]:
    place = int(str(row["id"])[1:]) + 1
    queue, prefill = (float(str(row[name])) / 1000 for name in ("queue", "prefill"))
    resource = [("service.name", {"stringValue": "vllm-server"})]
    if instance:
        resource.append(("service.instance.id", {"stringValue": instance}))
    start = int(str(row["at"])) * 10**9
    given: list[tuple[str, dict[str, object]]] = [
        ("gen_ai.request.id", {"stringValue": row["id"]}),
        ("gen_ai.usage.prompt_tokens", {"intValue": str(PROMPT)}),
        ("gen_ai.usage.completion_tokens", {"intValue": "20"}),
        ("gen_ai.latency.time_in_queue", {"doubleValue": queue}),
        ("gen_ai.latency.time_in_model_prefill", {"doubleValue": prefill}),
        ("gen_ai.latency.time_to_first_token", {"doubleValue": queue + prefill}),
        ("gen_ai.latency.e2e", {"doubleValue": queue + prefill + 0.4}),
    ]
    named = [[{"key": key, "value": value} for key, value in pairs] for pairs in (resource, given)]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": named[0]},
                "scopeSpans": [
                    {
                        "scope": {"name": "vllm.llm_engine"},
                        "spans": [
                            {
                                "name": "llm_request", "traceId": "ab" * 16,
                                "spanId": f"{place:016x}",
                                "startTimeUnixNano": str(start),
                                "endTimeUnixNano": str(start + 500_000_000),
                                "attributes": named[1], "status": {},
                            }
                        ],
                    }
                ],
            }
        ]
    }  # fmt: skip


def by_spans(folder: Path, routes: list[Route]) -> None:
    """One file of spans, whose resources name the engine's instance."""
    rows = sent_by_a_client(folder, routes)
    lines(folder / "otlp.jsonl", [span(row, str(row["replica"])) for row in rows])
    (folder / "run.toml").write_text(CLIENT)


def by_engines(folder: Path, routes: list[Route]) -> None:
    """Two engines, each with a file of spans of its own that does not say its name."""
    rows = sent_by_a_client(folder, routes)
    for replica in "AB":
        mine = [span(row, None) for row in rows if row["replica"] == replica]
        lines(folder / f"otlp_{replica}.jsonl", mine)
    (folder / "run.toml").write_text(CLIENT)


def found(base: Path, cand: Path, store: Path) -> Finding:
    result = gate(str(base), [str(cand)], reading=Reading(store=store, slo="ttft=500ms"))
    (finding,) = (f for f in result.candidates[0].findings if f.rule == "warm-but-later")
    return finding


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("write", [by_router, by_column, by_spans, by_engines])
def test_the_warm_replica_is_later(write: object, tmp_path: Path) -> None:
    base, cand = tmp_path / "base", tmp_path / "cand"
    write(base, [("A", 5, 10, 900), COLD] * 5)  # type: ignore[operator]
    write(cand, [WARM, COLD] * 5)  # type: ignore[operator]
    finding = found(base, cand, tmp_path / "store")
    assert (finding.outcome, finding.severity) == ("flagged", "informing")
    assert (finding.baseline, finding.candidate) == (0.0, 1.0)
    # exact binomial lower bound of 5 of 5: 0.05 ** (1 / 5) = 0.5493
    assert "5 of 5 warm requests, 100.0% (54.9% to 100.0%)" in finding.conclusion
    assert "80 ms queue + 10 ms prefill" in finding.conclusion
    assert "5 ms queue + 50 ms prefill" in finding.conclusion
    assert finding.conclusion.endswith("in the baseline 0 of 5.")
    back = found(cand, base, tmp_path / "store")
    assert back.candidate == 0.0
    assert back.outcome == "inconclusive", "five are too few to rule out one in twenty"


def test_without_a_peer_nothing_is_compared(tmp_path: Path) -> None:
    """All on one replica, and cold everywhere: there is no warm request with a cold peer."""
    one, other = tmp_path / "one", tmp_path / "other"
    by_column(one, [("A", 80, 10, 900)] * 6)
    by_column(other, [COLD, ("A", 5, 50, 0)] * 3)
    finding = found(one, other, tmp_path / "store")
    assert finding.outcome == "not_applicable"
    assert (finding.baseline, finding.candidate) == (None, None)
