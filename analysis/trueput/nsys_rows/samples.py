"""GPU_METRICS -> gpu_samples: the counters that `--gpu-metrics-devices` samples.

Metric ids are not stable between versions: a metric is told by its name, `SMs Active
[Throughput %]`. Shares of a peak become ratios of 0..1, and the rungs of the activity ladder get
the names that trueput uses. The low byte of the type id is the index of the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from trueput.nsys_rows.devices import records
from trueput.nsys_rows.tables import Query, Tables, coded, filtered, numbers_of, paired
from trueput.scan import Damage
from trueput.source_api import Batch, Item
from trueput.tally import Tally
from trueput.telemetry import RANGES

TABLE: Final = "GPU_METRICS"
_UNIT = re.compile(r"^(.*?)\s*\[([^\]]*)\]\s*$")
_RUNGS: Final = {
    "gr active": "engine_active",
    "sm active": "sm_active",
    "sms active": "sm_active",
    "tensor active": "tensor_active",
    "tensor active / fp16 active": "tensor_active",
    "dram active": "dram_active",
}


def metric_of(name: str) -> tuple[str, str, str]:
    """Return metric, unit and kind for the name that the export gives."""
    found = _UNIT.match(name)
    plain, unit = (found[1], found[2]) if found else (name, "")
    metric = _RUNGS.get(plain.lower()) or re.sub(r"\W+", "_", plain.lower()).strip("_")
    if unit.endswith("%"):
        return metric or "unnamed", "ratio", "ratio"
    return metric or "unnamed", unit or "1", "instant"


def read_samples(tables: Tables, tally: Tally) -> Iterator[Item]:
    """Yield the rows of gpu_samples; metrics without a name are left out."""
    if not tables.columns(TABLE):
        return
    asked = Query("TARGET_INFO_GPU_METRICS", ("typeId", "metricId"), ("metricName",))
    names = {
        (row["typeId"], row["metricId"]): metric_of(row["metricName"])
        for row in records(tables, asked)
        if row["metricName"]
    }
    query = Query(TABLE, ("timestamp", "typeId", "metricId", "value"))
    for batch in tables.batches(query):
        if isinstance(batch, Damage):
            tally.add("NSYS002", text=f"{TABLE}: {batch.text}")
            return
        pairs = paired(coded(batch.column("typeId")), coded(batch.column("metricId")))
        keep = pairs.flags([p in names for p in pairs.values])
        rows = filtered(batch, keep)
        if not len(rows):
            continue
        pairs = paired(coded(rows.column("typeId")), coded(rows.column("metricId")))
        told = [names[p] for p in pairs.values]
        ratio = pairs.flags([t[1] == "ratio" for t in told])
        value = numbers_of(rows, "value") / np.where(ratio, 100.0, 1.0)
        unseen = rows.column("value").is_null().to_numpy(zero_copy_only=False)
        low, high = RANGES["ratio"]
        wrong = ratio & ~unseen & ~((value >= low) & (value <= high))
        if wrong.any():
            at = int(np.argmax(wrong))
            text = f"{told[pairs.codes[at]][0]} {value[at]:g}"
            tally.add("NSYS023", text=text, count=int(wrong.sum()))
            unseen = unseen | wrong
        yield Batch(
            "gpu_samples",
            pa.RecordBatch.from_pydict(
                {
                    "device": pairs.numbers([p[0] & 0xFF for p in pairs.values]),
                    "at_ns": rows.column("timestamp"),
                    "metric": pairs.text([t[0] for t in told]),
                    "value": pa.array(value, mask=unseen),
                    "unit": pairs.text([t[1] for t in told]),
                    "kind": pairs.text([t[2] for t in told]),
                }
            ),
        )
