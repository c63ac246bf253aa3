-- One row per time rung above what its window and devices can hold. Must be empty.
SELECT run_id, device, metric, value, rate
FROM gpu_activity
WHERE unit = 'ns' AND rate > 1.000001
