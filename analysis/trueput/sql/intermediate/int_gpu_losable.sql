-- One row per run whose captures lost operations, kind of work and outcome: work that its requests had,
-- and that may be among what was lost, whether or not any of it is shown.
-- Why: where all steps of a kind are lost no operation tells of it, and no row would read as none.
-- Formula: prefill and decode of each outcome that requests had computed (int_outcome_weights), and what
-- steps communicate and copy with them; recompute where the engine's record says that there was some.
-- Does not count: works of runs of which no request is known.
WITH lost AS (
  SELECT DISTINCT run_id FROM int_gpu_hidden WHERE is_partial
), computed AS (
  SELECT w.run_id, w.work, w.outcome
  FROM int_outcome_weights AS w
  JOIN lost AS l ON l.run_id = w.run_id
  LEFT JOIN raw.run_recompute AS r ON r.run_id = w.run_id
  WHERE w.weight_high > 0 AND (w.work IN ('prefill', 'decode') OR (w.work = 'recompute' AND r.recomputed_tokens > 0))
)
SELECT run_id, work, outcome FROM computed
UNION
SELECT c.run_id, k.work, c.outcome
FROM computed AS c
CROSS JOIN (SELECT unnest(['communication', 'copy']) AS work) AS k
