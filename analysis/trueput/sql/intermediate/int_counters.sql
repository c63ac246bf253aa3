-- One row per run, engine, life of the engine, metric and label set of a counter or histogram part:
-- how much it grew while it was scraped.
-- Formula: last minus first scrape; a counter that restarts begins a new life at 0.
-- Null rule: a series that was never scraped has no row; absence is not zero. What no counter can
-- have counted is NULL.
SELECT
  run_id, engine, incarnation, metric, labels, kind, le,
  min(at_ns) AS first_at_ns,
  max(at_ns) AS last_at_ns,
  exact_count(arg_min(value, at_ns)) AS first_value,
  exact_count(arg_max(value, at_ns)) AS last_value,
  exact_count(arg_max(value, at_ns)) - CASE WHEN incarnation > 0 THEN 0 ELSE exact_count(arg_min(value, at_ns)) END AS growth,
  count(*) AS scrapes
FROM raw.engine_samples
WHERE kind IN ('counter', 'histogram_bucket', 'histogram_sum', 'histogram_count')
GROUP BY run_id, engine, incarnation, metric, labels, kind, le
