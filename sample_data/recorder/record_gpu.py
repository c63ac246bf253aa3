"""Record a pair of runs of a small decode loop of our own under the PyTorch profiler.

    python sample_data/recorder/record_gpu.py OUT_DIR [--device cuda|cpu] [--requests N]

Writes OUT_DIR/loop_base and OUT_DIR/loop_more: the same requests at the same instants, once with
few and once with many admitted at a time, on a KV budget that holds only the few. Needs PyTorch
(tried with 2.13) and takes a few minutes. README.md says what the files are, and what they are not.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # read when torch is loaded

import torch
from decoder import Runner, Shape
from records import Step, Telemetry, write_run
from scheduler import BLOCK, Limits, Piece, Request, Scheduler
from torch.profiler import ProfilerActivity, profile, record_function

MOST_BYTES = 1_500_000
FEW, MANY = 4, 16
SHAPES = {
    "cuda": Shape(2, 8192, 64, 8, 128, 4096, MANY, 640),
    "cpu": Shape(2, 256, 4, 2, 64, 1024, MANY, 512),
}
PROMPTS = {"cuda": (352, 400), "cpu": (272, 304)}
OUTPUTS = {"cuda": (96, 112), "cpu": (72, 88)}
REQUESTS = {"cuda": 12, "cpu": 24}
BURST = 12
"""Requests that arrive at one moment; the next burst comes when the few could be done with it."""


@dataclass(frozen=True)
class Pace:
    """What a burst takes with few at a time, measured before the pair without a profiler."""

    burst_ns: int
    ttft_ns: int
    tpot_ns: int


def main() -> int:
    """Record both runs and say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--requests", type=int, help="default: 12 on a GPU, 24 without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-operators", action="store_true", help="leave the trace as written")
    given = parser.parse_args()
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu":
        say("no GPU is used: eager on the CPU, no graphs, and a trace without kernels")
        torch.set_num_threads(1)
    shape = SHAPES[device]
    runner = Runner(shape, device, given.seed)
    count = given.requests or REQUESTS[device]
    longest = PROMPTS[device][1] + OUTPUTS[device][1]
    limits = Limits(FEW, 2 * PROMPTS[device][1], FEW * -(-longest // BLOCK))
    pace = rehearse(runner, limits, given.seed)
    say(
        f"a burst of {BURST} takes {pace.burst_ns / 1e9:.2f} s; worst first token "
        f"{pace.ttft_ns / 1e6:.0f} ms, worst time per token {pace.tpot_ns / 1e6:.2f} ms"
    )
    total = 0
    for name, most in (("loop_base", FEW), ("loop_more", MANY)):
        requests = load(device, count, given.seed, pace.burst_ns * 5 // 4)
        total += record(
            given.out / name, runner, requests, replace(limits, most_running=most), pace,
            keep_operators=given.keep_operators,
        )  # fmt: skip
    say(f"both runs: {total:,} bytes")
    if total > MOST_BYTES:
        say(f"more than {MOST_BYTES:,}: too much for sample_data; give fewer --requests")
        return 1
    return 0


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def load(device: str, count: int, seed: int, gap_ns: int) -> list[Request]:
    """Return the requests: seeded lengths, arriving in bursts."""
    chance = random.Random(seed)
    vocabulary = SHAPES[device].vocabulary
    made = []
    for number in range(count):
        prompt = [chance.randrange(vocabulary) for _ in range(chance.randint(*PROMPTS[device]))]
        asked = chance.randint(*OUTPUTS[device])
        made.append(Request(f"r{number:03d}", prompt, asked, number // BURST * gap_ns))
    return made


def rehearse(runner: Runner, limits: Limits, seed: int) -> Pace:
    """Return what a burst takes with few at a time, from the second of two tries."""
    for _ in range(2):
        requests = load(runner.device, BURST, seed, 0)
        serve(runner, requests, limits)
    begun = requests[0].arrived_at_ns
    return Pace(
        burst_ns=max(r.ended_at_ns for r in requests) - begun,
        ttft_ns=max(r.first_token_at_ns for r in requests) - begun,
        tpot_ns=max((r.ended_at_ns - r.first_token_at_ns) // (len(r.tokens) - 1) for r in requests),
    )


def objective(pace: Pace) -> dict[str, int]:
    """Return the limits of both runs: the rehearsal's worst and half as much again."""
    return {"ttft": pace.ttft_ns * 3 // 2, "tpot": pace.tpot_ns * 3 // 2}


def record(
    folder: Path, runner: Runner, requests: list[Request], limits: Limits, pace: Pace, *,
    keep_operators: bool,
) -> int:  # fmt: skip
    """Run the load once, write what was recorded; return its bytes."""
    activities = [ProfilerActivity.CPU]
    if runner.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with tempfile.TemporaryDirectory() as work, Telemetry(runner.device) as telemetry:
        with profile(activities=activities) as profiler:
            steps, anchors = serve(runner, requests, limits)
        trace = Path(work) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        size = write_run(
            folder,
            requests=requests,
            steps=steps,
            trace=trace,
            telemetry=telemetry.text(),
            anchors=anchors,
            objective=objective(pace),
            about={
                "device": runner.device,
                "hardware": torch.cuda.get_device_name() if runner.device == "cuda" else "CPU",
                "torch": torch.__version__.partition("+")[0],
                "shape": asdict(runner.shape),
                "limits": asdict(limits),
                "block_tokens": BLOCK,
            },
            keep_operators=keep_operators,
        )
    span = max(r.ended_at_ns for r in requests) - min(r.arrived_at_ns for r in requests)
    again = sum(s.recomputed_tokens for s in steps)
    scheduled = sum(s.context_tokens + s.generation_tokens for s in steps)
    say(
        f"{folder.name}: {len(requests) / span * 1e9:.3f} requests/s finished, {len(steps)} steps, "
        f"{again} of {scheduled} tokens computed again, "
        f"{sum(r.preemptions for r in requests)} preemptions, {size:,} bytes"
    )
    return size


def serve(
    runner: Runner, requests: list[Request], limits: Limits
) -> tuple[list[Step], list[tuple[int, int]]]:
    """Run until every request is done; return the steps, and two readings of both clocks."""
    scheduler, steps = Scheduler(limits), []
    anchors = [(time.time_ns(), time.monotonic_ns())]
    started, pending = time.time_ns(), list(requests)
    while pending or scheduler.waiting or scheduler.running:
        now = time.time_ns()
        while pending and started + pending[0].arrives_ns <= now:
            request = pending.pop(0)
            request.arrived_at_ns = started + request.arrives_ns
            scheduler.waiting.append(request)
        if not scheduler.waiting and not scheduler.running:
            time.sleep(max(0, started + pending[0].arrives_ns - time.time_ns()) / 1e9)
            continue
        before = scheduler.preemptions
        pieces = scheduler.plan()
        steps.append(step(runner, scheduler, pieces, len(steps), scheduler.preemptions - before))
    anchors.append((time.time_ns(), time.monotonic_ns()))
    return steps, anchors


def step(
    runner: Runner, scheduler: Scheduler, pieces: list[Piece], number: int, preemptions: int
) -> Step:
    """Compute one step, in a range named as a serving engine names it."""
    context = [p for p in pieces if not p.had_output]
    generation = [p for p in pieces if p.had_output]
    counts = (
        len(context), sum(p.count for p in context),
        len(generation), sum(p.count for p in generation),
    )  # fmt: skip
    name = "execute_context_{}({})_generation_{}({})".format(*counts)
    running, waiting = len(scheduler.running), len(scheduler.waiting)
    started = time.time_ns()
    with record_function(name):
        made = list(compute(runner, pieces))
    tokens = list(zip((p for p, _ in made), _fetched(made), strict=True))
    ended = time.time_ns()
    for piece in pieces:
        request = piece.request
        request.computed = piece.start + piece.count
        request.ever_computed = max(request.ever_computed, request.computed)
        request.recomputed_tokens += piece.again
    held = scheduler.blocks_in_use
    for piece, token in tokens:
        request = piece.request
        request.tokens.append(token)
        request.first_token_at_ns = request.first_token_at_ns or ended
        if request.done:
            scheduler.finish(request, ended)
    return Step(
        number, started, ended, *counts, sum(p.again for p in pieces), running, waiting,
        held, preemptions, sum(p.count for p in pieces if p.is_decode),
    )  # fmt: skip


def compute(runner: Runner, pieces: list[Piece]) -> Iterator[tuple[Piece, torch.Tensor]]:
    """Launch a step's work; give each request that gets a token, and the token on the device."""
    decodes = [p for p in pieces if p.is_decode]
    for piece in pieces:
        if piece.is_decode:
            continue
        tokens = piece.request.all_tokens
        end = piece.start + piece.count
        made = runner.prefill(tokens[piece.start : end], slot_of(piece), piece.start)
        if end == len(tokens):
            yield piece, made
    if decodes:
        made = runner.decode(
            [p.request.all_tokens[-1] for p in decodes],
            [slot_of(p) for p in decodes],
            [p.start for p in decodes],
        )
        for number, piece in enumerate(decodes):
            yield piece, made[number : number + 1]


def slot_of(piece: Piece) -> int:
    """Return the slot of a request that is in a step."""
    slot = piece.request.slot
    if slot is None:
        raise RuntimeError(f"{piece.request.name} is in a step and has no slot")
    return slot


def _fetched(made: list[tuple[Piece, torch.Tensor]]) -> list[int]:
    """Return the tokens on the host; this waits for the device."""
    return torch.cat([t for _, t in made]).tolist() if made else []


if __name__ == "__main__":
    sys.exit(main())
