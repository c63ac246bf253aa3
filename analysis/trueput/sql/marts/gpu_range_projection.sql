-- One row per annotation range and device: the GPU operations launched inside it, on its thread.
-- Formula: an operation belongs to every range of its process and thread that holds the whole of the
-- call that launched it (same process and correlation id); start and end are those of its operations.
-- Nested ranges all count it, so the sum over ranges is not GPU time. Ranges without an operation have
-- no row. Operations join by launch, never by overlap with the range.
-- How: ranges are laid out in cells of time as long as the mean range, so that there are at most three
-- cells per range; a call is compared with the ranges of its thread and cell only.
WITH ranges AS (
  SELECT run_id, name, start_at_ns, end_at_ns,
    CASE WHEN process_key IS NOT NULL AND thread_key IS NOT NULL
      THEN hash(place_number(run_id, source_id, process_key), thread_key) END AS thread,
    row_number() OVER (PARTITION BY run_id ORDER BY source_id, process_key, thread_key, start_at_ns, end_at_ns DESC, name) AS range_ix
  FROM raw.gpu_ranges
), width AS (
  SELECT CAST(greatest(1, sum(end_at_ns - start_at_ns) // count(*)) AS BIGINT) AS width_ns
  FROM raw.gpu_ranges WHERE end_at_ns >= start_at_ns
), cells AS (
  SELECT run_id, name, start_at_ns, end_at_ns, thread, range_ix,
    unnest(range(start_at_ns // width_ns, end_at_ns // width_ns + 1)) AS cell
  FROM (SELECT *, (SELECT width_ns FROM width) AS width_ns FROM ranges WHERE thread IS NOT NULL AND end_at_ns >= start_at_ns)
), calls AS (
  SELECT place_number(run_id, source_id, process_key) AS process,
    hash(place_number(run_id, source_id, process_key), thread_key) AS thread,
    correlation_id, start_at_ns AS called_at_ns, end_at_ns AS returned_at_ns,
    start_at_ns // (SELECT width_ns FROM width) AS cell
  FROM raw.gpu_launches
  WHERE correlation_id IS NOT NULL AND process_key IS NOT NULL AND thread_key IS NOT NULL
), launched AS (
  SELECT l.thread, l.cell, l.called_at_ns, l.returned_at_ns, o.device, o.start_at_ns, o.end_at_ns
  FROM calls AS l
  JOIN raw.gpu_ops AS o
    ON place_number(o.run_id, o.source_id, o.process_key) = l.process AND o.correlation_id = l.correlation_id
  WHERE is_counted(o.quality)
)
SELECT
  r.run_id, r.name, l.device, count(*) AS operations,
  min(l.start_at_ns) AS start_at_ns, max(l.end_at_ns) AS end_at_ns,
  r.range_ix, r.start_at_ns AS host_start_at_ns, r.end_at_ns AS host_end_at_ns
FROM cells AS r
JOIN launched AS l
  ON l.thread = r.thread AND l.cell = r.cell
  AND l.called_at_ns >= r.start_at_ns AND l.returned_at_ns <= r.end_at_ns
GROUP BY r.run_id, r.range_ix, r.name, l.device, r.start_at_ns, r.end_at_ns
