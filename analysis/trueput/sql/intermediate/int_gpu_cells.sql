-- One row per run, device, class of time, work and outcome: weights (ns, not yet whole numbers) by
-- which the class's exact time is shared out.
-- Compute of a step is divided by gpu_steps' ratios, each part over outcomes. Communication and
-- copies keep their name and go to the outcomes of their step (int_gpu_step_shares). Compute launched
-- outside every step is `other`, unless steps lack their annotation; that, compute whose launch or step is
-- not known, kernels without a class and whole-graph spans are unattributed. What such spans and kernels of a step hid may be any of its work:
-- that stands in the high of the work, and the low of unattributed leaves it out. Time of no known step may
-- be that of any work and outcome of the run, and of a span more of the communication and copies that are seen.
-- Every segment is in exactly one branch, whatever its step: with a row in gpu_steps, or without one;
-- further branches only widen low and high. What the ratios of a step leave over is unattributed.
WITH stepped AS (
  SELECT g.run_id, g.device_key, g.class, g.gpu_step_ix, CAST(g.time_ns AS DOUBLE) AS time_ns,
    g.class IN ('graph_span', 'unnamed') AS is_hidden
  FROM int_gpu_segments AS g
  SEMI JOIN raw.gpu_steps AS s ON s.run_id = g.run_id AND s.gpu_step_ix = g.gpu_step_ix
), loose AS (
  SELECT *, class = 'graph_span' OR is_open AS is_bounded
  FROM (
    SELECT g.run_id, g.device_key, g.class, CAST(g.time_ns AS DOUBLE) AS time_ns,
      g.class IN ('graph_span', 'unnamed') AS is_hidden,
      g.gpu_step_ix = -2 AND g.run_id NOT IN (SELECT u.run_id FROM int_gpu_unannotated AS u) AS is_outside,
      -- whether it may be that of a step whose annotation, or launch, is missing
      NOT (g.gpu_step_ix = -2 AND g.run_id NOT IN (SELECT u.run_id FROM int_gpu_unannotated AS u))
        AND g.run_id IN (SELECT s.run_id FROM raw.gpu_steps AS s) AS is_open
    FROM int_gpu_segments AS g
    ANTI JOIN raw.gpu_steps AS s ON s.run_id = g.run_id AND s.gpu_step_ix = g.gpu_step_ix
  )
), possible AS (
  -- the works and outcomes that time of no known step may have been; of a work that no step shows nobody knows whose
  SELECT DISTINCT run_id, work, outcome FROM int_gpu_step_shares WHERE work <> 'unattributed'
  UNION
  SELECT s.run_id, w.work, 'unknown'
  FROM (SELECT DISTINCT run_id FROM raw.gpu_steps) AS s
  CROSS JOIN (SELECT unnest(['prefill', 'decode', 'recompute']) AS work) AS w
  LEFT JOIN raw.run_recompute AS r ON r.run_id = s.run_id
  WHERE w.work <> 'recompute' OR coalesce(r.recomputed_tokens, r.recomputed_tokens_high, 1) > 0
)
SELECT g.run_id, g.device_key, g.class, p.work, p.outcome,
  fsum(CASE WHEN g.is_hidden THEN 0 ELSE g.time_ns * p.share END) AS weight_ns,
  fsum(CASE WHEN g.is_hidden THEN 0 ELSE g.time_ns * p.share_low END) AS weight_low_ns,
  fsum(g.time_ns * p.share_high) AS weight_high_ns
FROM stepped AS g
JOIN int_gpu_step_shares AS p ON p.run_id = g.run_id AND p.gpu_step_ix = g.gpu_step_ix
WHERE (g.class = 'compute' AND p.work <> 'any') OR (g.is_hidden AND p.work NOT IN ('any', 'unattributed'))
GROUP BY ALL
UNION ALL
SELECT g.run_id, g.device_key, g.class, k.work, p.outcome,
  fsum(CASE WHEN g.is_hidden THEN 0 ELSE g.time_ns * p.share END),
  fsum(CASE WHEN g.is_hidden THEN 0 ELSE g.time_ns * p.share_low END),
  fsum(g.time_ns * p.share_high)
FROM stepped AS g
JOIN (SELECT unnest(['communication', 'copy']) AS work) AS k ON k.work = g.class OR g.is_hidden
JOIN int_gpu_step_shares AS p ON p.run_id = g.run_id AND p.gpu_step_ix = g.gpu_step_ix AND p.work = 'any'
GROUP BY ALL
UNION ALL
SELECT run_id, device_key, class, 'unattributed', 'unknown', time_ns, 0, time_ns
FROM stepped WHERE is_hidden
UNION ALL
SELECT run_id, device_key, class,
  CASE WHEN class IN ('communication', 'copy') THEN class WHEN class = 'compute' AND is_outside THEN 'other' ELSE 'unattributed' END,
  'unknown', time_ns, CASE WHEN is_bounded THEN 0 ELSE time_ns END, time_ns
FROM loose
UNION ALL
SELECT g.run_id, g.device_key, g.class, p.work, p.outcome, 0.0, 0.0, g.time_ns
FROM loose AS g
JOIN possible AS p ON p.run_id = g.run_id AND p.work <> 'any'
WHERE g.is_open AND (g.class = 'compute' OR g.is_hidden)
UNION ALL
SELECT g.run_id, g.device_key, g.class, k.work, p.outcome, 0.0, 0.0, g.time_ns
FROM loose AS g
JOIN (SELECT unnest(['communication', 'copy']) AS work) AS k ON k.work = g.class OR g.is_hidden
JOIN possible AS p ON p.run_id = g.run_id AND p.work = 'any'
WHERE g.is_open
UNION ALL
SELECT g.run_id, g.device_key, g.class, k.work, 'unknown', 0.0, 0.0, g.time_ns
FROM loose AS g
CROSS JOIN (SELECT unnest(['communication', 'copy']) AS work) AS k
WHERE g.is_hidden
