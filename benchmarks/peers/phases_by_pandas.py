"""The peer of attribution: a plain pandas program on the same Parquet files.

usage: phases_by_pandas.py STORE OUT

It does what is usually done: sort the events, take differences within each request, pivot, join.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

AT = [0.5, 0.9, 0.99]


def read(store: Path, table: str, columns: list[str]) -> pd.DataFrame:
    """Return chosen columns of all parts of a table."""
    parts = sorted((store / table).glob("*/*.parquet"))
    return pd.concat([pd.read_parquet(p, columns=columns) for p in parts], ignore_index=True)


def main() -> None:
    """Answer both questions and write the answers."""
    store = Path(sys.argv[1])
    events = read(store, "request_events", ["run_id", "request_id", "event", "at_ns"])
    clients = read(store, "requests", ["run_id", "request_id", "ttft_ns", "e2e_ns",
                                       "output_tokens"])  # fmt: skip
    for frame in (events, clients):
        frame["run_id"] = frame["run_id"].astype("category")
    events["event"] = events["event"].astype("category")
    key = ["run_id", "request_id"]
    events["at_ns"] -= events["at_ns"].min()  # a difference within groups goes through floats
    events = events.sort_values([*key, "at_ns"])
    events["time_ns"] = events.groupby(key, observed=True)["at_ns"].diff()
    steps = events[events["event"] != "queued"]
    parts = steps.pivot(index=key, columns="event", values="time_ns").rename(
        columns={"scheduled": "queue", "first_token": "prefill", "finished": "decode"}
    )
    del events, steps
    both = clients.merge(parts, left_on=["run_id", "request_id"], right_index=True, how="left")
    both["outside"] = both["e2e_ns"] - both["queue"] - both["prefill"] - both["decode"]
    both["tpot_ns"] = (both["e2e_ns"] - both["ttft_ns"]) // (both["output_tokens"] - 1)
    runs = both.groupby("run_id", observed=True)
    sums = runs[["decode", "outside", "prefill", "queue"]].sum()
    phases = [[run, phase, int(sums.at[run, phase])] for run in sums.index for phase in sums]
    counts = runs.size()
    at = {n: runs[n].quantile(AT).unstack() for n in ("ttft_ns", "tpot_ns", "e2e_ns")}
    latencies = [
        [run, int(counts[run]), *([float(v) for v in at[n].loc[run]] for n in at)]
        for run in counts.index
    ]
    answer = {"phases": phases, "latencies": latencies}
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
