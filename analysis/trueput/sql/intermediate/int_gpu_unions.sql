-- One row per run, device and union: how long at least one operation ran, inside the window.
-- Formula: the parts of the kept stretches inside the window; kernels alone, and with the copies and
-- memsets that ran while no kernel did. Where no stretches are kept, from the operations.
-- is_bound: captures of the device hide operations (int_gpu_hidden), so that it was busy for at least as
-- long; their files show nothing of more than a hundredth of the window at its begin and end, and of more than
-- the ends of the window leave open and the way of a request there and back, 50 ms; they lack its copies, which
-- the union of kernels alone does not need; or their clock is not that of the run, and nothing is known.
-- 0 only where such operations were captured at other times, none can be hidden, and operations of the
-- device lie on both sides of the window; else a union of nothing has no row.
-- device and window_ns are those of the device's own row and of the run's window.
WITH windows AS MATERIALIZED (
  -- an end that is not known cuts nothing
  SELECT run_id, coalesce(from_ns, -9223372036854775807) AS from_ns, coalesce(to_ns, 9223372036854775807) AS to_ns
  FROM int_gpu_windows
  WHERE run_id IN (SELECT run_id FROM raw.gpu_op_totals)
), kinds AS (
  SELECT b.run_id, b.device_key, b.kind,
    CAST(sum(CASE WHEN b.end_at_ns > w.from_ns AND b.start_at_ns < w.to_ns THEN
      CASE WHEN b.end_at_ns > w.to_ns THEN w.to_ns ELSE b.end_at_ns END
      - CASE WHEN b.start_at_ns < w.from_ns THEN w.from_ns ELSE b.start_at_ns END
    ELSE 0 END) AS BIGINT) AS busy_ns
  FROM raw.gpu_busy AS b
  JOIN windows AS w ON w.run_id = b.run_id AND w.from_ns < w.to_ns
  GROUP BY b.run_id, b.device_key, b.kind
), unions AS (
  SELECT run_id, device_key, 'kernel_union' AS metric, busy_ns FROM kinds WHERE kind = 'kernel'
  UNION ALL
  SELECT run_id, device_key, 'gpu_op_union', CAST(sum(busy_ns) AS BIGINT) FROM kinds GROUP BY run_id, device_key
  UNION ALL
  SELECT run_id, device_key, metric, busy_ns FROM int_gpu_op_unions
), watched AS (
  SELECT t.run_id, t.device_key,
    not_negative(min(f.first_ns) - any_value(w.from_ns)) + not_negative(any_value(w.to_ns) - max(f.last_ns)) AS unwatched_ns
  FROM int_gpu_op_totals AS t
  JOIN (
    SELECT run_id, source_id, min(first_at_ns) AS first_ns, max(last_at_ns) AS last_ns FROM int_gpu_op_totals GROUP BY run_id, source_id
  ) AS f ON f.run_id = t.run_id AND f.source_id = t.source_id
  JOIN int_gpu_windows AS w ON w.run_id = t.run_id
  GROUP BY t.run_id, t.device_key
)
SELECT u.run_id, u.device_key, d.device, u.metric, u.busy_ns, w.window_ns, h.is_astray,
  h.is_blind OR h.is_partial OR h.is_astray OR h.unseen_ns > 0 OR (h.lacks_copies AND u.metric = 'gpu_op_union')
    OR coalesce(r.unwatched_ns > 50000000 + coalesce(k.slack_ns, 0) AND r.unwatched_ns * 100 > w.window_ns, false) AS is_bound
FROM unions AS u
JOIN int_gpu_device_numbers AS d ON d.run_id = u.run_id AND d.device_key = u.device_key
JOIN int_gpu_hidden AS h ON h.run_id = u.run_id AND h.device_key = u.device_key
JOIN int_gpu_windows AS w ON w.run_id = u.run_id
LEFT JOIN int_run_windows AS k ON k.run_id = u.run_id
LEFT JOIN watched AS r ON r.run_id = u.run_id AND r.device_key = u.device_key
WHERE u.busy_ns > 0
  OR (w.from_ns < w.to_ns AND h.first_op_ns <= w.from_ns AND h.last_op_ns >= w.to_ns AND NOT h.is_blind AND NOT h.is_partial AND NOT h.is_astray
    AND NOT (h.lacks_copies AND u.metric = 'gpu_op_union'))
