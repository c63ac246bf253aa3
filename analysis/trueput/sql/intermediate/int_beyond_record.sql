-- One row per run whose window reaches beyond the last instant that any of its files tells of: what
-- lies there was not observed, and is neither idle nor without requests.
-- last_known_ns: the last instant of a request, an iteration, a scrape, an event or a profile; a line
-- that is printed to the second tells of that second. beyond_ns: the time of the window after it.
-- Null rule: no row for the window of the whole load.
WITH told AS (
  SELECT run_id, max(last_ns) AS at_ns FROM int_windows GROUP BY run_id
  UNION ALL
  SELECT run_id, max(greatest(sent_at_ns, ended_at_ns, e_ended_at_ns)) FROM int_ruled GROUP BY run_id
  UNION ALL
  SELECT run_id, max(logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 999999999 ELSE 0 END)
  FROM raw.engine_steps GROUP BY run_id
  UNION ALL
  SELECT run_id, max(at_ns) FROM raw.engine_samples GROUP BY run_id
  UNION ALL
  SELECT run_id, max(at_ns) FROM raw.request_events GROUP BY run_id
  UNION ALL
  SELECT run_id, max(last_at_ns) FROM int_gpu_op_totals GROUP BY run_id
)
SELECT w.run_id, max(t.at_ns) AS last_known_ns,
  any_value(w.to_ns) - greatest(max(t.at_ns), any_value(w.from_ns)) AS beyond_ns
FROM int_run_windows AS w
JOIN told AS t ON t.run_id = w.run_id
WHERE NOT window_is_all() AND w.asked_rule = 'fixed'
GROUP BY w.run_id
HAVING max(t.at_ns) < any_value(w.to_ns)
