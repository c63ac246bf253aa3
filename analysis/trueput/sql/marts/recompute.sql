-- One row per run: preemptions, tokens computed again, and the engine time they cost.
-- Evidence, best first: exact records, conservation of scheduled tokens, shape of steps, counters.
-- Null rule: unknown is NULL, never 0; with preemptions counted and nothing else, tokens are NULL.
SELECT
  r.run_id,
  x.preemptions,
  -- a count only where the victims found explain every preemption that the engine counted
  CASE WHEN x.preemptions = 0 THEN 0 WHEN v.explained = x.preemptions THEN v.victims END AS preempted_requests,
  t.recomputed_tokens, t.recomputed_tokens_low, t.recomputed_tokens_high,
  t.scheduled_tokens,
  ratio(t.recomputed_tokens, t.scheduled_tokens) AS recomputed_ratio,
  t.recompute_ns, t.recompute_ns_low, t.recompute_ns_high,
  d.rejected AS rejected_draft_tokens,
  coalesce(t.method, 'none') AS method,
  coalesce(t.basis, 'unknown') AS basis
FROM raw.runs AS r
LEFT JOIN int_preemptions AS x ON x.run_id = r.run_id
LEFT JOIN raw.run_recompute AS t ON t.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, count(*) FILTER (preemptions > 0) AS victims, sum(preemptions) AS explained
  FROM raw.request_recompute GROUP BY run_id
) AS v ON v.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, CAST(sum(growth) FILTER (metric = 'vllm:spec_decode_num_draft_tokens_total')
    - sum(growth) FILTER (metric = 'vllm:spec_decode_num_accepted_tokens_total') AS BIGINT) AS rejected
  FROM int_counter_totals GROUP BY run_id
) AS d ON d.run_id = r.run_id
