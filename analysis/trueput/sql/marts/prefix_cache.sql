-- One row per run: prompt tokens looked up in the prefix cache, found there, and what that saved.
-- prefill_saved_ns = hit tokens x the fitted cost of a prefilled token: what the cache can at most
-- have saved. prefill_share_of_e2e_ratio bounds what any hit rate can save.
-- Null rule: self hits (a resumed request finding its own blocks) are exported by no file known.
WITH counted AS (
  SELECT run_id,
    CAST(sum(growth) FILTER (metric IN ('vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total')) AS BIGINT) AS queried,
    CAST(sum(growth) FILTER (metric IN ('vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total')) AS BIGINT) AS hit
  FROM int_counter_totals GROUP BY run_id
), cached AS (
  SELECT run_id, CAST(sum(prompt_tokens) FILTER (cached_prompt_tokens IS NOT NULL) AS BIGINT) AS queried,
    CAST(sum(cached_prompt_tokens) AS BIGINT) AS hit
  FROM request_outcomes GROUP BY run_id
), shares AS (
  SELECT run_id, ratio(sum(prefill_ns) FILTER (e2e_ns IS NOT NULL), sum(e2e_ns) FILTER (prefill_ns IS NOT NULL)) AS prefill_share
  FROM request_phases WHERE is_load GROUP BY run_id
)
SELECT
  r.run_id,
  coalesce(c.queried, q.queried) AS queried_tokens,
  coalesce(c.hit, q.hit) AS hit_tokens,
  ratio(coalesce(c.hit, q.hit), coalesce(c.queried, q.queried)) AS hit_ratio,
  NULL::BIGINT AS self_hit_tokens,
  CASE WHEN starts_with(k.method, 'robust') THEN CAST(coalesce(c.hit, q.hit) * k.prefill_token_ns AS BIGINT) END AS prefill_saved_ns,
  s.prefill_share AS prefill_share_of_e2e_ratio,
  CASE WHEN c.queried IS NOT NULL OR q.queried IS NOT NULL THEN 'reported' ELSE 'unknown' END AS basis
FROM raw.runs AS r
LEFT JOIN counted AS c ON c.run_id = r.run_id
LEFT JOIN cached AS q ON q.run_id = r.run_id
LEFT JOIN shares AS s ON s.run_id = r.run_id
LEFT JOIN raw.step_costs AS k ON k.run_id = r.run_id
