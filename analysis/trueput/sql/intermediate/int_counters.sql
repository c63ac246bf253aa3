-- One row per run, engine, life of the engine, metric and label set of a counter or histogram part:
-- how much it grew while it was scraped, and how much of that lies in the run's window.
-- A life may be scraped into several files, and files that number lives alike may be of several processes
-- (int_counting_lives). Formula: last minus first scrape; a counter that restarts begins a new life at 0. growth_least is
-- between scrapes inside the window, growth_most from the last scrape before it to the first after it;
-- NULL for a window before the first scrape or after the last one.
-- Null rule: a series that was never scraped has no row; absence is not zero. By how much one grew that
-- was scraped once is NULL, unless it is 0. What no counter can
-- have counted is NULL.
WITH series AS (
  SELECT
    e.run_id, e.engine, coalesce(f.life, e.incarnation) AS incarnation, e.metric, e.labels, e.kind, e.le,
    bool_or(coalesce(f.counts_from_zero, e.incarnation > 0)) AS counts_from_zero,
    any_value(w.window_rule) AS window_rule, any_value(w.from_ns) AS from_ns, any_value(w.to_ns) AS to_ns,
    min(e.at_ns) AS first_at_ns,
    max(e.at_ns) AS last_at_ns,
    exact_count(arg_min(e.value, e.at_ns)) AS first_value,
    exact_count(arg_max(e.value, e.at_ns)) AS last_value,
    exact_count(arg_max(e.value, e.at_ns) FILTER (e.at_ns <= w.from_ns)) AS before_value,
    exact_count(arg_min(e.value, e.at_ns) FILTER (e.at_ns >= w.from_ns)) AS inside_first_value,
    exact_count(arg_max(e.value, e.at_ns) FILTER (e.at_ns <= w.to_ns)) AS inside_last_value,
    exact_count(arg_min(e.value, e.at_ns) FILTER (e.at_ns >= w.to_ns)) AS after_value,
    count(*) AS scrapes
  FROM raw.engine_samples AS e
  LEFT JOIN int_run_windows AS w ON w.run_id = e.run_id
  LEFT JOIN int_counting_lives AS f
    ON f.run_id = e.run_id AND f.source_id = e.source_id AND f.engine = e.engine AND f.incarnation = e.incarnation
  WHERE e.kind IN ('counter', 'histogram_bucket', 'histogram_sum', 'histogram_count')
  GROUP BY e.run_id, e.engine, coalesce(f.life, e.incarnation), e.metric, e.labels, e.kind, e.le
), lives AS (
  SELECT *,
    CASE WHEN counts_from_zero OR last_value = 0 THEN 0 WHEN scrapes > 1 THEN first_value END AS base,
    -- a life begins between the last scrape of the one before and its own first
    CASE WHEN counts_from_zero
      THEN lag(last_at_ns) OVER (PARTITION BY run_id, engine, metric, labels, kind, le ORDER BY incarnation) END AS begun_after_ns,
    -- a window that cuts the load and holds no time between two scrapes of the series
    window_rule <> 'all' AND NOT (from_ns < max(last_at_ns) OVER whole AND to_ns > min(first_at_ns) OVER whole) AS is_unseen
  FROM series
  WINDOW whole AS (PARTITION BY run_id, engine, metric, labels, kind, le)
)
SELECT
  run_id, engine, incarnation, metric, labels, kind, le, window_rule,
  first_at_ns, last_at_ns, first_value, last_value,
  last_value - base AS growth,
  -- of the lives that served the load, where the window is all of it
  CASE WHEN base IS NULL OR from_ns IS NULL OR (last_at_ns >= from_ns AND coalesce(begun_after_ns, first_at_ns) < to_ns)
    THEN last_value - base ELSE 0 END AS life_growth,
  CASE WHEN from_ns IS NULL THEN CASE WHEN coalesce(window_rule, 'all') = 'all' THEN last_value - base END
    WHEN is_unseen OR base IS NULL THEN NULL
    WHEN begun_after_ns >= to_ns THEN 0
    ELSE greatest(coalesce(after_value, last_value) - coalesce(before_value, base), 0) END AS growth_most,
  CASE WHEN from_ns IS NULL THEN CASE WHEN coalesce(window_rule, 'all') = 'all' THEN last_value - base ELSE 0 END
    ELSE coalesce(greatest(inside_last_value
      - CASE WHEN begun_after_ns >= from_ns THEN base ELSE inside_first_value END, 0), 0) END AS growth_least,
  scrapes
FROM lives
