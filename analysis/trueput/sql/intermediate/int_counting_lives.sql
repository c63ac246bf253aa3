-- One row per file, engine and life in that file, of runs whose counters stand in several files: which life
-- of the process that counts it is, over all files, from 0 in order of time.
-- Formula: files are of one process where both name the same start of it, or where the later one begins after
-- the end of the other, counts on without a fall, and did not see it start. counts_from_zero: its start was seen,
-- or is named and came after the last scrape of the life before.
WITH ends AS (
  SELECT e.run_id, e.source_id, e.engine, e.incarnation, e.metric, e.labels, e.kind, e.le,
    min(e.at_ns) AS first_at_ns, max(e.at_ns) AS last_at_ns,
    arg_min(e.value, e.at_ns) AS first_value, arg_max(e.value, e.at_ns) AS last_value
  FROM raw.engine_samples AS e
  JOIN (
    SELECT run_id FROM raw.engine_samples GROUP BY run_id HAVING min(source_id) < max(source_id)
  ) AS several ON several.run_id = e.run_id
  WHERE e.kind IN ('counter', 'histogram_bucket', 'histogram_sum', 'histogram_count')
  GROUP BY e.run_id, e.source_id, e.engine, e.incarnation, e.metric, e.labels, e.kind, e.le
), starts AS (
  SELECT run_id, source_id, incarnation, min(value) AS started_s
  FROM raw.engine_samples
  WHERE metric = 'process_start_time_seconds'
  GROUP BY run_id, source_id, incarnation
  -- of several processes in one file none is told
  HAVING min(value) = max(value)
), files AS (
  SELECT f.*, 1e9 * s.started_s AS started_at_ns,
    row_number() OVER (PARTITION BY f.run_id, f.engine ORDER BY f.first_at_ns, f.source_id, f.incarnation) AS place
  FROM (
    SELECT run_id, source_id, engine, incarnation, min(first_at_ns) AS first_at_ns, max(last_at_ns) AS last_at_ns
    FROM ends GROUP BY run_id, source_id, engine, incarnation
  ) AS f
  LEFT JOIN starts AS s ON s.run_id = f.run_id AND s.source_id = f.source_id AND s.incarnation = f.incarnation
), placed AS (
  SELECT n.*, f.place
  FROM ends AS n
  JOIN files AS f ON f.run_id = n.run_id AND f.source_id = n.source_id AND f.engine = n.engine AND f.incarnation = n.incarnation
), counted_on AS (
  SELECT a.run_id, a.engine, b.place, bool_and(a.last_value <= b.first_value) AS without_fall
  FROM placed AS a
  JOIN placed AS b ON b.run_id = a.run_id AND b.engine = a.engine AND b.place = a.place + 1
    AND b.metric = a.metric AND b.labels = a.labels AND b.kind = a.kind AND b.le IS NOT DISTINCT FROM a.le
  GROUP BY a.run_id, a.engine, b.place
), compared AS (
  SELECT f.*, a.last_at_ns AS earlier_last_at_ns,
    CASE WHEN a.run_id IS NULL THEN false
      WHEN a.started_at_ns IS NOT NULL AND f.started_at_ns IS NOT NULL THEN a.started_at_ns = f.started_at_ns
      ELSE f.incarnation = 0 AND a.last_at_ns <= f.first_at_ns AND coalesce(c.without_fall, false) END AS is_same
  FROM files AS f
  LEFT JOIN files AS a ON a.run_id = f.run_id AND a.engine = f.engine AND a.place = f.place - 1
  LEFT JOIN counted_on AS c ON c.run_id = f.run_id AND c.engine = f.engine AND c.place = f.place
)
SELECT run_id, source_id, engine, incarnation,
  count(*) FILTER (NOT is_same) OVER (PARTITION BY run_id, engine ORDER BY place) - 1 AS life,
  NOT is_same AND (incarnation > 0 OR coalesce(earlier_last_at_ns < started_at_ns, false)) AS counts_from_zero
FROM compared
