"""Runs written down in a line, for cases that fit on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.figures import RunFigures

SECOND = 10**9


def run(
    name: str,
    outcomes: str = "g" * 50,
    *,
    tokens: float = 10_000,
    window_s: int = 100,
    latency_ns: int = SECOND,
    scale: int = 1,
    prompt: int | Sequence[int] = 100,
    recomputed: float | None = 0.0,
    devices: int | None = None,
    activity: bool = True,
    slo: str | None = "ttft=1000ms",
    shuffled: bool = False,
    answers: Sequence[int | None] = (20,),
    **facts: object,
) -> RunFigures:
    """Return a run; one letter a request: g good, l late, f failed, r rejected, n not sent."""
    words = {"g": "good", "l": "late", "f": "failed", "r": "rejected", "n": "not_sent"}
    count = {word: outcomes.count(letter) for letter, word in words.items()}
    planned, window = len(outcomes), window_s * SECOND * scale
    requests: list[dict[str, object]] = []
    for place, letter in enumerate(outcomes):
        sent = window * place // (planned + 1)
        done = letter in "gl"
        requests.append(
            {
                "outcome": words[letter],
                "sent_offset_ns": None if letter == "n" else sent,
                "end_offset_ns": None if letter == "n" else sent + latency_ns * scale,
                "ttft_ns": latency_ns * scale // 10 if done else None,
                "e2e_ns": latency_ns * scale if done else None,
                "prompt_tokens": prompt if isinstance(prompt, int) else prompt[place],
                "asked_output_tokens": 20,
                "output_tokens": answers[place % len(answers)] if done else None,
            }
        )
    if shuffled:
        requests = requests[::2] + requests[1::2][::-1]
    goodput: dict[str, object] = {
        "run_id": name, "slo": slo, "window_rule": "all", "window_ns": window,
        "planned_requests": planned, "sent_requests": planned - count["not_sent"],
        "complete_requests": count["good"] + count["late"], "good_requests": count["good"],
        "late_requests": count["late"], "failed_requests": count["failed"],
        "slo_attainment_ratio": count["good"] / planned if slo and planned else None,
        "goodput_rps": count["good"] / (window_s * scale) if slo else None,
        "output_tokens_per_s": 20 * (count["good"] + count["late"]) / (window_s * scale),
        "devices": devices, "basis": "measured",
    }  # fmt: skip
    rung = {"metric": "scheduled_tokens", "value": tokens, "unit": "tokens", "basis": "reported"}
    recompute = {
        "recomputed_tokens": None if recomputed is None else recomputed * tokens,
        "recomputed_ratio": recomputed, "scheduled_tokens": tokens, "basis": "inferred",
    }  # fmt: skip
    rate = (planned + 1) / (window_s * scale)
    load = {"request_rate_per_s": rate, "planned_requests": planned, "writer": "made up"}
    return RunFigures.from_views(
        {
            "goodput": [goodput],
            "request_outcomes": requests,
            "gpu_activity": [rung] if activity else [],
            "recompute": [recompute],
            "runs": [{"run_id": name, "engine": "vllm", **facts}],
            "load_sessions": [load],
        }
    )


def repeats(name: str, count: int, *args: str, **kwargs: object) -> list[RunFigures]:
    """Return repeats that agree in every figure."""
    return [run(f"{name}{i}", *args, **kwargs) for i in range(count)]  # type: ignore[arg-type]
