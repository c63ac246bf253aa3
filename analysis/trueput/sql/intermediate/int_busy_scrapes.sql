-- One row per scrape of a run at which requests were running or waiting, or had just finished, or
-- were to before the next one.
-- had_begun: a request had come by then; not_ended: one was there, or ended after it. The load began
-- before the first scrape that had_begun and ended after the last that is not_ended.
SELECT run_id, at_ns,
  coalesce(present > 0, false) OR coalesce(finished > lag(finished) OVER (PARTITION BY run_id ORDER BY at_ns), false) AS had_begun,
  coalesce(present > 0, false) OR coalesce(lead(finished) OVER (PARTITION BY run_id ORDER BY at_ns) > finished, false) AS not_ended
FROM (
  SELECT
    run_id, at_ns,
    sum(value) FILTER (metric IN ('vllm:num_requests_running', 'vllm:num_requests_waiting')) AS present,
    sum(value) FILTER (metric = 'vllm:request_success_total') AS finished
  FROM raw.engine_samples
  WHERE at_ns IS NOT NULL
    AND metric IN ('vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:request_success_total')
  GROUP BY run_id, at_ns
)
QUALIFY present > 0
  OR finished > lag(finished) OVER (PARTITION BY run_id ORDER BY at_ns)
  OR lead(present) OVER (PARTITION BY run_id ORDER BY at_ns) > 0
  OR lead(finished) OVER (PARTITION BY run_id ORDER BY at_ns) > finished
