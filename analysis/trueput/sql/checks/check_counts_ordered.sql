-- One row per run and session where planned >= sent >= answered >= complete >= good does not hold.
-- Must be empty.
SELECT run_id, session, planned_requests, sent_requests, answered_requests, complete_requests, good_requests
FROM goodput
WHERE NOT (planned_requests >= sent_requests AND sent_requests >= answered_requests
  AND answered_requests >= complete_requests AND complete_requests >= coalesce(good_requests, 0))
