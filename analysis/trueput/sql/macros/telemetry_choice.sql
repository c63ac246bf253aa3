-- Which of the metrics that are readings of one rung is looked at, 1 the best: power is the average where
-- the tool says which it prints; an instant reading stands in for it.
CREATE OR REPLACE MACRO telemetry_choice(metric) AS
  CASE WHEN metric IN ('gpu_util', 'power_average') THEN 2 WHEN metric = 'power_instant' THEN 3 ELSE 1 END;
