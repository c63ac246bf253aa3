-- One row per run: preemptions, tokens computed again, and the engine time they cost, in the run's
-- window; of all that its engine served there, other traffic included. Where the window is the whole
-- load, of the lives of the engine that served it.
-- Evidence, best first: exact records, conservation of scheduled tokens, shape of steps, counters.
-- Without any of it: what a profile's step annotations show (int_gpu_annotated_recompute), method annotations; engine
-- time is then not known, the GPU time that it cost is in the ledger.
-- A log that tells of a part of the window (int_log_cover) has the least of it; none where no preemption was counted.
-- Null rule: unknown is NULL, never 0; with preemptions counted and nothing else, tokens are NULL.
SELECT
  r.run_id,
  x.preemptions,
  -- a count only where the victims found explain every preemption that the engine counted
  CASE WHEN x.preemptions = 0 THEN 0 WHEN v.all_explained = x.preemptions AND x.all_preemptions = x.preemptions THEN v.all_victims
    WHEN v.explained = x.preemptions THEN v.victims END AS preempted_requests,
  CASE WHEN g.run_id IS NOT NULL THEN g.recomputed_tokens_high WHEN c.run_id IS NULL THEN t.recomputed_tokens END AS recomputed_tokens,
  CASE WHEN g.run_id IS NOT NULL THEN g.recomputed_tokens_low ELSE t.recomputed_tokens_low END AS recomputed_tokens_low,
  CASE WHEN g.run_id IS NOT NULL THEN g.recomputed_tokens_high
    WHEN c.run_id IS NULL THEN t.recomputed_tokens_high END AS recomputed_tokens_high,
  coalesce(t.scheduled_tokens, CASE WHEN q.run_id IS NOT NULL THEN 0 END) AS scheduled_tokens,
  CASE WHEN c.run_id IS NULL THEN ratio(t.recomputed_tokens, t.scheduled_tokens) END AS recomputed_ratio,
  CASE WHEN c.run_id IS NULL THEN t.recompute_ns END AS recompute_ns,
  t.recompute_ns_low,
  CASE WHEN c.run_id IS NULL THEN t.recompute_ns_high END AS recompute_ns_high,
  d.rejected AS rejected_draft_tokens,
  CASE WHEN g.run_id IS NOT NULL THEN 'annotations' ELSE coalesce(t.method, 'none') END AS method,
  CASE WHEN g.run_id IS NOT NULL THEN CASE WHEN g.recomputed_tokens_high IS NULL THEN 'bounded' ELSE 'inferred' END
    WHEN c.run_id IS NOT NULL AND t.basis <> 'unknown' THEN 'bounded' ELSE coalesce(t.basis, 'unknown') END AS basis
FROM raw.runs AS r
LEFT JOIN int_preemptions AS x ON x.run_id = r.run_id
LEFT JOIN int_recompute AS t ON t.run_id = r.run_id
LEFT JOIN int_log_cover AS c ON c.run_id = t.run_id AND t.method <> 'preemption_counter'
LEFT JOIN int_gpu_annotated_recompute AS g ON g.run_id = r.run_id
LEFT JOIN int_quiet_windows AS q ON q.run_id = r.run_id
LEFT JOIN (
  -- a victim that was there in the window and outside it may have been hit on either side
  SELECT v.run_id,
    count(*) FILTER (v.preemptions > 0) AS all_victims,
    sum(v.preemptions) AS all_explained,
    count(*) FILTER (v.preemptions > 0 AND coalesce(p.is_there, true)) AS victims,
    CASE WHEN bool_and(v.preemptions = 0 OR p.is_within OR NOT p.is_there)
      THEN sum(v.preemptions) FILTER (coalesce(p.is_there, true)) END AS explained
  FROM raw.request_recompute AS v
  LEFT JOIN int_request_places AS p ON p.run_id = v.run_id AND p.request_id = v.request_id
  GROUP BY v.run_id
) AS v ON v.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, CASE WHEN count(window_growth) = count(*)
    THEN CAST(sum(window_growth) FILTER (metric = 'vllm:spec_decode_num_draft_tokens_total')
      - sum(window_growth) FILTER (metric = 'vllm:spec_decode_num_accepted_tokens_total') AS BIGINT) END AS rejected
  FROM int_counter_totals
  WHERE metric IN ('vllm:spec_decode_num_draft_tokens_total', 'vllm:spec_decode_num_accepted_tokens_total')
  GROUP BY run_id
) AS d ON d.run_id = r.run_id
