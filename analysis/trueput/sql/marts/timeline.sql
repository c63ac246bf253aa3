-- One row per run and second of the window in which anything was observed: state of the engine, work done, arrivals and ends.
-- Steps stand in the second in which their line was printed; busy_ratio is at most 1 per rank.
WITH seconds_of_run AS (
  SELECT run_id, first_ns, last_ns, unnest(range(from_ns - from_ns % 1000000000, to_ns + 1, 1000000000)) AS at_ns
  FROM int_run_windows WHERE from_ns IS NOT NULL AND to_ns - from_ns < 86400000000000
), samples AS (
  SELECT run_id, at_ns - at_ns % 1000000000 AS at_ns,
    avg(value) FILTER (metric IN ('vllm:num_requests_running', 'log:running_requests')) AS running,
    avg(value) FILTER (metric IN ('vllm:num_requests_waiting', 'log:waiting_requests')) AS waiting,
    avg(value) FILTER (metric IN ('vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc', 'log:kv_used_ratio')) AS kv_used_ratio
  FROM raw.engine_samples WHERE kind = 'gauge' AND at_ns IS NOT NULL
  GROUP BY run_id, at_ns - at_ns % 1000000000
), work AS (
  SELECT run_id, logged_at_ns - logged_at_ns % 1000000000 AS at_ns,
    CAST(sum(context_tokens) AS BIGINT) AS context_tokens,
    CAST(sum(generation_tokens) AS BIGINT) AS generation_tokens,
    CAST(sum(recomputed_tokens) AS BIGINT) AS recompute_tokens, sum(elapsed_ns) AS busy_ns
  FROM int_steps WHERE logged_at_ns IS NOT NULL
  GROUP BY run_id, logged_at_ns - logged_at_ns % 1000000000
), arrivals AS (
  SELECT run_id, sent_at_ns - sent_at_ns % 1000000000 AS at_ns, count(*) AS arrivals
  FROM request_outcomes WHERE outcome IS DISTINCT FROM 'other_traffic' AND sent_at_ns IS NOT NULL
  GROUP BY run_id, sent_at_ns - sent_at_ns % 1000000000
), ends AS (
  SELECT run_id, ended_at_ns - ended_at_ns % 1000000000 AS at_ns,
    count(*) FILTER (outcome = 'good') AS good_ends, count(*) FILTER (outcome = 'late') AS late_ends,
    count(*) FILTER (outcome IN ('failed', 'rejected', 'aborted')) AS failed_ends
  FROM request_outcomes WHERE outcome IS DISTINCT FROM 'other_traffic' AND ended_at_ns IS NOT NULL
  GROUP BY run_id, ended_at_ns - ended_at_ns % 1000000000
)
SELECT
  s.run_id, s.at_ns, m.running, m.waiting, m.kv_used_ratio,
  w.context_tokens AS prefill_tokens,
  w.generation_tokens - w.recompute_tokens AS decode_tokens,
  w.recompute_tokens,
  part_within(ratio(w.busy_ns, 1000000000 * d.engine_ranks), 1.0) AS busy_ratio,
  coalesce(a.arrivals, 0) AS arrivals, coalesce(e.good_ends, 0) AS good_ends,
  coalesce(e.late_ends, 0) AS late_ends, coalesce(e.failed_ends, 0) AS failed_ends
FROM seconds_of_run AS s
LEFT JOIN samples AS m ON m.run_id = s.run_id AND m.at_ns = s.at_ns
LEFT JOIN work AS w ON w.run_id = s.run_id AND w.at_ns = s.at_ns
LEFT JOIN arrivals AS a ON a.run_id = s.run_id AND a.at_ns = s.at_ns
LEFT JOIN ends AS e ON e.run_id = s.run_id AND e.at_ns = s.at_ns
LEFT JOIN int_devices AS d ON d.run_id = s.run_id
WHERE s.at_ns BETWEEN s.first_ns - 999999999 AND s.last_ns
  OR m.run_id IS NOT NULL OR w.run_id IS NOT NULL OR a.run_id IS NOT NULL OR e.run_id IS NOT NULL
