-- One row per run and second of the window in which the use of the KV cache is known.
-- Demand that the cache cannot meet shows as a use near 1 with requests waiting or preempted; what
-- waiting requests would need is not known, only how many wait.
-- Formula: used_tokens = sum over engines of the engine's mean share x the tokens that its start-up
-- line says it holds; share of all engines = their mean. Printed steps come before gauges.
-- Null rule: without a printed capacity, tokens are NULL and the share stands alone.
WITH engines AS (
  SELECT run_id, engine, logged_at_ns - logged_at_ns % 1000000000 AS at_ns,
    avg(kv_used_ratio) AS used_ratio, max(kv_used_ratio) AS used_ratio_max,
    avg(waiting) AS waiting
  FROM int_steps
  WHERE kv_used_ratio IS NOT NULL AND logged_at_ns IS NOT NULL
  GROUP BY run_id, engine, logged_at_ns - logged_at_ns % 1000000000
), printed AS (
  SELECT run_id, at_ns, avg(used_ratio) AS used_ratio, max(used_ratio_max) AS used_ratio_max,
    sum(waiting) AS waiting
  FROM engines GROUP BY run_id, at_ns
), capacity AS (
  SELECT r.run_id,
    TRY_CAST(CASE WHEN json_valid(r.config_json)
      THEN json_extract_string(r.config_json, '$.kv_tokens') END AS BIGINT) * d.engine_ranks
      AS capacity_tokens
  FROM raw.runs AS r LEFT JOIN int_devices AS d ON d.run_id = r.run_id
), used AS (
  SELECT
    t.run_id, t.at_ns, coalesce(p.used_ratio, t.kv_used_ratio) AS used_ratio,
    CASE WHEN p.run_id IS NULL THEN t.kv_used_ratio ELSE p.used_ratio_max END AS used_ratio_max,
    coalesce(t.waiting, p.waiting) AS waiting, t.running, t.recompute_tokens,
    CASE WHEN p.run_id IS NULL THEN 'samples' ELSE 'steps' END AS method
  FROM timeline AS t
  LEFT JOIN printed AS p ON p.run_id = t.run_id AND p.at_ns = t.at_ns
)
SELECT
  u.run_id, u.at_ns, c.capacity_tokens,
  CAST(round(u.used_ratio * c.capacity_tokens) AS BIGINT) AS used_tokens,
  u.used_ratio, u.used_ratio_max, u.running, u.waiting, u.recompute_tokens, u.method
FROM used AS u
LEFT JOIN capacity AS c ON c.run_id = u.run_id
WHERE u.used_ratio IS NOT NULL
