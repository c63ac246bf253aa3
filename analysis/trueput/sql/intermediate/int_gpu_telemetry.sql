-- One row per run, device and telemetry rung that tells of the window: mean of ratios and power over the
-- time that readings stand for (int_gpu_readings), growth of the energy counter; with bounds.
-- A reading counts as far as its time lies in the window. Where a part of it lies outside, of a share v of L ns with
-- p of them inside, at least v x L - (L - p) and at most v x L or p was inside; of power and energy nothing at least,
-- all of it at most. A device's row is printed behind those of others, so that its time may have ended earlier, by an
-- eighth of itself: the bounds hold both. Time of the window that no reading tells of may have been anything:
-- of power and energy the most is then not known.
-- basis: reported where bounds of a share are a fiftieth apart at most, or of power and energy no more than a
-- twentieth of the window is of readings that lie in it in part, or of none; else bounded. Null rule: no row where
-- that is more than half, as then next to nothing is known; nor for a counter that was read once.
-- gpu_util is printed in whole percent: its bounds hold what was rounded. Readings that have no place in the
-- window: int_gpu_unplaced_telemetry.
WITH placed AS (
  SELECT r.run_id, r.device, r.metric, r.choice, r.unit, r.kind, w.window_ns, r.reach_ns,
    CASE WHEN r.kind = 'counter' THEN ratio(r.value, r.reach_ns) ELSE r.value END AS level,
    not_negative(least(r.at_ns, w.to_ns) - greatest(r.at_ns - r.reach_ns, w.from_ns)) AS told_ns,
    r.at_ns - CASE WHEN r.kind = 'counter' THEN 0 ELSE r.reach_ns // 8 END AS early_at_ns,
    not_negative(least(early_at_ns, w.to_ns) - greatest(early_at_ns - r.reach_ns, w.from_ns)) AS early_told_ns
  FROM int_gpu_readings AS r
  JOIN int_run_windows AS w ON w.run_id = r.run_id
  WHERE r.reach_ns > 0 AND w.to_ns > w.from_ns
    AND r.at_ns > w.from_ns AND r.at_ns - r.reach_ns - r.reach_ns // 8 < w.to_ns
), chosen AS (
  SELECT *, least(told_ns, early_told_ns) AS least_ns, greatest(told_ns, early_told_ns) AS most_ns,
    CASE WHEN unit = 'ratio' AND choice = 2 THEN 0.005 ELSE 0 END AS rounding
  FROM placed
  WHERE told_ns > 0 OR early_told_ns > 0
  QUALIFY choice = min(choice) OVER (PARTITION BY run_id, device, metric)
), summed AS (
  -- amounts are value x ns
  SELECT run_id, device, metric, any_value(unit) AS unit, any_value(kind) AS kind, any_value(window_ns) AS window_ns,
    any_value(rounding) AS rounding, CAST(sum(CASE WHEN least_ns = reach_ns THEN 0 ELSE most_ns END) AS BIGINT) AS parted_ns,
    fsum(level * told_ns) AS amount, CAST(sum(told_ns) AS BIGINT) AS told_ns,
    CAST(least(sum(told_ns), sum(early_told_ns)) AS BIGINT) AS surely_told_ns,
    fsum(CASE WHEN least_ns = reach_ns THEN level * reach_ns
      WHEN unit = 'ratio' THEN greatest(0, level * reach_ns - (reach_ns - least_ns)) ELSE 0 END) AS amount_low,
    fsum(CASE WHEN unit = 'ratio' THEN least(most_ns, level * reach_ns) ELSE level * reach_ns END) AS amount_high
  FROM chosen GROUP BY run_id, device, metric
), bounds AS (
  SELECT run_id, device, metric, unit, kind, rounding,
    CASE WHEN kind = 'counter' THEN amount ELSE ratio(amount, told_ns) END AS mean,
    CASE WHEN kind = 'counter' THEN amount_low ELSE ratio(amount_low, window_ns) END AS low,
    CASE WHEN unit = 'ratio' THEN least(1, ratio(amount_high + (window_ns - surely_told_ns), window_ns))
      WHEN told_ns < window_ns THEN NULL
      WHEN kind = 'counter' THEN amount_high ELSE ratio(amount_high, window_ns) END AS high,
    CASE WHEN unit = 'ratio' THEN high - low
      ELSE ratio(parted_ns + (window_ns - told_ns), window_ns) END AS open_ratio
  FROM summed
)
SELECT run_id, device, metric, unit, kind,
  greatest(low, least(mean, coalesce(high, mean))) AS value,
  CASE WHEN low > rounding THEN low - rounding ELSE 0 END AS value_low,
  CASE WHEN unit = 'ratio' AND high > 1 - rounding THEN 1 ELSE high + rounding END AS value_high,
  CASE WHEN open_ratio <= CASE WHEN unit = 'ratio' THEN 0.02 ELSE 0.05 END THEN 'reported' ELSE 'bounded' END AS basis
FROM bounds
WHERE mean IS NOT NULL AND open_ratio <= 0.5
UNION ALL BY NAME
SELECT u.run_id, u.device, u.metric, u.unit, u.kind, u.value,
  CASE WHEN u.basis = 'reported' THEN u.value END AS value_low, CASE WHEN u.basis = 'reported' THEN u.value END AS value_high, u.basis
FROM int_gpu_unplaced_telemetry AS u
ANTI JOIN summed AS s ON s.run_id = u.run_id AND s.device = u.device AND s.metric = u.metric
