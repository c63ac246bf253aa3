-- One row per engine iteration, kind of work and outcome: the share of that work of the iteration
-- that went to requests of the outcome.
-- Why: a step serves several requests; where the replay tells which, its time follows them.
-- Formula: prefill by the request's prompt tokens spread evenly over its prefill iterations, decode
-- by sequences, recompute by recomputed tokens.
-- Null rule: an iteration whose requests are not known has no row.
WITH present AS (
  SELECT
    r.run_id, r.engine, r.incarnation, r.work, r.first_step_ix, r.last_step_ix,
    coalesce(o.outcome, 'unknown') AS outcome,
    CASE r.work
      WHEN 'prefill' THEN coalesce(ratio(o.prompt_tokens, r.last_step_ix - r.first_step_ix + 1), 1.0)
      WHEN 'recompute' THEN CAST(r.tokens AS DOUBLE)
      ELSE 1.0
    END AS weight
  FROM raw.request_steps AS r
  LEFT JOIN int_outcomes AS o ON o.run_id = r.run_id AND o.request_id = r.request_id
), weighed AS (
  SELECT t.run_id, t.engine, t.incarnation, t.step_ix, p.work, p.outcome, fsum(p.weight) AS weight
  FROM int_steps AS t
  JOIN present AS p
    ON p.run_id = t.run_id AND p.engine = t.engine AND p.incarnation = t.incarnation
    AND t.step_ix BETWEEN p.first_step_ix AND p.last_step_ix
  GROUP BY t.run_id, t.engine, t.incarnation, t.step_ix, p.work, p.outcome
)
SELECT *, ratio(weight, sum(weight) OVER (PARTITION BY run_id, engine, incarnation, step_ix, work)) AS share
FROM weighed
