-- One row per run: how full the engine's batches were. Means over iterations (batch, tokens) and
-- over samples in the window (running, waiting); NULL where the files hold neither.
SELECT
  r.run_id, coalesce(s.steps, CASE WHEN q.run_id IS NOT NULL THEN 0 END) AS steps, s.decode_batch_mean, s.tokens_per_step_mean,
  coalesce(m.running_mean, s.running_mean) AS running_mean,
  coalesce(m.waiting_mean, s.waiting_mean) AS waiting_mean,
  coalesce(s.kv_used_ratio_p99, m.kv_used_ratio_p99) AS kv_used_ratio_p99
FROM raw.runs AS r
LEFT JOIN (
  SELECT run_id, CAST(sum(covers_steps) AS BIGINT) AS steps,
    avg(generation_requests) FILTER (generation_requests > 0) AS decode_batch_mean,
    avg(context_tokens + generation_tokens) AS tokens_per_step_mean,
    avg(running) AS running_mean, avg(waiting) AS waiting_mean,
    quantile_disc(kv_used_ratio, 0.99) AS kv_used_ratio_p99
  FROM int_steps GROUP BY run_id
) AS s ON s.run_id = r.run_id
LEFT JOIN (
  SELECT e.run_id,
    avg(e.value) FILTER (e.metric IN ('vllm:num_requests_running', 'log:running_requests')) AS running_mean,
    avg(e.value) FILTER (e.metric IN ('vllm:num_requests_waiting', 'log:waiting_requests')) AS waiting_mean,
    quantile_disc(e.value, 0.99) FILTER (e.metric IN ('vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc', 'log:kv_used_ratio'))
      AS kv_used_ratio_p99
  FROM raw.engine_samples AS e
  JOIN int_run_windows AS w ON w.run_id = e.run_id
  WHERE e.kind = 'gauge' AND coalesce(e.at_ns BETWEEN w.from_ns AND w.to_ns, w.window_rule = 'all')
  GROUP BY e.run_id
) AS m ON m.run_id = r.run_id
LEFT JOIN int_quiet_windows AS q ON q.run_id = r.run_id
