"""An Nsight Systems export, whatever holds its tables, as rows of the GPU tables.

`read_export` works on `Tables`: the SQLite source and the parquetdir source each give one. What it
decides, table by table, stands in the modules:

| module | of the export | becomes |
|---|---|---|
| operations | KERNEL, MEMCPY, MEMSET, GRAPH_TRACE | gpu_ops |
| launches | RUNTIME | gpu_launches |
| ranges | NVTX_EVENTS | gpu_ranges |
| devices | TARGET_INFO_GPU, TARGET_INFO_CUDA_DEVICE | gpu_devices, device keys |
| samples | GPU_METRICS | gpu_samples |
| capture | META_DATA_*, ANALYSIS_DETAILS, *_OVERHEAD, DIAGNOSTIC_EVENT | gpu_captures, clock |

Only the tables and columns named there are read: no environment, no command line, no captured
output, no host or user name. Strings are looked up by the ids of kernels, calls and ranges only.
"""

from __future__ import annotations

from trueput.nsys_rows.codes import CODES
from trueput.nsys_rows.export import TABLES, read_export
from trueput.nsys_rows.tables import Tables

__all__ = ["CODES", "TABLES", "Tables", "read_export"]
