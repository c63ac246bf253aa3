-- One row per run, device and rung of the ladder of activity; device NULL for engine-wide rungs (the
-- run's figure over devices is a sum, never a row). Unions are of intervals, never sums over streams.
-- engine_step is the sum of printed step times, cut at the window; scheduled_tokens and flops are
-- work, not time. A union of a capture that hides or lost operations, few or many, or shows nothing of more than a
-- hundredth of the window (and 50 ms), is a lower bound (`bounded`);
-- one of a capture whose clock is not that of the run is `bounded` as well, and tells neither a least nor a most.
-- Where an end of the window may divide iterations, what an engine did in it is `inferred`.
-- What an engine did, in a window that reaches beyond the last instant of all files, is `bounded`: at least
-- that; so are sums over iterations where the log does not cover the load (int_log_cover).
-- engine_step of iterations that overlap (int_overlaps) is `bounded`: the engine was busy for at most that.
-- Of telemetry counts what its readings tell of the window: `bounded` where they leave open more than a little of it.
-- value_low and value_high: what the value lies between; NULL where that is not known.
-- rate: time rungs per window-second and device, the others per window-second.
WITH steps AS (
  SELECT run_id, sum(elapsed_ns) AS busy_ns, sum(context_tokens + generation_tokens) AS tokens
  FROM int_steps GROUP BY run_id
  UNION ALL
  SELECT run_id, 0, 0 FROM int_quiet_windows
), rungs AS (
  SELECT s.run_id, 'engine_step' AS metric,
    CAST(least(s.busy_ns, device_time(w.window_ns, d.engine_ranks)) AS DOUBLE) AS value, 'ns' AS unit,
    ratio(least(s.busy_ns, device_time(w.window_ns, d.engine_ranks)), device_time(w.window_ns, d.engine_ranks)) AS rate
  FROM steps AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id
  JOIN int_devices AS d ON d.run_id = s.run_id
  WHERE s.busy_ns IS NOT NULL
  UNION ALL
  SELECT s.run_id, 'scheduled_tokens', CAST(s.tokens AS DOUBLE), 'tokens',
    per_second(s.tokens, w.window_ns)
  FROM steps AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id
  WHERE s.tokens IS NOT NULL
  UNION ALL
  SELECT c.run_id, 'flops', sum(c.window_growth), 'flop', per_second(sum(c.window_growth), max(w.window_ns))
  FROM int_counter_totals AS c
  JOIN int_run_windows AS w ON w.run_id = c.run_id
  WHERE c.metric = 'vllm:estimated_flops_per_gpu_total'
  GROUP BY c.run_id
  -- no figure where a series cannot be cut to the window; the series exists, and stays 0, where --enable-mfu-metrics is off: not observed
  HAVING sum(c.growth) > 0 AND count(c.window_growth) = count(*)
), judged AS (
  SELECT g.*, w.window_ns,
    o.run_id IS NOT NULL AND g.metric = 'engine_step' AS is_most,
    b.run_id IS NOT NULL OR (c.run_id IS NOT NULL AND g.metric <> 'flops') AS is_least,
    i.run_id IS NOT NULL AND g.metric IN ('engine_step', 'scheduled_tokens') AS is_divided
  FROM rungs AS g
  JOIN int_run_windows AS w ON w.run_id = g.run_id
  LEFT JOIN int_beyond_record AS b ON b.run_id = g.run_id
  LEFT JOIN int_log_cover AS c ON c.run_id = g.run_id
  LEFT JOIN int_overlaps AS o ON o.run_id = g.run_id
  LEFT JOIN int_divided_steps AS i ON i.run_id = g.run_id
)
SELECT run_id, NULL::BIGINT AS device, metric, value, unit, rate, window_ns,
  CASE WHEN is_most OR is_least THEN 'bounded' WHEN is_divided THEN 'inferred' ELSE 'reported' END AS basis,
  CASE WHEN NOT (is_most OR is_divided) THEN value END AS value_low,
  CASE WHEN NOT (is_least OR is_divided) THEN value END AS value_high
FROM judged
UNION ALL
SELECT u.run_id, u.device, u.metric, CAST(u.busy_ns AS DOUBLE), 'ns', ratio(u.busy_ns, u.window_ns), u.window_ns,
  CASE WHEN u.is_bound THEN 'bounded' ELSE 'measured' END,
  CASE WHEN NOT u.is_astray THEN CAST(u.busy_ns AS DOUBLE) END,
  CASE WHEN NOT u.is_bound THEN CAST(u.busy_ns AS DOUBLE) END
FROM int_gpu_unions AS u
UNION ALL
SELECT t.run_id, t.device, t.metric, t.value, t.unit,
  CASE WHEN t.kind = 'counter' THEN per_second(t.value, w.window_ns) ELSE t.value END,
  w.window_ns, t.basis, t.value_low, t.value_high
FROM int_gpu_telemetry AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id
