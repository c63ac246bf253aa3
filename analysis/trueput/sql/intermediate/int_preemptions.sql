-- One row per run: how many preemptions its engine counted, best evidence first, in the run's window
-- and in all of its files; NULL where no counter, event or printed running count says so.
-- The rule `all` takes whole lives of the engine: those that served the load, with other traffic.
-- Formula: a running count that falls has restarted. A log's events are to the second: they count
-- where their second reaches into the window. A counter that covers a part of the run counts in a
-- window that it was scraped on both sides of. Null rule: a counter whose growth cannot be cut to the
-- window leaves it to events that name as many; else the window's count is NULL.
WITH said AS (
  SELECT e.run_id, e.at_ns, e.cumulative, coalesce(w.window_rule, 'all') AS window_rule,
    -- what has no place in a window that cuts the load cannot be counted in it
    coalesce(w.window_rule, 'all') <> 'all'
      AND (w.from_ns IS NULL OR e.at_ns IS NULL OR is_undecided(e.at_ns, w.from_ns, w.until_ns)) AS is_unplaced,
    CASE WHEN w.window_rule <> 'all'
      THEN w.from_ns IS NULL OR e.at_ns IS NULL OR step_is_inside(w.window_rule, e.at_ns, w.from_ns, w.until_ns, w.first_ns, w.last_ns)
      ELSE w.from_ns IS NULL OR e.at_ns IS NULL OR (
        e.at_ns <= w.to_ns
        AND e.at_ns + CASE WHEN e.at_ns % 1000000000 = 0 THEN 999999999 ELSE 0 END >= w.from_ns) END AS is_inside,
    e.cumulative - coalesce(lag(e.cumulative) OVER earlier, 0) AS more
  FROM raw.request_events AS e
  LEFT JOIN int_run_windows AS w ON w.run_id = e.run_id
  WHERE e.event = 'preempted'
  WINDOW earlier AS (PARTITION BY e.run_id ORDER BY e.at_ns, e.cumulative)
), lived AS (
  SELECT *, count(*) FILTER (more < 0) OVER (PARTITION BY run_id ORDER BY at_ns, cumulative) AS life FROM said
), printed AS (
  SELECT * REPLACE (is_inside OR (window_rule = 'all' AND bool_or(is_inside) OVER (PARTITION BY run_id, life)) AS is_inside)
  FROM lived
), told AS (
  SELECT run_id,
    CAST(sum(CASE WHEN NOT is_inside THEN 0 WHEN more >= 0 THEN more ELSE cumulative END) FILTER (cumulative IS NOT NULL) AS BIGINT)
      AS printed_inside,
    count(*) FILTER (is_inside) AS events_inside,
    bool_or(is_unplaced) AS is_unplaced
  FROM printed GROUP BY run_id
)
SELECT
  a.run_id,
  CASE
    WHEN a.is_in_part AND s.window_rule <> 'all' AND s.is_scraped THEN CAST(c.window_growth AS BIGINT)
    WHEN a.counted IS NULL THEN CASE WHEN NOT e.is_unplaced THEN coalesce(e.printed_inside, e.events_inside) END
    -- all lives served the load
    WHEN coalesce(s.window_rule, 'all') = 'all' AND (s.growth IS NULL OR c.window_growth = s.growth) THEN a.counted
    ELSE coalesce(CAST(c.window_growth AS BIGINT), CASE WHEN a.events = a.counted AND NOT e.is_unplaced THEN e.events_inside END)
    END AS preemptions,
  a.all_preemptions,
  CASE WHEN a.counted IS NOT NULL THEN 'counter' WHEN a.printed IS NOT NULL THEN 'printed count'
    WHEN a.events IS NOT NULL THEN 'events' END AS evidence
FROM int_all_preemptions AS a
LEFT JOIN (
  -- each engine's series is cut by itself
  SELECT run_id,
    CASE WHEN count(life_growth) = count(*) THEN sum(life_growth)
      WHEN count(window_growth) = count(*) THEN sum(window_growth) END AS window_growth
  FROM int_counter_totals
  WHERE metric = 'vllm:num_preemptions_total' GROUP BY run_id
) AS c ON c.run_id = a.run_id
LEFT JOIN (
  -- by how much it grew in all, and whether it was scraped on both sides of the window
  SELECT k.run_id, any_value(k.window_rule) AS window_rule,
    CASE WHEN count(k.growth) = count(*) THEN sum(k.growth) END AS growth,
    max(k.first_at_ns) <= any_value(w.from_ns) AND min(k.last_at_ns) >= any_value(w.to_ns) AS is_scraped
  FROM (
    SELECT run_id, any_value(window_rule) AS window_rule, min(first_at_ns) AS first_at_ns, max(last_at_ns) AS last_at_ns,
      CASE WHEN count(growth) = count(*) THEN sum(growth) END AS growth
    FROM int_counters WHERE metric = 'vllm:num_preemptions_total' GROUP BY run_id, engine, labels
  ) AS k
  LEFT JOIN int_run_windows AS w ON w.run_id = k.run_id
  GROUP BY k.run_id
) AS s ON s.run_id = a.run_id
LEFT JOIN told AS e ON e.run_id = a.run_id
