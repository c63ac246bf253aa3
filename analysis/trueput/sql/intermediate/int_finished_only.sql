-- One row per run of whose requests spans alone tell: an engine writes one when a request finishes, so
-- that those which were aborted, refused or lost leave none, and how many were sent is not known.
SELECT q.run_id
FROM raw.requests AS q
LEFT JOIN raw.sources AS s ON s.run_id = q.run_id AND s.source_id = q.source_id
GROUP BY q.run_id
HAVING bool_and(coalesce(s.format = 'otlp_spans', false)) AND q.run_id NOT IN (
  SELECT run_id FROM raw.request_events WHERE event IN ('received', 'added', 'queued')
)
