-- One row per run, device and union: how long at least one operation ran, inside the window.
-- Formula: the parts of the kept stretches inside the window; kernels alone, and with the copies and
-- memsets that ran while no kernel did. Where no stretches are kept, from the operations.
-- device and window_ns are those of the device's own row and of the run's window.
WITH windows AS MATERIALIZED (
  SELECT run_id, from_ns, to_ns FROM int_gpu_windows
  WHERE run_id IN (SELECT run_id FROM raw.gpu_op_totals)
), clipped AS (
  SELECT b.run_id, b.device_key, b.kind,
    least(b.end_at_ns, coalesce(w.to_ns, b.end_at_ns)) - greatest(b.start_at_ns, coalesce(w.from_ns, b.start_at_ns)) AS busy_ns
  FROM raw.gpu_busy AS b
  JOIN windows AS w ON w.run_id = b.run_id
), kinds AS (
  SELECT run_id, device_key, kind, CAST(sum(busy_ns) AS BIGINT) AS busy_ns
  FROM clipped WHERE busy_ns > 0
  GROUP BY run_id, device_key, kind
), unions AS (
  SELECT run_id, device_key, 'kernel_union' AS metric, busy_ns FROM kinds WHERE kind = 'kernel'
  UNION ALL
  SELECT run_id, device_key, 'gpu_op_union', CAST(sum(busy_ns) AS BIGINT) FROM kinds GROUP BY run_id, device_key
  UNION ALL
  SELECT run_id, device_key, metric, busy_ns FROM int_gpu_op_unions
)
SELECT u.run_id, u.device_key, d.device, u.metric, u.busy_ns, w.window_ns
FROM unions AS u
JOIN int_gpu_device_numbers AS d ON d.run_id = u.run_id AND d.device_key = u.device_key
JOIN int_gpu_windows AS w ON w.run_id = u.run_id
