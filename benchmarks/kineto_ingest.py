"""Ingest of a Kineto trace against HolisticTraceAnalysis: CPU, peak memory, growth of memory.

The product hashes the file, claims it, reads its events, divides the GPU time of its steps, unites
the busy time, and writes the store; the peer parses into a pandas table and writes nothing. With
`--peer-python`, the Python of an environment that holds HolisticTraceAnalysis==0.5.0 and
`pandas<3`, the peer is its best backend (ijson_batch_and_compress). Without it, `json.load` into
pandas (or, without pandas, into lists) stands in, and the report says so. Bars: at least 5 times
less CPU, at most a quarter of the peer's peak memory, under 256 MiB, and at most 1.15 times the
peak for a trace four times as long.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

from measure import (
    Cost,
    Report,
    arguments,
    cost,
    environment,
    in_turns,
    least_cpu,
    peak,
    python,
    trueput,
    work_folder,
)

EVENTS, QUICK_EVENTS = 1_500_000, 300_000
LESS_CPU, PEAK_SHARE, PEAK_MIB, GROWTH = 5.0, 0.25, 256.0, 1.15
LAUNCHES_PER_STEP = 300
_KERNELS = (
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>"
    "(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)",
    "triton_poi_fused_mul_silu_1",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    r"flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, false, \"x\\y\">",
)
_CALLS = ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC_v11060", "cudaMemcpyAsync")
_OPERATORS = ("aten::linear", "aten::addmm", "aten::empty", "aten::copy_", "aten::view")
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
  ],
  "cupti_version": 24,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1759276800000000000,
  "traceEvents": [
"""
_TAIL = """  {
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": 1.000
  }
  ],
  "traceName": "made.json"
}
"""


def _launch(number: int, at: float, gpu_at: float, rnd: random.Random) -> tuple[str, float]:
    """Return an operator, its launch, its kernel and the arrows between, and the kernel's end."""
    share = rnd.random()
    stream = 7 if share < 0.85 else 20
    length = 1.5 + share * 40
    start = max(gpu_at + 0.9, at + 6)
    grid = 1 + int(share * 4096)
    host = '"pid": 4242, "tid": 4242'
    text = (
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{_OPERATORS[number % 5]}", {host},\n'
        f'    "ts": {at:.3f}, "dur": {length / 3:.3f},\n    "args": {{\n'
        f'      "External id": {number},"Record function id": 0, "Concrete Inputs": ["", "", "1"],'
        f' "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"],'
        f' "Input Dims": [[{grid}, 4096], [4096, 4096], []],'
        f' "Ev Idx": {number}\n    }}\n  }},\n'
        f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "{_CALLS[number % 4]}", {host},\n'
        f'    "ts": {at + 0.4:.3f}, "dur": {length / 9:.3f},\n    "args": {{\n'
        f'      "External id": {number}, "cbid": 211, "correlation": {number}\n    }}\n  }},\n'
        f'  {{\n    "ph": "s", "id": {number}, {host}, "ts": {at + 0.4:.3f},\n'
        '    "cat": "ac2g", "name": "ac2g"\n  },\n'
        f'  {{\n    "ph": "X", "cat": "kernel", "name": "{_KERNELS[int(share * 5)]}", "pid": 0,'
        f' "tid": {stream},\n    "ts": {start:.3f}, "dur": {length:.3f},\n    "args": {{\n'
        f'      "External id": {number},\n      "queued": 0, "device": 0, "context": 1,\n'
        f'      "stream": {stream}, "correlation": {number},\n'
        f'      "registers per thread": {32 + (number & 127)},\n'
        f'      "shared memory": {(number & 7) * 16384},\n'
        f'      "blocks per SM": {grid / 132:.6f},\n'
        f'      "warps per SM": {grid / 33:.6f},\n      "grid": [{grid}, 1, 1],\n'
        '      "block": [128, 1, 1],\n'
        f'      "est. achieved occupancy %": {int(share * 100)}\n    }}\n  }},\n'
        f'  {{\n    "ph": "f", "id": {number}, "pid": 0, "tid": {stream}, "ts": {start:.3f},\n'
        '    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  },\n'
    )
    return text, start + length


