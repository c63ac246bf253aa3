-- One row per run and session where planned >= sent >= answered >= complete >= good does not hold, of
-- the counts or of their bounds. Must be empty.
SELECT run_id, session, planned_requests, sent_requests, answered_requests, complete_requests, good_requests
FROM goodput
WHERE planned_requests < sent_requests OR sent_requests < answered_requests_high
  OR answered_requests_low < complete_requests_low OR answered_requests_high < complete_requests_high
  OR complete_requests_low < good_requests_low OR complete_requests_high < good_requests_high
  OR NOT coalesce(answered_requests BETWEEN answered_requests_low AND answered_requests_high, true)
  OR NOT coalesce(complete_requests BETWEEN complete_requests_low AND complete_requests_high, true)
  OR NOT coalesce(good_requests BETWEEN good_requests_low AND good_requests_high, true)
