-- One row per run and profiled device in whose window a profiler did work of its own.
-- covered_ns: how much of the window; idle_ns: how much of that the device ran nothing. A stretch that
-- the window cuts may have all its idle time inside.
SELECT o.run_id, o.device_key, min(o.source_id) AS source_id, count(*) AS stretches,
  least(CAST(sum(least(o.end_at_ns, w.to_ns) - greatest(o.start_at_ns, w.from_ns)) AS BIGINT), any_value(w.window_ns)) AS covered_ns,
  least(CAST(sum(least(o.idle_ns, least(o.end_at_ns, w.to_ns) - greatest(o.start_at_ns, w.from_ns))) AS BIGINT), any_value(w.window_ns)) AS idle_ns,
  any_value(w.window_ns) AS window_ns
FROM raw.gpu_overheads AS o
JOIN int_gpu_windows AS w ON w.run_id = o.run_id AND w.is_placed
WHERE o.device_key IS NOT NULL AND o.start_at_ns < w.to_ns AND o.end_at_ns > w.from_ns
GROUP BY o.run_id, o.device_key
