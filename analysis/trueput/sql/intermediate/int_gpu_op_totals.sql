-- One row per run, file and device that it saw operations of: how many, from when to when.
-- Kept at ingest (gpu_op_totals); counted from the operations of runs that an older version read.
-- Computed once. Few rows, that several views read.
SELECT run_id, source_id, device_key, process_key, device, operations, graph_spans, first_at_ns, last_at_ns
FROM raw.gpu_op_totals
UNION ALL
SELECT o.run_id, o.source_id, o.device_key, min(o.process_key), min(o.device), count(*),
  count(*) FILTER (o.kind = 'graph_span'), min(o.start_at_ns), max(o.end_at_ns)
FROM raw.gpu_ops AS o
JOIN int_gpu_ops_runs AS r ON r.run_id = o.run_id
WHERE is_counted(o.quality)
GROUP BY o.run_id, o.source_id, o.device_key
