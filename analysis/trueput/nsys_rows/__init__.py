"""An Nsight Systems export, whatever holds its tables, as rows of the GPU tables.

`export.read_export` works on `Tables`; the SQLite source and the parquetdir source give one each.
What is decided, table by table, stands in the modules:

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
