"""Thin a file of /metrics scrapes: keep the first, the last and every n-th between.

    python sample_data/thin.py metrics.prom.gz OUT.gz 10

The sample runs were thinned with n = 10; nothing else of them was changed but compression.
"""

from __future__ import annotations

import gzip
import sys


def thin(source: str, target: str, every: int) -> None:
    """Write the kept scrapes, byte for byte, to a gzip file."""
    with gzip.open(source, "rt", encoding="utf-8", newline="") as stream:
        text = stream.read()
    scrapes = ["# SCRAPE" + part for part in text.split("# SCRAPE")[1:]]
    real = [s for s in scrapes if not s.startswith("# SCRAPE_ERROR")]
    kept = [s for i, s in enumerate(real) if i % every == 0 or i == len(real) - 1]
    with gzip.GzipFile(target, "wb", mtime=0) as stream_out:
        stream_out.write("".join(kept).encode("utf-8"))


if __name__ == "__main__":
    thin(sys.argv[1], sys.argv[2], int(sys.argv[3]))
