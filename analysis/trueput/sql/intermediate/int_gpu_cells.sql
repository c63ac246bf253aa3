-- One row per run, device, class of time, work and outcome: weights (ns, not yet whole numbers) by
-- which the class's exact time is shared out.
-- Compute of a step is divided by gpu_steps' ratios, each part over outcomes. Communication and
-- copies keep their name and go to the outcomes of their step. Compute launched outside every step is
-- `other`; compute whose launch or step is not known, and whole-graph spans, are unattributed.
WITH parts AS (
  SELECT g.run_id, g.device_key, g.class, g.gpu_step_ix, part.work AS of_work, g.time_ns,
    part.share, part.share_low, part.share_high
  FROM int_gpu_segments AS g
  JOIN raw.gpu_steps AS s ON s.run_id = g.run_id AND s.gpu_step_ix = g.gpu_step_ix,
  UNNEST([
    {'work': 'prefill', 'share': s.prefill_ratio, 'share_low': s.prefill_ratio_low, 'share_high': s.prefill_ratio_high},
    {'work': 'decode', 'share': s.decode_ratio, 'share_low': s.decode_ratio_low, 'share_high': s.decode_ratio_high},
    {'work': 'recompute', 'share': s.recompute_ratio, 'share_low': s.recompute_ratio_low, 'share_high': s.recompute_ratio_high}
  ]) AS u(part)
)
SELECT p.run_id, p.device_key, p.class,
  CASE WHEN p.class = 'compute' THEN p.of_work ELSE p.class END AS work,
  o.outcome,
  sum(p.time_ns * p.share * o.share) AS weight_ns,
  sum(p.time_ns * CASE WHEN p.class = 'compute' THEN p.share_low ELSE p.share END * o.share) AS weight_low_ns,
  sum(p.time_ns * CASE WHEN p.class = 'compute' THEN p.share_high ELSE p.share END * o.share) AS weight_high_ns
FROM parts AS p
JOIN int_gpu_step_outcomes AS o
  ON o.run_id = p.run_id AND o.gpu_step_ix = p.gpu_step_ix AND o.work = p.of_work
GROUP BY ALL
UNION ALL
SELECT run_id, device_key, class,
  CASE WHEN class = 'graph_span' OR (class = 'compute' AND gpu_step_ix = -1) THEN 'unattributed'
    WHEN class = 'compute' THEN 'other' ELSE class END,
  'unknown',
  CAST(time_ns AS DOUBLE), CAST(time_ns AS DOUBLE), CAST(time_ns AS DOUBLE)
FROM int_gpu_segments
WHERE gpu_step_ix < 0
