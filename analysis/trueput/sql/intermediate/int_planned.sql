-- One row per run and load session: how many requests were planned, and how many of them have no
-- record at all (planned, never sent).
WITH seen AS (
  SELECT run_id, session, count(*) AS rows_seen, bool_or(in_client) AS by_client
  FROM int_ruled WHERE is_load GROUP BY run_id, session
), refused AS (
  -- without a client, refusals that left only an access line belong to the load
  SELECT e.run_id, count(*) AS refused, list(e.at_ns) AS refused_at_ns
  FROM raw.request_events AS e
  JOIN int_run_facts AS f ON f.run_id = e.run_id AND NOT f.has_client AND NOT f.has_server
  WHERE e.event = 'responded' AND e.http_status >= 400 AND generation_route(e.route)
  GROUP BY e.run_id
)
SELECT
  k.run_id, k.session,
  coalesce(l.planned_requests, CASE WHEN k.session IS NULL THEN r.planned_requests END) AS asked_requests,
  coalesce(s.rows_seen, 0) + coalesce(x.refused, 0) AS rows_seen,
  coalesce(x.refused, 0) AS refused_without_id,
  x.refused_at_ns,
  CASE WHEN coalesce(s.rows_seen, 0) + coalesce(x.refused, 0) > 0
    THEN greatest(0, coalesce(l.planned_requests, CASE WHEN k.session IS NULL THEN r.planned_requests END, 0)
      - coalesce(s.rows_seen, 0) - coalesce(x.refused, 0)) END AS rows_missing
FROM int_sessions AS k
LEFT JOIN seen AS s ON s.run_id = k.run_id AND s.session IS NOT DISTINCT FROM k.session
LEFT JOIN refused AS x ON x.run_id = k.run_id AND k.session IS NULL
LEFT JOIN raw.load_sessions AS l ON l.run_id = k.run_id AND l.session IS NOT DISTINCT FROM k.session
LEFT JOIN raw.runs AS r ON r.run_id = k.run_id
