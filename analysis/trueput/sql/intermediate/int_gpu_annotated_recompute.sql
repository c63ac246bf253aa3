-- One row per run without any other evidence of recompute whose profile's step annotations show some: generation
-- tokens beyond what decoding needs (gpu_steps), in steps that lie in the window.
-- Each process of an engine annotates the steps that it shares with others, so that the least is that of
-- the process that shows most. Exact where every step of every process is known, all of them tell the same, and the
-- capture watched the whole window. Else steps that are not known may have computed more: no upper bound.
-- Null rule: no row where no step shows any and some are not known.
WITH steps AS (
  SELECT s.run_id, s.source_id, s.process_key, s.recomputed_tokens,
    coalesce(w.is_placed AND s.start_at_ns >= w.from_ns AND s.end_at_ns <= w.to_ns, false) AS is_within
  FROM raw.gpu_steps AS s
  JOIN int_gpu_windows AS w ON w.run_id = s.run_id
  LEFT JOIN raw.run_recompute AS t ON t.run_id = s.run_id
  WHERE coalesce(t.method, 'none') = 'none'
    AND coalesce(s.start_at_ns < w.to_ns AND s.end_at_ns > w.from_ns, true)
), processes AS (
  SELECT run_id, source_id, process_key,
    coalesce(sum(recomputed_tokens) FILTER (is_within), 0) AS again,
    count(*) AS steps, bool_and(recomputed_tokens IS NOT NULL AND is_within) AS is_known
  FROM steps GROUP BY run_id, source_id, process_key
), runs AS (
  SELECT p.run_id, CAST(max(p.again) AS BIGINT) AS again,
    bool_and(p.is_known) AND min(p.again) = max(p.again) AND min(p.steps) = max(p.steps) AS is_known
  FROM processes AS p GROUP BY p.run_id
), watched AS (
  SELECT d.run_id, bool_and(d.captured_from_ns <= w.from_ns AND d.captured_to_ns >= w.to_ns
      AND NOT (d.is_blind OR d.is_partial OR d.is_astray)) AS is_whole
  FROM int_gpu_devices AS d
  JOIN int_gpu_windows AS w ON w.run_id = d.run_id
  GROUP BY d.run_id
)
SELECT r.run_id, r.again AS recomputed_tokens_low,
  CASE WHEN r.is_known AND coalesce(d.is_whole, false) THEN r.again END AS recomputed_tokens_high
FROM runs AS r
LEFT JOIN watched AS d ON d.run_id = r.run_id
WHERE r.again > 0 OR (r.is_known AND coalesce(d.is_whole, false))
