-- One row per run whose window is shorter than the second that its iterations are printed to, and
-- touches one in which some were printed: how much of them it holds is not known.
-- most_ns: the time of the window on all ranks, which no figure of its iterations exceeds.
SELECT t.run_id, count(*) AS iterations,
  count(*) FILTER (is_undecided(t.logged_at_ns, w.from_ns, w.until_ns)) AS undecided,
  device_time(any_value(w.window_ns), count(DISTINCT t.engine)) AS most_ns
FROM raw.engine_steps AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id
WHERE NOT window_is_all() AND w.window_rule <> 'all' AND w.until_ns - w.from_ns < 999999999 AND NOT t.dummy
GROUP BY t.run_id
-- a log with finer times places its iterations
HAVING bool_and(t.logged_at_ns % 1000000000 = 0) AND undecided > 0
