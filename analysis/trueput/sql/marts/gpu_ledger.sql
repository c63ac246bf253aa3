-- One row per run, kind of work and outcome: each device-second of the window in exactly one cell.
-- With a profile the devices are GPUs and the time is their busy union, cut into exposed kinds; without
-- one the devices are engine ranks and the time is printed step time. Cells
-- sum exactly to window_ns x devices: work is shared over outcomes by tokens (int_outcome_weights)
-- in integers, the last nanoseconds going to the heaviest outcome.
-- Null rule: recompute that cannot be told is one row with NULL time; its time stays in prefill and
-- decode, and their low says so, or is unattributed with that of its step (int_gpu_recompute_untold).
WITH shared AS (
  SELECT
    k.run_id, k.work, k.window_ns, k.devices, k.time_ns, k.time_ns_low, k.time_ns_high,
    coalesce(o.outcome, CASE WHEN k.work IN ('idle', 'unattributed') THEN 'none' ELSE 'unknown' END) AS outcome,
    CAST(coalesce(o.weight, 1) AS HUGEINT) AS weight,
    CAST(coalesce(o.weight_low, 1) AS HUGEINT) AS weight_low,
    CAST(coalesce(o.weight_high, 1) AS HUGEINT) AS weight_high,
    CAST(sum(coalesce(o.weight, 1)) OVER (PARTITION BY k.run_id, k.work) AS HUGEINT) AS all_weight,
    row_number() OVER (PARTITION BY k.run_id, k.work ORDER BY o.weight DESC NULLS LAST, o.outcome) AS place
  FROM int_engine_work AS k
  LEFT JOIN int_outcome_weights AS o
    ON o.run_id = k.run_id AND o.work = k.work AND o.weight > 0 AND k.work NOT IN ('idle', 'unattributed')
  WHERE NOT (k.work = 'recompute' AND k.recompute_unknown)
), floored AS (
  SELECT *,
    time_ns * weight // all_weight AS cell_ns,
    time_ns_low * weight_low // all_weight AS cell_low,
    least(time_ns_high * weight_high // all_weight, time_ns_high) AS cell_high
  FROM shared
), whole AS (
  SELECT *,
    cell_ns + CASE WHEN place = 1 THEN time_ns - sum(cell_ns) OVER (PARTITION BY run_id, work) ELSE 0 END AS exact_ns
  FROM floored
)
SELECT
  g.run_id, g.work, g.outcome, g.time_ns,
  CASE WHEN u.is_open AND g.work IN ('prefill', 'decode') THEN 0 ELSE g.time_ns_low END AS time_ns_low,
  g.time_ns_high,
  ratio(g.time_ns, device_time(g.window_ns, g.devices)) AS share_ratio,
  g.window_ns, CAST(g.devices AS BIGINT) AS devices,
  -- a gap of a capture that hides or lost operations is unattributed: idle is only known to be at most its high
  CASE WHEN g.work = 'idle' AND g.time_ns_low < g.time_ns_high THEN 'bounded'
    WHEN g.work = 'idle' THEN 'measured' WHEN g.work = 'unattributed' THEN 'unknown'
    -- nothing of it is shown: only how much was lost at most
    WHEN g.time_ns = 0 AND p.run_id IS NOT NULL THEN 'bounded'
    -- whose it was is inferred; where nothing of that kind is said to be anyone's its time alone remains
    WHEN g.work IN ('communication', 'copy') AND g.outcome = 'unknown'
      AND count(*) OVER (PARTITION BY g.run_id, g.work) = 1
      -- seen as a whole, or so much of it that more, or less, may have been exposed
      THEN CASE WHEN g.time_ns_low = g.time_ns_high THEN 'measured' ELSE 'bounded' END
    ELSE 'inferred' END AS basis
FROM int_gpu_ledger AS g
LEFT JOIN int_gpu_recompute_untold AS u ON u.run_id = g.run_id
LEFT JOIN (SELECT DISTINCT h.run_id FROM int_gpu_hidden AS h WHERE h.is_partial) AS p ON p.run_id = g.run_id
LEFT JOIN int_gpu_ledger AS k ON k.run_id = g.run_id AND k.work = g.work AND k.outcome = 'unknown' AND k.time_ns > 0
WHERE g.time_ns > 0 OR g.work = 'idle'
  -- work that an annotation does not tell may be there
  OR (g.work IN ('prefill', 'decode') AND g.time_ns_high > 0) OR (g.work = 'recompute' AND g.time_ns_high > 0 AND u.run_id IS NULL)
  -- and so may any that the profile lost, but where it may as well be of the unknown outcome that is shown
  OR (p.run_id IS NOT NULL AND g.time_ns_high > 0 AND k.run_id IS NULL AND NOT (g.work = 'recompute' AND u.run_id IS NOT NULL))
UNION ALL
SELECT p.run_id, 'recompute', 'unknown', NULL, NULL, NULL, NULL, max(p.window_ns), CAST(max(p.devices) AS BIGINT), 'unknown'
FROM int_gpu_ledger AS p
JOIN int_gpu_recompute_untold AS u ON u.run_id = p.run_id
GROUP BY p.run_id
UNION ALL
SELECT
  run_id, work, outcome,
  CAST(exact_ns AS BIGINT) AS time_ns,
  CAST(least(cell_low, exact_ns) AS BIGINT) AS time_ns_low,
  CAST(greatest(cell_high, exact_ns) AS BIGINT) AS time_ns_high,
  ratio(exact_ns, device_time(window_ns, devices)) AS share_ratio,
  window_ns, devices,
  -- what a log does not tell of may be work, and iterations that overlap were busy for less than they print;
  -- where recompute is only bounded, so is what lies beside it in the same steps
  CASE WHEN work = 'idle' AND (run_id IN (SELECT c.run_id FROM int_log_cover AS c) OR run_id IN (SELECT o.run_id FROM int_overlaps AS o))
      THEN 'bounded'
    WHEN work = 'idle' THEN 'reported' WHEN work = 'unattributed' THEN 'unknown'
    WHEN run_id IN (SELECT x.run_id FROM int_recompute AS x WHERE x.basis = 'bounded') THEN 'bounded'
    ELSE 'inferred' END AS basis
FROM whole
WHERE (exact_ns > 0 OR work IN ('idle', 'recompute')) AND run_id NOT IN (SELECT run_id FROM int_gpu_ledger)
UNION ALL
SELECT run_id, work, 'unknown', NULL, NULL, NULL, NULL, window_ns, devices, 'unknown'
FROM int_engine_work
WHERE work = 'recompute' AND recompute_unknown AND run_id NOT IN (SELECT run_id FROM int_gpu_ledger)
