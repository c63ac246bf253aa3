-- The rung of activity that a telemetry metric is a reading of; NULL for other metrics.
CREATE OR REPLACE MACRO telemetry_rung(metric) AS
  CASE WHEN metric IN ('engine_active', 'sm_active', 'tensor_active', 'dram_active', 'power', 'energy') THEN metric
    WHEN metric = 'gpu_util' THEN 'engine_active' WHEN metric IN ('power_average', 'power_instant') THEN 'power' END;
