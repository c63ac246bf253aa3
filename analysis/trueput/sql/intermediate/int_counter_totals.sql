-- One row per run and metric (histograms: their count and sum): growth over all engines and lives,
-- and, for a run that was scraped from its engine's start, the whole count.
-- window_growth is the growth in the run's window. With the rule `all` it is to the resolution of the
-- scrapes, as the load begins and ends between two of them. Null rule: NULL where the growth of one of
-- them is; with a window that cuts the load it is NULL where the counter grew between the scrapes on both sides of an end of the window.
SELECT
  run_id, metric, labels, kind,
  CASE WHEN count(growth) = count(*) THEN sum(growth) END AS growth,
  CASE WHEN coalesce(any_value(window_rule), 'all') = 'all' AND count(life_growth) = count(*) THEN sum(life_growth) END AS life_growth,
  CASE WHEN count(growth) = count(*) AND (coalesce(any_value(window_rule), 'all') = 'all' OR sum(growth_most) = sum(growth_least))
    THEN sum(growth_most) END AS window_growth,
  sum(growth_least) AS window_growth_least,
  sum(last_value) AS last_value,
  max(scrapes) AS scrapes
FROM int_counters
WHERE kind <> 'histogram_bucket'
GROUP BY run_id, metric, labels, kind
