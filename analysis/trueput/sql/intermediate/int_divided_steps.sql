-- One row per run whose window cuts the load in the midst of iterations: those that an end of the
-- window may divide, since a log prints them to the second. No row for the window of the whole load.
-- divided_ns: their printed time on all ranks.
SELECT t.run_id, count(*) AS divided, CAST(sum(t.elapsed_ns) AS BIGINT) AS divided_ns
FROM raw.engine_steps AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id
WHERE NOT window_is_all() AND NOT t.dummy
  AND step_is_divided(w.window_rule, t.logged_at_ns, t.elapsed_ns, w.from_ns, w.until_ns, w.first_ns, w.last_ns)
GROUP BY t.run_id
