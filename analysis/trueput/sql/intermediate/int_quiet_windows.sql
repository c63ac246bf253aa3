-- One row per run whose window cuts the load and holds no iteration, because its engines ran none: it
-- lies between two of each engine that follow each other without a hole in their numbers.
-- next_ns: time of the later ones, which may have begun in the window.
-- Null rule: where numbers are missing, or the log begins or ends there, no row: nothing is known; nor
-- where the window is a part of a second in which iterations were printed.
WITH placed AS (
  SELECT t.run_id, t.engine, t.incarnation, t.step_ix, t.covers_steps, t.elapsed_ns,
    CASE WHEN step_is_inside(w.window_rule, t.logged_at_ns, w.from_ns, w.until_ns, w.first_ns, w.last_ns) THEN 'inside'
      WHEN t.logged_at_ns < w.from_ns THEN 'before' WHEN t.logged_at_ns > w.until_ns - 1000000000 THEN 'after' END AS side
  FROM raw.engine_steps AS t
  JOIN int_run_windows AS w ON w.run_id = t.run_id
  WHERE NOT window_is_all() AND w.window_rule <> 'all' AND w.is_observed
    AND t.run_id NOT IN (SELECT n.run_id FROM int_short_windows AS n)
), lives AS (
  SELECT run_id, engine, incarnation,
    count(*) FILTER (side IS NULL OR side = 'inside') AS inside,
    max(step_ix) FILTER (side = 'before') AS before_ix,
    min(step_ix) FILTER (side = 'after') AS after_ix,
    arg_min(covers_steps, step_ix) FILTER (side = 'after') AS covers_steps,
    arg_min(elapsed_ns, step_ix) FILTER (side = 'after') AS next_ns
  FROM placed GROUP BY run_id, engine, incarnation
), engines AS (
  SELECT run_id, engine, sum(inside) AS inside, max(next_ns) FILTER (after_ix - before_ix <= greatest(covers_steps, 1)) AS next_ns
  FROM lives GROUP BY run_id, engine
)
SELECT run_id, CAST(sum(next_ns) AS BIGINT) AS next_ns
FROM engines
GROUP BY run_id
HAVING sum(inside) = 0 AND count(*) = count(next_ns)
