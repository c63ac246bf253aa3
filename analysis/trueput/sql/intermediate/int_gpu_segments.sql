-- One row per run, device, class of time and step: how long the device was in it, inside the window.
-- The device's time is cut at every start and end of an operation; a piece is compute where a
-- compute kernel runs, else communication, else copy (so both are exposed only), else unnamed, a kernel
-- whose class is not known, else graph_span, which is whatever is no kernel, copy or memset.
-- A piece belongs to the step of the operation of its class that started last; -1 where none is known.
-- Computed once. The ledger reads it several times, and there are two cuts for each operation.
WITH edges AS (
  SELECT run_id, device_key, at_ns,
    sum(compute) AS compute, sum(communication) AS communication, sum(copy) AS copy, sum(unnamed) AS unnamed, sum(span) AS span,
    max(compute_step) AS compute_step, max(communication_step) AS communication_step, max(copy_step) AS copy_step,
    max(unnamed_step) AS unnamed_step, max(span_step) AS span_step
  FROM (
    SELECT o.run_id, o.device_key, e.at_ns,
      CASE WHEN o.kind = 'kernel' AND o.class = 'compute' THEN e.change ELSE 0 END AS compute,
      CASE WHEN o.kind = 'kernel' AND o.class = 'communication' THEN e.change ELSE 0 END AS communication,
      CASE WHEN o.kind IN ('memcpy', 'memset') THEN e.change ELSE 0 END AS copy,
      CASE WHEN o.kind = 'kernel' AND o.class IS NULL THEN e.change ELSE 0 END AS unnamed,
      CASE WHEN o.kind IN ('kernel', 'memcpy', 'memset') THEN 0 ELSE e.change END AS span,
      CASE WHEN e.change = 1 AND o.kind = 'kernel' AND o.class = 'compute' THEN o.gpu_step_ix END AS compute_step,
      CASE WHEN e.change = 1 AND o.kind = 'kernel' AND o.class = 'communication' THEN o.gpu_step_ix END AS communication_step,
      CASE WHEN e.change = 1 AND o.kind IN ('memcpy', 'memset') THEN o.gpu_step_ix END AS copy_step,
      CASE WHEN e.change = 1 AND o.kind = 'kernel' AND o.class IS NULL THEN o.gpu_step_ix END AS unnamed_step,
      CASE WHEN e.change = 1 AND o.kind NOT IN ('kernel', 'memcpy', 'memset') THEN o.gpu_step_ix END AS span_step
    FROM int_gpu_op_steps AS o
    JOIN int_gpu_windows AS w ON w.run_id = o.run_id,
    LATERAL (
      SELECT greatest(o.start_at_ns, coalesce(w.from_ns, o.start_at_ns)) AS at_ns, 1 AS change
      UNION ALL
      SELECT least(o.end_at_ns, coalesce(w.to_ns, o.end_at_ns)), -1
    ) AS e
    WHERE o.end_at_ns > o.start_at_ns
      AND (w.from_ns IS NULL OR (o.end_at_ns > w.from_ns AND o.start_at_ns < w.to_ns))
  )
  GROUP BY run_id, device_key, at_ns
), pieces AS (
  SELECT run_id, device_key,
    lead(at_ns) OVER by_time - at_ns AS length_ns,
    sum(compute) OVER by_time AS compute,
    sum(communication) OVER by_time AS communication,
    sum(copy) OVER by_time AS copy,
    sum(unnamed) OVER by_time AS unnamed,
    sum(span) OVER by_time AS span,
    last_value(compute_step IGNORE NULLS) OVER by_time AS compute_step,
    last_value(communication_step IGNORE NULLS) OVER by_time AS communication_step,
    last_value(copy_step IGNORE NULLS) OVER by_time AS copy_step,
    last_value(unnamed_step IGNORE NULLS) OVER by_time AS unnamed_step,
    last_value(span_step IGNORE NULLS) OVER by_time AS span_step
  FROM edges
  WINDOW by_time AS (PARTITION BY run_id, device_key ORDER BY at_ns)
), classed AS (
  SELECT run_id, device_key, length_ns,
    CASE WHEN compute > 0 THEN 'compute' WHEN communication > 0 THEN 'communication'
      WHEN copy > 0 THEN 'copy' WHEN unnamed > 0 THEN 'unnamed' WHEN span > 0 THEN 'graph_span' END AS class,
    coalesce(CASE WHEN compute > 0 THEN compute_step WHEN communication > 0 THEN communication_step
      WHEN copy > 0 THEN copy_step WHEN unnamed > 0 THEN unnamed_step WHEN span > 0 THEN span_step END, -1) AS gpu_step_ix
  FROM pieces WHERE length_ns > 0
)
SELECT run_id, device_key, class, gpu_step_ix, CAST(sum(length_ns) AS BIGINT) AS time_ns
FROM classed
WHERE class IS NOT NULL
GROUP BY run_id, device_key, class, gpu_step_ix
