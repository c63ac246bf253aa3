-- One row per run and limit of the objective: bounds of the share of requests within the limit,
-- read off cumulative histograms.
-- Formula: at the largest bucket edge not above the limit the share is surely within; at the
-- smallest edge not below it the share is at most within.
-- Null rule: no histogram for a limit, or none that can be cut to the window, no row.
WITH limits AS (
  SELECT run_id, 'ttft' AS name, 'vllm:time_to_first_token_seconds' AS metric, ttft_limit_ns AS limit_ns
  FROM slo_policy WHERE ttft_limit_ns IS NOT NULL
  UNION ALL
  SELECT run_id, 'tpot', 'vllm:request_time_per_output_token_seconds', tpot_limit_ns
  FROM slo_policy WHERE tpot_limit_ns IS NOT NULL
  UNION ALL
  SELECT run_id, 'e2e', 'vllm:e2e_request_latency_seconds', e2e_limit_ns
  FROM slo_policy WHERE e2e_limit_ns IS NOT NULL
), grown AS (
  SELECT run_id, metric, le, sum(growth_most) AS observations
  FROM int_counters WHERE kind = 'histogram_bucket'
  GROUP BY run_id, metric, le
  QUALIFY bool_and(coalesce(any_value(window_rule), 'all') = 'all' OR sum(growth_most) = sum(growth_least))
    OVER (PARTITION BY run_id, metric)
)
SELECT
  l.run_id, l.name,
  max(g.observations) FILTER (g.le = 'inf'::DOUBLE) AS observations,
  ratio(coalesce(max(g.observations) FILTER (round(g.le * 1000000000.0) <= l.limit_ns), 0),
    max(g.observations) FILTER (g.le = 'inf'::DOUBLE)) AS share_low,
  ratio(min(g.observations) FILTER (round(g.le * 1000000000.0) >= l.limit_ns),
    max(g.observations) FILTER (g.le = 'inf'::DOUBLE)) AS share_high
FROM limits AS l
JOIN grown AS g ON g.run_id = l.run_id AND g.metric = l.metric
GROUP BY l.run_id, l.name, l.limit_ns
