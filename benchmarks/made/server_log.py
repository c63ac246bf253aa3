"""Write a vLLM server log of N lines: requests, iterations, statistics, and lines of no interest.

usage: server_log.py N OUT [SEED]

A second of the log has 20 requests of four lines each (received, added, access line, finished or
aborted), 30 iterations, two lines of statistics and 18 lines that nobody parses, some of them
without a prefix. About six lines in seven are of a known kind.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

REQUESTS, ITERATIONS, OTHERS = 20, 30, 18
LINES_PER_SECOND = REQUESTS * 4 + ITERATIONS + 2 + OTHERS
OTHER_LINES = (
    "(APIServer pid=811) WARNING {stamp} [serving_chat.py:214] The reasoning parser is not set; "
    "reasoning text, if there is any, stays inside the ordinary content of the answer.",
    "(EngineCore pid=902) DEBUG {stamp} [core.py:1120] No work in the queue; the loop waits for "
    "the input socket and will be woken by the next message from a front end.",
    "(APIServer pid=811) INFO {stamp} [block_pool.py:371] Prefix cache reset after weight update",
    "[rank0]:[W1129 some.cpp:93] Warning: a message of a library without vLLM's prefix",
    "    hidden_states = self.layers[index](positions, hidden_states, residual)",
    '  File "/opt/serve/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 377',
)
PARAMS = (
    "n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, temperature=0.6, "
    "top_p=0.95, top_k=0, min_p=0.0, seed=None, stop=[], stop_token_ids=[], ignore_eos=False"
)
DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def stamp(second: int) -> str:
    """Return `MM-DD HH:MM:SS`, counting from 2 January."""
    day = 1 + second // 86_400
    month = max(m for m, before in enumerate(DAYS_BEFORE) if before <= day)
    clock = second % 86_400
    return (
        f"{month + 1:02}-{day - DAYS_BEFORE[month] + 1:02} "
        f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    )


def one_second(second: int, rnd: random.Random) -> list[str]:
    """Return the lines of one second."""
    at = stamp(second)
    server, engine = "(APIServer pid=811) ", "(EngineCore pid=902) "
    lines = []
    for k in range(REQUESTS):
        name = f"chatcmpl-{rnd.getrandbits(128):032x}"
        tokens = 16 + (second * 31 + k * 7) % 2000
        verb = "Aborted" if k == 13 else "Finished"
        lines += [
            f"{server}INFO {at} [logger.py:65] Received request {name}: params: "
            f"SamplingParams({PARAMS}, max_tokens={tokens}, min_tokens=0), lora_request: None.",
            f"{server}INFO {at} [async_llm.py:402] Added request {name}.",
            f'{server}INFO:     10.0.{k}.7:{40_000 + second % 20_000} - "POST '
            '/v1/chat/completions HTTP/1.1" 200 OK',
            f"{server}INFO {at} [async_llm.py:588] {verb} request {name}.",
        ]
    for k in range(ITERATIONS):
        step = second * ITERATIONS + k
        lines.append(
            f"{engine}INFO {at} [core.py:338] Iteration({step}): {step % 4} context requests, "
            f"{(step % 4) * (97 + k)} context tokens, {20 + k} generation requests, {20 + k} "
            f"generation tokens, iteration elapsed time: {4 + step % 971 / 50:.2f} ms"
        )
    lines += [
        f"{server}INFO {at} [loggers.py:259] Engine 000: Avg prompt throughput: "
        f"{second * 9.1 % 8000:.1f} tokens/s, Avg generation throughput: {second * 4.7 % 3000:.1f} "
        f"tokens/s, Running: {second % 200} reqs, Waiting: {second % 30} reqs, GPU KV cache usage: "
        f"{second % 990 / 10:.1f}%, Prefix cache hit rate: {second % 870 / 10:.1f}%",
        f"{server}INFO {at} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
        f"{1 + second % 25 / 10:.2f}, Accepted throughput: {second % 410:.2f} tokens/s, Drafted "
        f"throughput: {second % 640:.2f} tokens/s, Accepted: {second % 4100} tokens, Drafted: "
        f"{second % 6400} tokens, Per-position acceptance rate: 0.790, 0.510, 0.290, Avg Draft "
        f"acceptance rate: {second % 980 / 10:.1f}%",
    ]
    lines += [OTHER_LINES[(second + k) % 6].replace("{stamp}", at) for k in range(OTHERS)]
    return lines


def write(count: int, path: Path, seed: int = 1) -> None:
    """Write `count` lines, whole seconds while they last."""
    rnd = random.Random(seed)
    second = written = 0
    with path.open("w", encoding="utf-8", buffering=1 << 22) as stream:
        stream.write("INFO 01-01 00:00:00 [api_server.py:1351] vLLM API server version 0.32.0\n")
        written = 1
        while written < count:
            lines = one_second(second, rnd)[: count - written]
            stream.write("\n".join(lines) + "\n")
            written += len(lines)
            second += 1


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
