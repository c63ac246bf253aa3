-- One row per request id that stands more than once among a run's planned requests. Must be empty.
SELECT run_id, session, request_id, count(*) AS times
FROM request_outcomes
WHERE request_id IS NOT NULL AND outcome IS DISTINCT FROM 'other_traffic'
GROUP BY run_id, session, request_id
HAVING count(*) > 1
