-- One row per run (or load session) and thing that a window which cuts the load leaves unknown, or
-- rests on: nothing for the window of the whole load.
-- Formula: fewer than ten requests are few, as for the gate (samples.FEWEST_GOOD).
WITH cut AS (
  SELECT * FROM int_windows WHERE NOT window_is_all() AND window_rule <> 'all'
), runs AS (
  SELECT w.* FROM int_run_windows AS w WHERE NOT window_is_all() AND w.window_rule <> 'all'
), logged AS (
  SELECT t.run_id, count(*) AS iterations,
    count(*) FILTER (step_is_inside(w.window_rule, t.logged_at_ns, w.from_ns, w.until_ns, w.first_ns, w.last_ns)) AS inside
  FROM raw.engine_steps AS t
  JOIN runs AS w ON w.run_id = t.run_id
  WHERE NOT t.dummy
  GROUP BY t.run_id
)
SELECT run_id, 'WINDOW001' AS code, 'warning' AS severity, 1 AS occurrences,
  concat('no instant places the load in time: what lies in the window `', asked_rule, '` is not known') AS text
FROM cut WHERE from_ns IS NULL
UNION ALL BY NAME
SELECT run_id, 'WINDOW001' AS code, 'warning' AS severity, 1 AS occurrences,
  concat('the window begins ', printf('%.6g', (from_ns - last_ns) / 1e9),
    ' s after the last instant that is known of the load: nothing was observed there, and its rates are not known') AS text
FROM cut WHERE NOT is_observed AND from_ns > last_ns
UNION ALL BY NAME
SELECT w.run_id, 'WINDOW001' AS code, 'warning' AS severity, 1 AS occurrences,
  concat('none of the ', t.iterations, ' iterations of the engine''s log lies in the window: step time, scheduled tokens ',
    'and the ledger of engine steps are not known there') AS text
FROM logged AS t
JOIN runs AS w ON w.run_id = t.run_id
WHERE t.inside = 0 AND t.run_id NOT IN (SELECT q.run_id FROM int_quiet_windows AS q)
  AND t.run_id NOT IN (SELECT n.run_id FROM int_short_windows AS n)
UNION ALL BY NAME
SELECT run_id, 'WINDOW006' AS code, 'warning' AS severity, undecided AS occurrences,
  concat('the window is shorter than the second that iterations are printed to, and touches the seconds of ', undecided,
    ': step time, scheduled tokens, idle time and the ledger of engine steps are not known there') AS text
FROM int_short_windows
UNION ALL BY NAME
SELECT run_id, 'WINDOW002' AS code, 'warning' AS severity, not_sent_unplaced AS occurrences,
  concat(not_sent_unplaced, ' requests that were never sent have no planned time: they are of the whole load, and of no ',
    'window that cuts it') AS text
FROM int_outcome_counts WHERE NOT window_is_all() AND not_sent_unplaced > 0
UNION ALL BY NAME
SELECT run_id, 'WINDOW002' AS code, 'warning' AS severity, greatest(unplaced, unplaced_ends) AS occurrences,
  concat(unplaced, ' sent requests have no send that is known well enough for this window, and ', unplaced_ends,
    ' that may be complete no such end: they may lie in it, and its figures are bounds') AS text
FROM int_outcome_counts WHERE NOT window_is_all() AND (unplaced > 0 OR unplaced_ends > 0)
UNION ALL BY NAME
SELECT c.run_id, 'WINDOW003' AS code, 'warning' AS severity, 1 AS occurrences,
  concat('the window `', w.asked_rule, '` holds ', c.planned, ' of the load''s ', c.of_load,
    ' requests: too few to tell its rates and shares from chance') AS text
FROM int_outcome_counts AS c
JOIN cut AS w ON w.run_id = c.run_id AND w.session IS NOT DISTINCT FROM c.session
WHERE w.is_observed AND c.unplaced = 0 AND c.planned < 10 AND c.planned < c.of_load
UNION ALL BY NAME
SELECT d.run_id, 'WINDOW004' AS code, CASE WHEN d.divided_ns * 20 > w.window_ns THEN 'warning' ELSE 'info' END AS severity,
  d.divided AS occurrences,
  concat(d.divided, ' iterations, of ', printf('%.3g', d.divided_ns / 1e9), ' s, were printed in the seconds that the ends of the ',
    'window divide: each is counted where the middle of its second lies') AS text
FROM int_divided_steps AS d
JOIN runs AS w ON w.run_id = d.run_id
WHERE d.run_id NOT IN (SELECT n.run_id FROM int_short_windows AS n)
UNION ALL BY NAME
SELECT w.run_id, 'WINDOW005' AS code, 'warning' AS severity, 1 AS occurrences,
  concat('the window ends ', printf('%.3g', (w.to_ns - w.last_ns) / 1e9), ' s after the load: its rates are over that time too',
    CASE WHEN b.run_id IS NOT NULL THEN concat('; no file tells of its last ', printf('%.3g', b.beyond_ns / 1e9), ' s') END) AS text
FROM int_windows AS w
LEFT JOIN int_beyond_record AS b ON b.run_id = w.run_id
WHERE NOT window_is_all() AND w.is_observed AND w.asked_rule = 'fixed' AND w.to_ns > w.last_ns
