-- One row per run and session whose outcomes do not partition its planned requests. Must be empty.
-- Without an objective, complete requests stand for good and late together.
SELECT run_id, session, planned_requests
FROM goodput
WHERE sent_requests IS NOT NULL AND planned_requests <>
  CASE WHEN slo IS NULL THEN complete_requests_low ELSE good_requests_low + late_requests END
  + rejected_requests + failed_requests + aborted_requests + unfinished_requests + not_sent_requests + unknown_requests