def make(events: int, path: Path) -> None:
    """Write a pretty-printed trace of about that many events: steps of 300 launches."""
    rnd = random.Random(7)
    number, at, gpu_at = 1000, 5_000_000_000.0, 5_000_000_000.0
    with path.open("w", encoding="utf-8", buffering=1 << 22) as out:
        out.write(_HEAD)
        for step in range(max(1, events // (LAUNCHES_PER_STEP * 5 + 1))):
            started = at
            for _ in range(LAUNCHES_PER_STEP):
                number += 1
                text, gpu_at = _launch(number, at, gpu_at, rnd)
                at += 3.1 + rnd.random() * 4
                out.write(text)
            name = f"execute_context_0(0)_generation_{step % 32}({step % 32})"
            out.write(
                f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 4242,'
                f' "tid": 4242,\n    "ts": {started:.3f}, "dur": {at - started:.3f},\n'
                '    "args": {\n'
                f'      "External id": {number}, "Ev Idx": {number}\n    }}\n  }},\n'
            )
            at = max(at, gpu_at)
        out.write(_TAIL)


def ingest(trace: Path, folder: Path) -> Cost:
    """Ingest into a fresh store."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    return cost(trueput("ingest", trace, "--store", store), environment(NO_COLOR="1"))


def stored(store: Path) -> tuple[int, int]:
    """Return the operations and the problems that the manifest counts."""
    manifest = json.loads(next((store / "_runs").glob("*.json")).read_text("utf-8"))
    return int(manifest["rows"]["gpu_ops"]), int(manifest["rows"].get("problems", 0))


def peer_hta(trace: Path) -> None:
    """Parse with the best backend of HolisticTraceAnalysis; print the rows."""
    from hta.common.trace_parser import (  # type: ignore[import-not-found]
        ParserBackend,
        parse_trace_dataframe,
    )
    from hta.configs.parser_config import ParserConfig  # type: ignore[import-not-found]

    config = ParserConfig(ParserConfig.get_minimum_args())
    config.parser_backend = ParserBackend("ijson_batch_and_compress")
    _, frame, _ = parse_trace_dataframe(str(trace), config)
    print(len(frame))


def peer_json(trace: Path) -> None:
    """Parse the whole file at once, into pandas where it is installed; print the rows."""
    with trace.open(encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    try:
        import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        columns = {key: [e.get(key) for e in events] for key in ("ph", "name", "cat", "ts", "dur")}
        print(len(columns["ph"]))
    else:
        print(len(pd.DataFrame(events)))


def _made(events: int, folder: Path) -> Path:
    path = folder / f"kineto-{events}.json"
    if not path.exists():
        scratch = path.with_suffix(".part")
        cost(python(__file__, "--child", "make", str(events), scratch))
        scratch.replace(path)
    return path


def main() -> int:
    """Run the benchmark, or one job of it in a child of its own."""
    parser = arguments(__doc__)
    parser.add_argument("--peer-python", help="Python with HolisticTraceAnalysis")
    parser.add_argument("--child", nargs=3, metavar=("JOB", "IN", "OUT"), help="used by itself")
    options = parser.parse_args()
    if options.child:
        job, first, second = options.child
        jobs = {
            "make": lambda: make(int(first), Path(second)),
            "hta": lambda: peer_hta(Path(first)),
            "json": lambda: peer_json(Path(first)),
        }
        jobs[job]()
        return 0
    temporary = work_folder(options.work)
    folder = Path(temporary.name) if temporary else options.work
    try:
        rounds = 1 if options.quick else options.rounds
        return _report(folder, rounds, quick=options.quick, peer_python=options.peer_python)
    finally:
        if temporary:
            temporary.cleanup()


def _report(folder: Path, rounds: int, *, quick: bool, peer_python: str | None) -> int:
    events = QUICK_EVENTS if quick else EVENTS
    trace = _made(events, folder)
    report = Report(f"Kineto ingest, {events:,} events, {trace.stat().st_size / 1e6:.0f} MB")

    def peer() -> Cost:
        if peer_python:
            return cost([peer_python, __file__, "--child", "hta", str(trace), "-"], environment())
        return cost(python(__file__, "--child", "json", trace, "-"))

    found = in_turns({"trueput": lambda: ingest(trace, folder), "peer": peer}, rounds)
    mine, theirs = found["trueput"], found["peer"]
    words = "HolisticTraceAnalysis, best backend" if peer_python else "json.load (no --peer-python)"
    report.measured("trueput ingest", mine)
    report.measured(f"peer: {words}"[:34], theirs)
    if not peer_python:
        report.note("the peer of the bar is HolisticTraceAnalysis: give --peer-python")
    kernels = events // (LAUNCHES_PER_STEP * 5 + 1) * LAUNCHES_PER_STEP
    told = stored(folder / "store")
    report.holds(f"all {kernels:,} operations, no problem", told == (kernels, 0))
    report.bar("CPU, peer / trueput", least_cpu(theirs) / least_cpu(mine), LESS_CPU, at_least=True)
    report.bar("peak, trueput / peer", peak(mine) / peak(theirs), PEAK_SHARE)
    long = ingest(_made(4 * events, folder), folder)
    report.measured(f"trueput ingest, {4 * events:,} events", [long])
    report.bar("peak MiB over all sizes", peak([*mine, long]), PEAK_MIB)
    report.bar("peak, four times the events / once", long.peak_mib / peak(mine), GROWTH)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
