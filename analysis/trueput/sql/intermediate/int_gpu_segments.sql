-- One row per run, device, class of time and step: how long the device was in it, inside the window.
-- The device's time is cut at every start and end of an operation; a piece is compute where a
-- compute kernel runs, else communication, else copy (so both are exposed only), else unnamed, a kernel
-- whose class is not known, else graph_span, which is whatever is no kernel, copy or memset.
-- Where operations of a class overlap, the time is that of the one that started first: each has what is left
-- after all that started before it. A piece belongs to the step of the operation whose time it is; -1 where none is known.
-- Computed once. The ledger reads it several times, and there are two cuts for each operation.
WITH ops AS (
  SELECT o.run_id, o.device_key, o.gpu_step_ix,
    greatest(o.start_at_ns, coalesce(w.from_ns, o.start_at_ns)) AS from_ns,
    least(o.end_at_ns, coalesce(w.to_ns, o.end_at_ns)) AS to_ns,
    CASE WHEN o.kind = 'kernel' THEN coalesce(o.class, 'unnamed') WHEN o.kind IN ('memcpy', 'memset') THEN 'copy'
      ELSE 'graph_span' END AS class
  FROM int_gpu_op_steps AS o
  JOIN int_gpu_windows AS w ON w.run_id = o.run_id
  WHERE o.end_at_ns > o.start_at_ns
    AND (w.from_ns IS NULL OR (o.end_at_ns > w.from_ns AND o.start_at_ns < w.to_ns))
), alone AS (
  SELECT run_id, device_key, class, gpu_step_ix, to_ns,
    greatest(from_ns, max(to_ns) OVER (
      PARTITION BY run_id, device_key, class ORDER BY from_ns, to_ns, gpu_step_ix
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS from_ns
  FROM ops
), edges AS (
  SELECT run_id, device_key, at_ns,
    sum(change) FILTER (class = 'compute') AS compute,
    sum(change) FILTER (class = 'communication') AS communication,
    sum(change) FILTER (class = 'copy') AS copy,
    sum(change) FILTER (class = 'unnamed') AS unnamed,
    sum(change) FILTER (class = 'graph_span') AS span,
    max(gpu_step_ix) FILTER (class = 'compute' AND change = 1) AS compute_step,
    max(gpu_step_ix) FILTER (class = 'communication' AND change = 1) AS communication_step,
    max(gpu_step_ix) FILTER (class = 'copy' AND change = 1) AS copy_step,
    max(gpu_step_ix) FILTER (class = 'unnamed' AND change = 1) AS unnamed_step,
    max(gpu_step_ix) FILTER (class = 'graph_span' AND change = 1) AS span_step
  FROM (
    SELECT a.run_id, a.device_key, a.class, a.gpu_step_ix, e.at_ns, e.change
    FROM alone AS a,
    LATERAL (SELECT a.from_ns AS at_ns, 1 AS change UNION ALL SELECT a.to_ns, -1) AS e
    WHERE a.to_ns > a.from_ns
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
