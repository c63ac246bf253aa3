-- One row per run, kind of work and outcome: the tokens by which that work is shared out.
-- Iteration lines carry no request ids, so a step's work is shared by what requests of each outcome
-- had computed over the run: uncached prompt tokens, decoded tokens, recomputed tokens.
WITH tokens AS (
  SELECT
    o.run_id,
    coalesce(o.outcome, 'unknown') AS outcome,
    sum(greatest(0, coalesce(o.prompt_tokens, 0) - coalesce(o.cached_prompt_tokens, 0))) AS prefill,
    sum(greatest(0, coalesce(o.output_tokens, 0) - 1)) AS decode,
    sum(coalesce(v.recomputed_tokens, 0)) AS recompute
  FROM request_outcomes AS o
  LEFT JOIN raw.request_recompute AS v ON v.run_id = o.run_id AND v.request_id = o.request_id
  WHERE o.engine_status IS NOT NULL OR o.output_tokens > 0
  GROUP BY o.run_id, coalesce(o.outcome, 'unknown')
)
SELECT run_id, 'prefill' AS work, outcome, prefill AS weight FROM tokens
UNION ALL
SELECT run_id, 'decode', outcome, decode FROM tokens
UNION ALL
-- where no victim is known, recompute is shared like decoding
SELECT t.run_id, 'recompute', t.outcome,
  CASE WHEN s.known > 0 THEN t.recompute ELSE t.decode END
FROM tokens AS t
JOIN (SELECT run_id, sum(recompute) AS known FROM tokens GROUP BY run_id) AS s ON s.run_id = t.run_id
