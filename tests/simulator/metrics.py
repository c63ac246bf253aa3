"""Scrapes of `/metrics`: the families that say how much was asked, computed, lost and delivered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf

from simulator.clocks import decimal_seconds, unix_ns, wall
from simulator.config import Config
from simulator.engine import READY_AT, Run
from simulator.workload import Request

LABELS = 'engine="0",model_name="sim-model"'
EDGES = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKEN_EDGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


class Tally:
    """A counter's growth over the run: amounts at instants."""

    def __init__(self, grown: list[tuple[int, float]]) -> None:
        grown.sort()
        self.at = [at for at, _ in grown]
        self.sums = [0.0]
        for _, amount in grown:
            self.sums.append(self.sums[-1] + amount)

    def value(self, at: int) -> float:
        """The counter at an instant."""
        return self.sums[bisect_right(self.at, at)]


def _finished(run: Run) -> list[Request]:
    return [one for one in run.requests if one.produced and one.aborted_at is None]


def _preemptions(one: Request) -> list[int]:
    """When the front end hears of each: with the victim's next token, or never."""
    found = []
    for at in one.preemptions:
        later = [token for token in one.token_at if token > at]
        if later:
            found.append(later[0])
    return found


def _counters(run: Run) -> Iterator[tuple[str, str, str, Tally]]:
    started = [one for one in run.requests if one.token_at]

    def first(amount: str) -> Tally:
        return Tally([(one.token_at[0], float(getattr(one, amount))) for one in started])

    yield (
        "num_preemptions",
        LABELS,
        "Cumulative number of preemption from the engine.",
        Tally([(at, 1.0) for one in run.requests for at in _preemptions(one)]),
    )
    yield "prompt_tokens", LABELS, "Number of prefill tokens processed.", first("prompt")
    computed = Tally([(one.token_at[0], float(one.prompt - one.cached)) for one in started])
    text = "Number of prompt tokens by source."
    local = f'{LABELS},source="local_compute"'
    yield "prompt_tokens_by_source", local, text, computed
    hits = f'{LABELS},source="local_cache_hit"'
    yield "prompt_tokens_by_source", hits, text, first("cached")
    text = "Number of cached prompt tokens (local + external)."
    yield "prompt_tokens_cached", LABELS, text, first("cached")
    yield (
        "generation_tokens",
        LABELS,
        "Number of generation tokens processed.",
        Tally([(at, 1.0) for one in run.requests for at in one.token_at]),
    )
    if run.config.prefix_caching:
        new = [one for one in run.requests if one.first_scheduled_at is not None]
        for name, amount in (("queries", "prompt"), ("hits", "cached")):
            tally = Tally([(one.first_scheduled_at or 0, getattr(one, amount)) for one in new])
            yield f"prefix_cache_{name}", LABELS, f"Prefix cache {name}, in tokens.", tally
    for reason in ("stop", "length", "abort", "error"):
        grown = [
            (one.finished_at or 0, 1.0) for one in _finished(run)
            if reason == ("stop" if one.length < one.asked else "length")
        ]  # fmt: skip
        labels = f'{LABELS},finished_reason="{reason}"'
        yield "request_success", labels, "Count of successfully processed requests.", Tally(grown)


def _histograms(run: Run) -> Iterator[tuple[str, str, list[tuple[int, float]]]]:
    done = _finished(run)
    yield (
        "time_to_first_token_seconds", "Histogram of time to first token in seconds.",
        [(one.token_at[0], (one.token_at[0] - one.arrived_at) / 1e9)
         for one in run.requests if one.token_at],
    )  # fmt: skip
    yield (
        "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
        [(one.token_at[-1], (one.token_at[-1] - one.arrived_at) / 1e9) for one in done],
    )  # fmt: skip
    yield (
        "request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
        [(one.token_at[-1], ((one.first_scheduled_at or 0) - (one.queued_at or 0)) / 1e9)
         for one in done],
    )  # fmt: skip
    yield (
        "request_prefill_kv_computed_tokens",
        "Histogram of number of new KV tokens computed during prefill (excluding cached tokens).",
        [(one.token_at[-1], float(one.prompt - one.cached)) for one in done],
    )  # fmt: skip
    yield (
        "request_num_preemptions", "Histogram of preemptions per request.",
        [(one.token_at[-1], float(len(one.preemptions))) for one in done],
    )  # fmt: skip


def _edges(name: str) -> tuple[float, ...]:
    return TOKEN_EDGES if name.endswith("_tokens") else EDGES


def _gauges(run: Run) -> list[tuple[str, str, list[float]]]:
    return [
        ("num_requests_running", "Number of requests in model execution batches.",
         [float(step.running) for step in run.steps]),
        ("num_requests_waiting", "Number of requests waiting to be processed.",
         [float(step.waiting) for step in run.steps]),
        ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
         [round(step.kv_used, 6) for step in run.steps]),
    ]  # fmt: skip


def _config_info(config: Config) -> str:
    return (
        f'vllm:cache_config_info{{block_size="{config.block_size}",cache_dtype="auto",'
        f'enable_prefix_caching="{config.prefix_caching}",engine="0",'
        f'num_gpu_blocks="{config.num_blocks}",num_gpu_blocks_override="{config.num_blocks}"}} 1.0'
    )


def write(run: Run) -> str:
    """All scrapes, each preceded by its instant."""
    counters, gauges = list(_counters(run)), _gauges(run)
    histograms = [(name, text, rows, Tally(rows)) for name, text, rows in _histograms(run)]
    counts = [
        [Tally([(at, 1.0) for at, value in rows if value <= edge]) for edge in (*_edges(name), inf)]
        for name, _, rows, _ in histograms
    ]
    done = [step.done_at for step in run.steps]
    lines: list[str] = []
    instants = [*range(READY_AT, run.ended_at, run.config.scrape_ns), run.ended_at]
    for at in instants:
        lines.append(f"# SCRAPE {decimal_seconds(unix_ns(at))} {wall(at):%Y-%m-%dT%H:%M:%S+00:00}")
        lines.append("# TYPE process_start_time_seconds gauge")
        lines.append(f"process_start_time_seconds {decimal_seconds(unix_ns(0))}")
        told: set[str] = set()
        place = bisect_right(done, at)
        for name, text, values in gauges:
            lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} gauge"]
            lines.append(f"vllm:{name}{{{LABELS}}} {values[place - 1] if place else 0.0}")
        for name, labels, text, tally in counters:
            if name not in told:
                lines += [f"# HELP vllm:{name}_total {text}", f"# TYPE vllm:{name}_total counter"]
                told.add(name)
            lines.append(f"vllm:{name}_total{{{labels}}} {tally.value(at)}")
        for (name, text, _, total), buckets in zip(histograms, counts, strict=True):
            lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} histogram"]
            for edge, tally in zip([*map(str, _edges(name)), "+Inf"], buckets, strict=True):
                lines.append(f'vllm:{name}_bucket{{{LABELS},le="{edge}"}} {tally.value(at)}')
            lines.append(f"vllm:{name}_count{{{LABELS}}} {buckets[-1].value(at)}")
            lines.append(f"vllm:{name}_sum{{{LABELS}}} {total.value(at)}")
        lines += ["# TYPE vllm:cache_config_info gauge", _config_info(run.config)]
    return "\n".join(lines) + "\n"
