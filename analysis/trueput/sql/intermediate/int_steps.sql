-- One row per engine iteration in the run's window, with its time by work.
-- A step's line is printed after it, to the second: step_is_inside says which steps that makes the
-- window's; of a window shorter than that second none is known to be.
-- Formula: the split of step_work where the step did several kinds of work; else all its time is
-- prefill's (no generation requests) or decode's.
SELECT
  t.run_id, t.source_id, t.engine, t.incarnation, t.step_ix, t.logged_at_ns, t.elapsed_ns,
  t.context_requests, t.context_tokens, t.generation_requests, t.generation_tokens,
  t.kv_used_ratio, t.running, t.waiting, t.covers_steps,
  coalesce(k.recomputed_tokens, 0) AS recomputed_tokens,
  CASE WHEN k.run_id IS NOT NULL THEN k.prefill_ns
    WHEN coalesce(t.generation_requests, 0) = 0 AND t.context_tokens > 0 THEN t.elapsed_ns ELSE 0 END AS prefill_ns,
  CASE WHEN k.run_id IS NOT NULL THEN k.decode_ns
    WHEN coalesce(t.generation_requests, 0) > 0 THEN t.elapsed_ns ELSE 0 END AS decode_ns,
  CASE WHEN k.run_id IS NOT NULL THEN k.recompute_ns ELSE 0 END AS recompute_ns,
  CASE WHEN k.run_id IS NULL AND coalesce(t.generation_requests, 0) = 0 AND coalesce(t.context_tokens, 0) = 0
    THEN t.elapsed_ns ELSE 0 END AS unattributed_ns,
  k.run_id IS NOT NULL AS is_mixed,
  k.prefill_ns_low, k.prefill_ns_high, k.decode_ns_low, k.decode_ns_high,
  k.recompute_ns_low, k.recompute_ns_high
FROM raw.engine_steps AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id
LEFT JOIN raw.step_work AS k
  ON k.run_id = t.run_id AND k.source_id = t.source_id AND k.engine = t.engine
  AND k.incarnation = t.incarnation AND k.step_ix = t.step_ix
WHERE NOT t.dummy
  AND step_is_inside(w.window_rule, t.logged_at_ns, w.from_ns, w.until_ns, w.first_ns, w.last_ns)
  AND (window_is_all() OR t.run_id NOT IN (SELECT n.run_id FROM int_short_windows AS n))
