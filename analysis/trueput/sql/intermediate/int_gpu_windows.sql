-- One row per profiled run: the window in which its GPU operations are counted.
-- The run's own window where the profile's clock reaches it. Without requests: the span of the capture,
-- first operation to last end, or the part of it that was asked for (rule `fixed`, offsets from the
-- first operation). Where the two clocks are not known to agree: the span of the capture, and the
-- ledger stays with the engine's steps (is_placed false).
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
), asked AS (
  SELECT c.run_id, c.first_ns, c.last_ns, w.from_ns, w.to_ns, w.window_ns,
    r.run_id IS NOT NULL AS has_requests,
    coalesce(w.asked_rule = 'fixed', false) AS is_fixed,
    -- a window that counts from the profile's own first operation needs no common clock
    coalesce(w.from_ns IS NOT NULL AND (c.has_clock OR (r.run_id IS NULL AND w.origin_ns = c.first_ns)), false) AS is_reached
  FROM captured AS c
  LEFT JOIN int_run_windows AS w ON w.run_id = c.run_id
  LEFT JOIN requests AS r ON r.run_id = c.run_id
), judged AS (
  SELECT *, is_reached AND (has_requests OR is_fixed) AS is_cut FROM asked
)
SELECT
  run_id,
  is_cut OR NOT (has_requests OR is_fixed) AS is_placed,
  CASE WHEN is_cut THEN from_ns ELSE first_ns END AS from_ns,
  CASE WHEN is_cut THEN to_ns ELSE last_ns END AS to_ns,
  CASE WHEN is_cut THEN window_ns ELSE last_ns - first_ns END AS window_ns
FROM judged
