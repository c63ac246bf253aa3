-- One row per scrape of a run at which requests were running or waiting, or had just finished.
SELECT run_id, at_ns
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
