-- One row per run whose servers tell how many responses to requests for generation began: access lines
-- name no request, and counters none either, but one request has one response at most.
-- Formula: the larger of access lines and counters (status below 400; a counter counts from its first
-- scrape on). others: requests that are not of the load, each of which may have had one of them.
-- Null rule: no row where nothing was counted, nor where more responses began than an engine saw
-- requests, for then the record lacks some.
WITH told AS (
  SELECT run_id, count(*) AS responses
  FROM raw.request_events
  WHERE event = 'responded' AND http_status < 400 AND generation_route(route)
  GROUP BY run_id
  UNION ALL
  SELECT run_id, CAST(sum(growth) AS BIGINT)
  FROM int_counter_totals
  WHERE metric = 'http_requests_total' AND labels LIKE '%status=2%' AND generation_route(labels)
  GROUP BY run_id
), seen AS (
  SELECT run_id, count(*) FILTER (in_engine) AS engine_requests, count(*) FILTER (NOT is_load) AS others
  FROM int_ruled GROUP BY run_id
)
SELECT t.run_id, max(t.responses) AS responses, any_value(s.others) AS others
FROM told AS t
JOIN seen AS s ON s.run_id = t.run_id
GROUP BY t.run_id
HAVING max(t.responses) <= any_value(s.engine_requests)
