-- One row per run, device, class of time, work and outcome: weights (ns, not yet whole numbers) by
-- which the class's exact time is shared out.
-- Compute of a step is divided by gpu_steps' ratios, each part over outcomes. Communication and
-- copies keep their name and go to the outcomes of their step. Compute launched outside every step is
-- `other`; compute whose launch or step is not known, and whole-graph spans, are unattributed.
-- Every segment is in exactly one branch, whatever its step: with a row in gpu_steps, or without one.
-- What the ratios of a step leave over is unattributed.
WITH parts AS (
  SELECT g.run_id, g.device_key, g.class, g.gpu_step_ix, part.work AS of_work, g.time_ns,
    part.share, part.share_low, part.share_high
  FROM int_gpu_segments AS g
  JOIN raw.gpu_steps AS s ON s.run_id = g.run_id AND s.gpu_step_ix = g.gpu_step_ix,
  UNNEST([
    {'work': 'prefill', 'share': s.prefill_ratio, 'share_low': s.prefill_ratio_low, 'share_high': s.prefill_ratio_high},
    {'work': 'decode', 'share': s.decode_ratio, 'share_low': s.decode_ratio_low, 'share_high': s.decode_ratio_high},
    {'work': 'recompute', 'share': s.recompute_ratio, 'share_low': s.recompute_ratio_low, 'share_high': s.recompute_ratio_high},
    {'work': 'unattributed', 'share': 1 - s.prefill_ratio - s.decode_ratio - s.recompute_ratio, 'share_low': 0.0,
      'share_high': 1 - s.prefill_ratio - s.decode_ratio - s.recompute_ratio}
  ]) AS u(part)
  -- ratios are kept to a billionth
  WHERE part.work <> 'unattributed' OR part.share > 1e-9
)
SELECT p.run_id, p.device_key, p.class,
  CASE WHEN p.class = 'compute' THEN p.of_work ELSE p.class END AS work,
  coalesce(o.outcome, 'unknown') AS outcome,
  fsum(p.time_ns * p.share * coalesce(o.share, 1.0)) AS weight_ns,
  fsum(p.time_ns * CASE WHEN p.class = 'compute' THEN p.share_low ELSE p.share END * coalesce(o.share_low, 1.0)) AS weight_low_ns,
  fsum(p.time_ns * CASE WHEN p.class = 'compute' THEN p.share_high ELSE p.share END * coalesce(o.share_high, 1.0)) AS weight_high_ns
FROM parts AS p
LEFT JOIN int_gpu_step_outcomes AS o
  ON o.run_id = p.run_id AND o.gpu_step_ix = p.gpu_step_ix AND o.work = p.of_work
GROUP BY ALL
UNION ALL
SELECT g.run_id, g.device_key, g.class,
  CASE WHEN g.class IN ('communication', 'copy') THEN g.class
    WHEN g.class = 'compute' AND g.gpu_step_ix = -2 THEN 'other' ELSE 'unattributed' END,
  'unknown',
  CAST(g.time_ns AS DOUBLE), CAST(g.time_ns AS DOUBLE), CAST(g.time_ns AS DOUBLE)
FROM int_gpu_segments AS g
ANTI JOIN raw.gpu_steps AS s ON s.run_id = g.run_id AND s.gpu_step_ix = g.gpu_step_ix
