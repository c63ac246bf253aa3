-- One row per run of whose requests spans alone tell: an engine writes one when a request finishes, so
-- that those which were aborted, refused or lost leave none, and how many were sent is not known.
-- Events are looked at for such runs alone: a long run has many.
WITH files AS (
  SELECT run_id, source_id FROM raw.requests GROUP BY run_id, source_id
), spans AS MATERIALIZED (
  SELECT f.run_id
  FROM files AS f
  LEFT JOIN raw.sources AS s ON s.run_id = f.run_id AND s.source_id = f.source_id
  GROUP BY f.run_id
  HAVING bool_and(coalesce(s.format = 'otlp_spans', false))
), admitted AS (
  SELECT e.run_id
  FROM raw.request_events AS e
  JOIN spans AS x ON x.run_id = e.run_id
  WHERE e.event IN ('received', 'added', 'queued')
  GROUP BY e.run_id
)
SELECT x.run_id
FROM spans AS x
LEFT JOIN admitted AS a ON a.run_id = x.run_id
WHERE a.run_id IS NULL
