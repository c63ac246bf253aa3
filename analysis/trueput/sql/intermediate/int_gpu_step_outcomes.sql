-- One row per GPU step, kind of work and outcome: the share of that work that went to the
-- outcome, with low and high; tokens is what was computed of it, NULL where the step's requests are not known.
-- Where the step was matched with an engine iteration whose requests are known, they decide; else, of
-- decoding, the requests in flight (int_gpu_decoding), and the run's own shares by tokens; without any
-- request the outcome is unknown. A step that is no iteration may have served any of the outcomes alone:
-- low and high say so.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH matched AS (
  SELECT s.run_id, s.gpu_step_ix, k.work, k.outcome, k.share, k.share_low, k.share_high, k.weight AS tokens
  FROM raw.gpu_steps AS s
  JOIN int_step_shares AS k
    ON k.run_id = s.run_id AND k.engine = s.engine AND k.incarnation = s.incarnation AND k.step_ix = s.step_ix
), works AS (
  SELECT unnest(['prefill', 'decode', 'recompute']) AS work
), general AS (
  SELECT run_id, work, outcome, ratio(weight, sum(weight) OVER part) AS share,
    least(1, ratio(weight_low, sum(weight) OVER part)) AS share_low,
    least(1, ratio(weight_high, sum(weight) OVER part)) AS share_high
  FROM int_outcome_weights WHERE weight_high > 0
  WINDOW part AS (PARTITION BY run_id, work)
)
SELECT run_id, gpu_step_ix, work, outcome, share, share_low, share_high, tokens FROM matched
UNION ALL
SELECT run_id, gpu_step_ix, 'decode', outcome, fsum(share), fsum(share_low), least(1, fsum(share_high)), NULL
FROM int_gpu_decoding
GROUP BY run_id, gpu_step_ix, outcome
UNION ALL
SELECT s.run_id, s.gpu_step_ix, w.work, coalesce(g.outcome, 'unknown'), coalesce(g.share, 1.0),
  CASE WHEN s.step_ix IS NULL AND g.share < 1 THEN 0 ELSE coalesce(g.share_low, 1.0) END,
  CASE WHEN s.step_ix IS NULL THEN 1 ELSE coalesce(g.share_high, 1.0) END, NULL
FROM raw.gpu_steps AS s
CROSS JOIN works AS w
ANTI JOIN matched AS m ON m.run_id = s.run_id AND m.gpu_step_ix = s.gpu_step_ix AND m.work = w.work
ANTI JOIN int_gpu_decoding AS d ON d.run_id = s.run_id AND d.gpu_step_ix = s.gpu_step_ix AND w.work = 'decode'
LEFT JOIN general AS g ON g.run_id = s.run_id AND g.work = w.work
