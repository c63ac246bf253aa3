-- One row per run and device: clock, power limit and slow-downs in the window, as telemetry shows them.
-- throttled_ratio: share of samples in which heat or a hardware brake slowed the device down
-- (NVML's hw_slowdown, sw_thermal_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown).
-- power_capped_ratio: share in which its power limit did, which heavy work alone can cause.
-- A sample tells of its moment: one alone in a window says nothing of the rest of it.
-- Null rule: a figure without a sample is NULL; so is a mean or a share of a single one in a window that has instants.
WITH inside AS (
  SELECT s.run_id, s.device, s.metric, s.value, CAST(s.value AS BIGINT) AS bits,
    CASE WHEN w.from_ns IS NULL THEN NULL ELSE s.at_ns END AS at_ns
  FROM raw.gpu_samples AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id
  WHERE s.value IS NOT NULL AND s.device IS NOT NULL
    AND (s.metric IN ('sm_clock', 'power_limit', 'throttle_reasons')
      OR (starts_with(s.metric, 'throttle_') AND NOT ends_with(s.metric, '_time')))
    AND coalesce(s.at_ns BETWEEN w.from_ns AND w.to_ns, w.window_rule = 'all')
), shares AS (
  SELECT run_id, device, metric, avg(value) AS mean_value,
    coalesce(min(at_ns) < max(at_ns), true) AS is_told,
    -- hw_slowdown 8, sw_thermal 32, hw_thermal 64, hw_power_brake 128
    avg(CASE WHEN metric = 'throttle_reasons' THEN CASE WHEN bits & 232 > 0 THEN 1 ELSE 0 END
      ELSE value END) AS slowed,
    avg(CASE WHEN metric = 'throttle_reasons' THEN CASE WHEN bits & 4 > 0 THEN 1 ELSE 0 END
      ELSE value END) AS capped
  FROM inside GROUP BY run_id, device, metric
)
SELECT run_id, device,
  max(mean_value) FILTER (metric = 'sm_clock' AND is_told) AS sm_clock_mhz_mean,
  max(mean_value) FILTER (metric = 'power_limit') AS power_limit_w_mean,
  max(slowed) FILTER (is_told AND metric IN ('throttle_reasons', 'throttle_hw_slowdown', 'throttle_sw_thermal_slowdown',
    'throttle_hw_thermal_slowdown', 'throttle_hw_power_brake_slowdown')) AS throttled_ratio,
  max(capped) FILTER (is_told AND metric IN ('throttle_reasons', 'throttle_sw_power_cap')) AS power_capped_ratio
FROM shares
GROUP BY run_id, device
