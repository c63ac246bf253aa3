-- One row per run: prompt tokens looked up in the prefix cache in the run's window, found there, and
-- what that saved. Counters are of all that the engine served, other traffic included; where they
-- cannot be cut to the window, or there are none, the load's own requests that were sent in it.
-- prefill_saved_ns = hit tokens x the fitted cost of a prefilled token: what the cache can at most
-- have saved. prefill_share_of_e2e_ratio bounds what any hit rate can save.
-- Null rule: self hits (a resumed request finding its own blocks) are exported by no file known.
WITH counted AS (
  SELECT run_id, queried, hit
  FROM (
    SELECT run_id,
      CAST(sum(window_growth) FILTER (metric IN ('vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total')) AS BIGINT) AS queried,
      CAST(sum(window_growth) FILTER (metric IN ('vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total')) AS BIGINT) AS hit,
      count(*) = count(window_growth) AS is_cut
    FROM int_counter_totals
    WHERE metric IN ('vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total',
      'vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total')
    GROUP BY run_id
  ) WHERE is_cut
), cached AS (
  SELECT o.run_id, CAST(sum(o.prompt_tokens) FILTER (o.cached_prompt_tokens IS NOT NULL) AS BIGINT) AS queried,
    CAST(sum(o.cached_prompt_tokens) AS BIGINT) AS hit
  FROM request_outcomes AS o
  LEFT JOIN int_windows AS w ON w.run_id = o.run_id AND w.session IS NOT DISTINCT FROM o.session
  WHERE o.outcome IS DISTINCT FROM 'other_traffic' AND is_inside(w.window_rule, o.sent_at_ns, w.from_ns, w.until_ns)
  GROUP BY o.run_id
), shares AS (
  SELECT p.run_id,
    ratio(sum(p.prefill_ns) FILTER (p.e2e_ns IS NOT NULL), sum(p.e2e_ns) FILTER (p.prefill_ns IS NOT NULL)) AS prefill_share
  FROM int_phases AS p
  LEFT JOIN int_windows AS w ON w.run_id = p.run_id AND w.session IS NOT DISTINCT FROM p.session
  WHERE p.is_load AND is_inside(w.window_rule, p.sent_at_ns, w.from_ns, w.until_ns)
  GROUP BY p.run_id
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
