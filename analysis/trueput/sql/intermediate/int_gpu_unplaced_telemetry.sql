-- One row per run, device and telemetry rung of readings that have no place in the window, where that is the
-- whole load: mean of ratios and power, growth of the energy counter.
-- All readings where the window has no instants, else those that have none. Nothing says that they are of the
-- load: inferred. Without a load they are of their own time: reported.
-- Null rule: no row for a counter that was read once, or whose readings have no instants to order them by.
WITH chosen AS (
  SELECT s.run_id, s.device, telemetry_rung(s.metric) AS metric, s.at_ns, s.value, s.unit, s.kind, w.window_ns
  FROM raw.gpu_samples AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id AND w.window_rule = 'all'
  WHERE s.value IS NOT NULL AND s.device IS NOT NULL AND telemetry_rung(s.metric) IS NOT NULL
    AND (w.from_ns IS NULL OR s.at_ns IS NULL)
  QUALIFY telemetry_choice(s.metric) = min(telemetry_choice(s.metric)) OVER (PARTITION BY s.run_id, s.device, telemetry_rung(s.metric))
), grown AS (
  SELECT *, CASE WHEN at_ns IS NOT NULL
      THEN value - lag(value) OVER (PARTITION BY run_id, device, metric ORDER BY at_ns NULLS LAST) END AS growth
  FROM chosen
)
SELECT run_id, device, metric, any_value(unit) AS unit, any_value(kind) AS kind,
  CASE WHEN bool_and(kind = 'counter') THEN sum(CASE WHEN growth >= 0 THEN growth WHEN growth < 0 THEN value END)
    ELSE avg(value) END AS value,
  CASE WHEN any_value(window_ns) IS NULL THEN 'reported' ELSE 'inferred' END AS basis
FROM grown
GROUP BY run_id, device, metric
HAVING value IS NOT NULL
