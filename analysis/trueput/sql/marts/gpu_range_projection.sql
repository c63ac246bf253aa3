-- One row per annotation range and device: the GPU operations launched inside it, on its thread.
-- Operations join their launch by process and correlation id, never by overlap with the range.
SELECT
  r.run_id, r.name, o.device, count(*) AS operations,
  min(o.start_at_ns) AS start_at_ns, max(o.end_at_ns) AS end_at_ns
FROM raw.gpu_ranges AS r
JOIN raw.gpu_launches AS l
  ON l.run_id = r.run_id AND l.process_key IS NOT DISTINCT FROM r.process_key
  AND l.thread_key IS NOT DISTINCT FROM r.thread_key
  AND l.start_at_ns >= r.start_at_ns AND l.start_at_ns < r.end_at_ns
JOIN raw.gpu_ops AS o
  ON o.run_id = l.run_id AND o.process_key IS NOT DISTINCT FROM l.process_key
  AND o.correlation_id = l.correlation_id
GROUP BY r.run_id, r.source_id, r.name, r.process_key, r.thread_key, r.start_at_ns, r.end_at_ns, o.device
