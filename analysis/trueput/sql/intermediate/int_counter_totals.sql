-- One row per run and metric (histograms: their count and sum): growth over all engines and lives,
-- and, for a run that was scraped from its engine's start, the whole count.
SELECT
  run_id, metric, labels, kind,
  sum(growth) AS growth,
  sum(last_value) AS last_value,
  max(scrapes) AS scrapes
FROM int_counters
WHERE kind <> 'histogram_bucket'
GROUP BY run_id, metric, labels, kind
