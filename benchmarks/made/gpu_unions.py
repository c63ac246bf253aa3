"""What an ingest adds for unions: the busy stretches of a store's GPU operations, by its own code.

usage: gpu_unions.py STORE FOLDER

Writes gpu_busy and gpu_op_totals into FOLDER and prints the CPU seconds that it took from the first
look at the operations to the closed files; the start of the process is beside that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trueput.attribution.gpu.time.union import GpuUnion
from trueput.ingest.derived import write_derived

TABLES = ("gpu_busy", "gpu_op_totals")


def put_unions(run_id: str, operations: Sequence[Path], into: Mapping[str, Path]) -> dict[str, int]:
    """Write what ingest makes of parts of gpu_ops to these paths; return the rows by table."""
    union = GpuUnion(run_id, operations)
    made = {"gpu_busy": union.stretches, "gpu_op_totals": union.totals}
    return {table: write_derived(table, made[table], run_id, into[table]) for table in TABLES}


def main() -> None:
    """Make the tables and say what it cost."""
    operations = sorted((Path(sys.argv[1]) / "gpu_ops").glob("*/*.parquet"))
    folder = Path(sys.argv[2])
    began = time.process_time()
    put_unions("profile", operations, {t: folder / f"{t}.parquet" for t in TABLES})
    print(time.process_time() - began)


if __name__ == "__main__":
    main()
