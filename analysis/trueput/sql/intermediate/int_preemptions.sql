-- One row per run: how many preemptions its engine counted, best evidence first; NULL where no
-- counter, event or printed running count says so.
SELECT
  r.run_id,
  coalesce(CAST(c.growth AS BIGINT), e.printed, e.events) AS preemptions,
  CASE WHEN c.growth IS NOT NULL THEN 'counter' WHEN e.printed IS NOT NULL THEN 'printed count'
    WHEN e.events IS NOT NULL THEN 'events' END AS evidence
FROM raw.runs AS r
LEFT JOIN (
  SELECT run_id, sum(growth) AS growth FROM int_counter_totals
  WHERE metric = 'vllm:num_preemptions_total' GROUP BY run_id
) AS c ON c.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, max(cumulative) AS printed, count(*) AS events
  FROM raw.request_events WHERE event = 'preempted' GROUP BY run_id
) AS e ON e.run_id = r.run_id
