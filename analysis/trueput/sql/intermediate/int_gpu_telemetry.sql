-- One row per run, device and telemetry rung inside the window: mean of ratios and power, growth of
-- the energy counter.
-- Null rule: a sample without a value does not count; a device without a sample has no row.
SELECT
  s.run_id, coalesce(s.device, 0) AS device,
  CASE s.metric WHEN 'gpu_util' THEN 'engine_active' ELSE s.metric END AS metric,
  CASE WHEN s.kind = 'counter' THEN max(s.value) - min(s.value) ELSE avg(s.value) END AS value,
  any_value(s.unit) AS unit,
  s.kind
FROM raw.gpu_samples AS s
JOIN int_run_windows AS w ON w.run_id = s.run_id
WHERE s.value IS NOT NULL
  AND s.metric IN ('gpu_util', 'engine_active', 'sm_active', 'tensor_active', 'dram_active', 'power', 'energy')
  AND (s.at_ns IS NULL OR w.from_ns IS NULL OR s.at_ns BETWEEN w.from_ns AND w.to_ns)
GROUP BY s.run_id, coalesce(s.device, 0), s.metric, s.kind
