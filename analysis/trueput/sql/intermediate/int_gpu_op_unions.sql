-- One row per run, device and union: how long at least one operation ran, inside the window; 0 where
-- all of them lie outside.
-- Of runs of which ingest kept no stretches: from the operations themselves.
-- Formula: by start, each operation adds what reaches beyond all before it. Never a sum over streams.
-- Does not count: whole-graph spans, host-side waits, operations of no duration.
WITH devices AS MATERIALIZED (
  SELECT d.run_id, d.device_key, d.device_ix
  FROM int_gpu_device_numbers AS d
  JOIN int_gpu_ops_runs AS r ON r.run_id = d.run_id
), windows AS MATERIALIZED (
  SELECT run_id, from_ns, to_ns FROM int_gpu_windows
), clipped AS (
  SELECT d.device_ix, o.kind,
    greatest(o.start_at_ns, coalesce(w.from_ns, o.start_at_ns)) AS start_ns,
    least(o.end_at_ns, coalesce(w.to_ns, o.end_at_ns)) AS end_ns
  FROM raw.gpu_ops AS o
  JOIN devices AS d ON d.run_id = o.run_id AND d.device_key = o.device_key
  JOIN windows AS w ON w.run_id = o.run_id
  WHERE o.kind <> 'graph_span' AND o.end_at_ns > o.start_at_ns AND is_counted(o.quality)
), kernels AS (
  SELECT device_ix, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY device_ix ORDER BY start_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
  FROM clipped WHERE kind = 'kernel'
), operations AS (
  SELECT device_ix, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY device_ix ORDER BY start_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
  FROM clipped
), unions AS (
  SELECT device_ix, 'kernel_union' AS metric,
    CAST(sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) AS BIGINT) AS busy_ns
  FROM kernels GROUP BY device_ix
  UNION ALL
  SELECT device_ix, 'gpu_op_union',
    CAST(sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) AS BIGINT)
  FROM operations GROUP BY device_ix
)
SELECT d.run_id, d.device_key, u.metric, u.busy_ns
FROM unions AS u
JOIN devices AS d ON d.device_ix = u.device_ix
