-- One row per reading of a telemetry rung that has an instant: the span of time that it stands for (reach_ns
-- before it), and what it tells of it.
-- A share or a power is of the time since the reading before: of its interval where the file tells
-- one, and of twice the usual spacing at most. The first of a device reaches back by the usual spacing; one that
-- is alone reaches nowhere. A counter's growth is of all the time since the reading before, and a
-- counter that falls has restarted: its growth counts from there.
-- Readings of one instant are one. Null rule: one without a value or a device does not count.
WITH readings AS (
  SELECT run_id, device, metric AS printed, at_ns, avg(value) AS value, any_value(unit) AS unit,
    any_value(kind) AS kind, max(interval_ns) AS interval_ns
  FROM raw.gpu_samples
  WHERE value IS NOT NULL AND device IS NOT NULL AND at_ns IS NOT NULL AND telemetry_rung(metric) IS NOT NULL
  GROUP BY run_id, device, printed, at_ns
), spaced AS (
  SELECT *, at_ns - lag(at_ns) OVER earlier AS spacing_ns,
    CASE WHEN kind = 'counter' THEN value - lag(value) OVER earlier END AS growth
  FROM readings
  WINDOW earlier AS (PARTITION BY run_id, device, printed ORDER BY at_ns)
), usual AS (
  SELECT run_id, device, printed, CAST(median(spacing_ns) AS BIGINT) AS usual_ns
  FROM spaced GROUP BY run_id, device, printed
)
SELECT s.run_id, s.device, telemetry_rung(s.printed) AS metric, telemetry_choice(s.printed) AS choice, s.unit, s.kind, s.at_ns,
  CASE WHEN s.kind <> 'counter' OR s.growth < 0 THEN s.value ELSE s.growth END AS value,
  CASE WHEN s.kind = 'counter' THEN s.spacing_ns
    WHEN s.spacing_ns IS NULL THEN coalesce(s.interval_ns, u.usual_ns)
    ELSE least(s.spacing_ns, coalesce(s.interval_ns, 2 * u.usual_ns)) END AS reach_ns
FROM spaced AS s
JOIN usual AS u ON u.run_id = s.run_id AND u.device = s.device AND u.printed = s.printed
