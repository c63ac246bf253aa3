-- One row per run, device and telemetry rung inside the window: mean of ratios and power, growth of
-- the energy counter (a counter that falls has restarted: its growth counts from there).
-- power is the average where the tool says which it prints; an instant reading stands in for it.
-- Null rule: a sample without a value or a device does not count; a device without one has no
-- row, nor has a counter that was read once, or whose readings have no instants to order them by.
WITH inside AS (
  SELECT s.run_id, s.device, s.at_ns, s.value, s.unit, s.kind,
    CASE s.metric WHEN 'gpu_util' THEN 'engine_active' WHEN 'power_average' THEN 'power'
      WHEN 'power_instant' THEN 'power' ELSE s.metric END AS metric,
    CASE s.metric WHEN 'gpu_util' THEN 2 WHEN 'power_average' THEN 2 WHEN 'power_instant' THEN 3 ELSE 1 END AS choice
  FROM raw.gpu_samples AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id
  WHERE s.value IS NOT NULL AND s.device IS NOT NULL
    AND s.metric IN ('gpu_util', 'engine_active', 'sm_active', 'tensor_active', 'dram_active', 'power',
      'power_average', 'power_instant', 'energy')
    AND coalesce(s.at_ns BETWEEN w.from_ns AND w.to_ns, w.window_rule = 'all')
), chosen AS (
  SELECT * FROM inside
  QUALIFY choice = min(choice) OVER (PARTITION BY run_id, device, metric)
), grown AS (
  SELECT *,
    CASE WHEN at_ns IS NOT NULL THEN value - lag(value) OVER (PARTITION BY run_id, device, metric ORDER BY at_ns NULLS LAST) END AS step
  FROM chosen
)
SELECT run_id, device, metric,
  CASE WHEN bool_and(kind = 'counter') THEN sum(CASE WHEN step >= 0 THEN step WHEN step < 0 THEN value END)
    ELSE avg(value) END AS value,
  any_value(unit) AS unit,
  any_value(kind) AS kind
FROM grown
GROUP BY run_id, device, metric
HAVING value IS NOT NULL
