-- One row per run: GPUs where run.toml says so, GPUs that a profile shows, and engine ranks seen in the engine's records.
-- Without a word in run.toml the run has as many GPUs as its only engine works on, where a profile shows some of them
-- and not all. That its devices are GPUs is known from the profile alone.
SELECT
  r.run_id,
  coalesce(r.gpu_count, CASE WHEN r.engine_devices > g.profiled_gpus THEN r.engine_devices END) AS gpu_count,
  r.gpu_count IS NOT NULL AS is_stated, g.profiled_gpus,
  nullif(greatest(coalesce(t.engines, 0), coalesce(m.engines, 0)), 0) AS engine_ranks
FROM raw.runs AS r
LEFT JOIN (SELECT run_id, count(DISTINCT engine) AS engines FROM raw.engine_steps GROUP BY run_id) AS t
  ON t.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, count(DISTINCT engine) AS engines FROM raw.engine_samples
  WHERE engine <> 'all' AND metric IN ('vllm:num_requests_running', 'log:running_requests')
  GROUP BY run_id
) AS m ON m.run_id = r.run_id
LEFT JOIN (SELECT run_id, count(DISTINCT device_key) AS profiled_gpus FROM int_gpu_op_totals GROUP BY run_id) AS g
  ON g.run_id = r.run_id
