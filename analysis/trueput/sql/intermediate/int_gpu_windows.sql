-- One row per profiled run: the window in which its GPU operations are counted.
-- The run's own window where the profile's clock reaches it; else the span of the capture itself,
-- first operation to last end, and the ledger stays with the engine's steps.
-- Computed once. One row per run, from a long chain of views that several others read.
WITH captured AS (
  SELECT o.run_id, min(o.first_ns) AS first_ns, max(o.last_ns) AS last_ns,
    bool_and(s.clock_kind = 'utc' OR s.clock_offset_ns IS NOT NULL) AS has_clock
  FROM (
    SELECT run_id, source_id, min(first_at_ns) AS first_ns, max(last_at_ns) AS last_ns
    FROM int_gpu_op_totals GROUP BY run_id, source_id
  ) AS o
  JOIN raw.sources AS s ON s.run_id = o.run_id AND s.source_id = o.source_id
  GROUP BY o.run_id
), requests AS (
  SELECT DISTINCT run_id FROM int_ruled WHERE is_load AND sent_at_ns IS NOT NULL
)
SELECT
  c.run_id,
  (c.has_clock AND w.from_ns IS NOT NULL) OR r.run_id IS NULL AS is_placed,
  CASE WHEN c.has_clock AND r.run_id IS NOT NULL AND w.from_ns IS NOT NULL THEN w.from_ns ELSE c.first_ns END AS from_ns,
  CASE WHEN c.has_clock AND r.run_id IS NOT NULL AND w.from_ns IS NOT NULL THEN w.to_ns ELSE c.last_ns END AS to_ns,
  CASE WHEN c.has_clock AND r.run_id IS NOT NULL AND w.from_ns IS NOT NULL THEN w.window_ns
    ELSE c.last_ns - c.first_ns END AS window_ns
FROM captured AS c
LEFT JOIN int_run_windows AS w ON w.run_id = c.run_id
LEFT JOIN requests AS r ON r.run_id = c.run_id
