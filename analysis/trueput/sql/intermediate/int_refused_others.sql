-- One row per request that an engine refused and that is not of the load: its access line is all there is of it.
-- Formula: it was printed before the first send of a client, or after the last end, by more than the log's second
-- and what the clocks leave open. Within the load refusals may be the client's own, sent once more.
-- Null rule: no row where a clock is not known.
WITH timed AS (
  SELECT run_id, source_id, line, at_ns, event = 'responded' AS is_between FROM raw.request_events
  UNION ALL
  SELECT run_id, source_id, line, logged_at_ns, false FROM raw.engine_steps
)
SELECT e.run_id, e.at_ns, e.http_status
FROM raw.request_events AS e
JOIN (
  SELECT q.run_id, min(q.sent_at_ns) AS first_ns, max(greatest(q.sent_at_ns, coalesce(q.ended_at_ns, q.sent_at_ns))) AS last_ns
  FROM int_ruled AS q
  WHERE q.in_client AND q.is_load
  GROUP BY q.run_id
) AS k ON k.run_id = e.run_id
JOIN int_run_facts AS f ON f.run_id = e.run_id AND f.has_client AND NOT f.has_server
JOIN (
  SELECT run_id, CASE WHEN count(clock_uncertainty_ns) = count(*) THEN max(clock_uncertainty_ns) END AS unsure_ns
  FROM raw.sources WHERE clock_kind <> 'none' GROUP BY run_id
) AS c ON c.run_id = e.run_id
WHERE e.event = 'responded' AND e.http_status >= 400 AND generation_route(e.route)
  AND (e.at_ns - c.unsure_ns > k.last_ns
    OR EXISTS (
      FROM timed AS t
      WHERE t.run_id = e.run_id AND t.source_id = e.source_id AND t.line > e.line
        AND t.at_ns + 1000000000 + c.unsure_ns < k.first_ns AND t.at_ns >= e.at_ns
        AND (NOT t.is_between OR t.at_ns > e.at_ns)
    ))
