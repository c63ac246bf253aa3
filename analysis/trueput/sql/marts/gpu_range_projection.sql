-- One row per annotation range and device: the GPU operations launched inside it, on its thread.
-- Formula: an operation belongs to every range of its process and thread that holds the whole of the
-- call that launched it (same process and correlation id); start and end are those of its operations.
-- Nested ranges all count it, so the sum over ranges is not GPU time. Ranges without an operation have
-- no row. Operations join by launch, never by overlap with the range.
WITH ranges AS (
  SELECT run_id, source_id, name, process_key, thread_key, start_at_ns, end_at_ns,
    row_number() OVER (PARTITION BY run_id ORDER BY source_id, process_key, thread_key, start_at_ns, end_at_ns DESC, name) AS range_ix
  FROM raw.gpu_ranges
), launched AS (
  SELECT l.run_id, l.source_id, l.process_key, l.thread_key, o.device,
    l.start_at_ns AS called_at_ns, l.end_at_ns AS returned_at_ns,
    o.start_at_ns, o.end_at_ns
  FROM raw.gpu_launches AS l
  JOIN raw.gpu_ops AS o
    ON o.run_id = l.run_id AND o.source_id = l.source_id AND o.process_key = l.process_key
    AND o.correlation_id = l.correlation_id
)
SELECT
  r.run_id, r.name, l.device, count(*) AS operations,
  min(l.start_at_ns) AS start_at_ns, max(l.end_at_ns) AS end_at_ns,
  r.range_ix, r.start_at_ns AS host_start_at_ns, r.end_at_ns AS host_end_at_ns
FROM ranges AS r
JOIN launched AS l
  ON l.run_id = r.run_id AND l.source_id = r.source_id AND l.process_key = r.process_key
  AND l.thread_key = r.thread_key
  AND l.called_at_ns >= r.start_at_ns AND l.returned_at_ns <= r.end_at_ns
GROUP BY r.run_id, r.range_ix, r.name, l.device, r.start_at_ns, r.end_at_ns
