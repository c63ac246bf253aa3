-- One row per GPU step, kind of work and outcome: the share of the step's computing that was this work for
-- requests of the outcome, with low and high; work `any` is all of it together.
-- Formula: gpu_steps' ratios times the outcome's share of that work. What the ratios leave over is
-- unattributed. Of `any`, an outcome has at least what the others cannot have, and at most what they
-- need not have: the bounds of the ratios and of the outcomes both count. That it goes by computing, not by
-- tokens, is a convention: low and high hold the outcome's share of the step's tokens, too.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH parts AS (
  SELECT s.run_id, s.gpu_step_ix, part.work AS work, part.share, part.share_low, part.share_high
  FROM raw.gpu_steps AS s,
  UNNEST([
    {'work': 'prefill', 'share': s.prefill_ratio, 'share_low': s.prefill_ratio_low, 'share_high': s.prefill_ratio_high},
    {'work': 'decode', 'share': s.decode_ratio, 'share_low': s.decode_ratio_low, 'share_high': s.decode_ratio_high},
    {'work': 'recompute', 'share': s.recompute_ratio, 'share_low': s.recompute_ratio_low, 'share_high': s.recompute_ratio_high},
    {'work': 'unattributed', 'share': 1 - s.prefill_ratio - s.decode_ratio - s.recompute_ratio, 'share_low': 0.0,
      'share_high': 1 - s.prefill_ratio - s.decode_ratio - s.recompute_ratio}
  ]) AS u(part)
  -- ratios are kept to a billionth
  WHERE greatest(part.share, part.share_high) > CASE WHEN part.work = 'unattributed' THEN 1e-9 ELSE 0 END
), shared AS (
  SELECT p.run_id, p.gpu_step_ix, p.work, coalesce(o.outcome, 'unknown') AS outcome,
    p.share * coalesce(o.share, 1.0) AS share,
    p.share_low * coalesce(o.share_low, 1.0) AS share_low,
    p.share_high * coalesce(o.share_high, 1.0) AS share_high,
    o.tokens
  FROM parts AS p
  LEFT JOIN int_gpu_step_outcomes AS o
    ON o.run_id = p.run_id AND o.gpu_step_ix = p.gpu_step_ix AND o.work = p.work
), whole AS (
  SELECT run_id, gpu_step_ix, outcome, fsum(share) AS share, fsum(share_low) AS low, least(1, fsum(share_high)) AS high,
    fsum(tokens) AS tokens
  FROM shared GROUP BY run_id, gpu_step_ix, outcome
), weighed AS (
  SELECT *, sum(low) OVER step - low AS others_low, sum(high) OVER step - high AS others_high,
    ratio(tokens, sum(tokens) OVER step) AS by_tokens
  FROM whole WINDOW step AS (PARTITION BY run_id, gpu_step_ix)
)
SELECT run_id, gpu_step_ix, work, outcome, share, share_low, share_high FROM shared
UNION ALL
SELECT run_id, gpu_step_ix, 'any', outcome, share,
  least(share, by_tokens, greatest(low, 1 - others_high)),
  greatest(share, by_tokens, least(high, 1 - others_low))
FROM weighed
