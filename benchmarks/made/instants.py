"""What an ingest adds for instants: the grouped events of a store's requests, by its own code.

usage: instants.py STORE FOLDER

Writes request_instants of every run into FOLDER and prints the CPU seconds that it took; the start
of the process is beside that.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from trueput.attribution.requests.instants import request_instants
from trueput.ingest.derived import write_derived


def main() -> None:
    """Make the tables and say what it cost."""
    began = time.process_time()
    for run in sorted((Path(sys.argv[1]) / "request_events").iterdir()):
        rows = request_instants(run.name, sorted(run.glob("*.parquet")))
        write_derived("request_instants", rows, run.name, Path(sys.argv[2]) / f"{run.name}.parquet")
    print(time.process_time() - began)


if __name__ == "__main__":
    main()
