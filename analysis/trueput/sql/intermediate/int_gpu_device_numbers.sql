-- One row per run and profiled device with the number by which people name it.
-- device: the ordinal where it is unique in the run, else a number in order of the device keys, so
-- that ranks that all call their device 0 stay apart.
-- device_ix: from 0 over all runs, for partitions of many rows: small whole numbers fall into different
-- ones, and the operations of one device, which mostly lie in order already, are then sorted alone.
WITH seen AS (
  SELECT run_id, device_key, min(device) AS ordinal FROM int_gpu_op_totals GROUP BY run_id, device_key
), ordinals AS (
  SELECT run_id, count(DISTINCT ordinal) = count(*) AS are_unique FROM seen GROUP BY run_id
)
SELECT s.run_id, s.device_key,
  CASE WHEN o.are_unique AND s.ordinal IS NOT NULL THEN s.ordinal
    ELSE row_number() OVER (PARTITION BY s.run_id ORDER BY s.device_key) - 1 END AS device,
  row_number() OVER (ORDER BY s.run_id, s.device_key) - 1 AS device_ix
FROM seen AS s
JOIN ordinals AS o ON o.run_id = s.run_id
