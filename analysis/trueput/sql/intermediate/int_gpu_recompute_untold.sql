-- One row per profiled run with a ledger that may hold recompute of which no cell tells: its row is NULL.
-- Why: a log says what was computed again, a profile how long it took, and only steps that both show
-- join the two. Where they do not, no recompute in the ledger does not mean that there was none.
-- is_open: what the engine wrote leaves open how much the run computed again: prefill and decode may be it.
-- Told as none: a log, or an engine's counter, that says so; steps that are all known and had none; and
-- those that ran outside the window. A line is printed to the second, after its step: one whose step the
-- profile shows just before or after the window is not in it. Farther off, the clocks contradict each other.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH runs AS (
  SELECT p.run_id, w.from_ns, w.to_ns, x.run_id IS NOT NULL AS is_logged, x.recomputed_tokens
  FROM (SELECT DISTINCT run_id FROM int_gpu_ledger) AS p
  JOIN int_gpu_windows AS w ON w.run_id = p.run_id
  LEFT JOIN raw.run_recompute AS x ON x.run_id = p.run_id
  WHERE p.run_id NOT IN (SELECT c.run_id FROM int_gpu_ledger AS c WHERE c.work = 'recompute' AND c.time_ns > 0)
), profiled AS (
  SELECT s.run_id, s.engine, s.incarnation, s.step_ix, s.recomputed_tokens,
    coalesce(s.start_at_ns < r.to_ns AND s.end_at_ns > r.from_ns, true) AS is_inside,
    coalesce(s.start_at_ns < r.to_ns + 3000000000 AND s.end_at_ns > r.from_ns - 2000000000, true) AS is_near
  FROM raw.gpu_steps AS s
  JOIN runs AS r ON r.run_id = s.run_id
), told AS (
  -- steps whose recompute is known, and those that computed again and ran in the window
  SELECT run_id, count(recomputed_tokens) AS known, count(*) FILTER (recomputed_tokens > 0 AND is_inside) AS again
  FROM profiled GROUP BY run_id
), printed AS (
  -- iterations whose second touches the window and that computed again, without those whose steps the
  -- profile shows outside it
  SELECT t.run_id, count(*) AS again
  FROM raw.engine_steps AS t
  JOIN raw.step_work AS k
    ON k.run_id = t.run_id AND k.source_id = t.source_id AND k.engine = t.engine
    AND k.incarnation = t.incarnation AND k.step_ix = t.step_ix
  JOIN runs AS r ON r.run_id = t.run_id
  LEFT JOIN (
    SELECT run_id, engine, incarnation, step_ix FROM profiled WHERE step_ix IS NOT NULL
    GROUP BY ALL HAVING bool_and(is_near AND NOT is_inside)
  ) AS p
    ON p.run_id = t.run_id AND p.engine = t.engine AND p.incarnation = t.incarnation AND p.step_ix = t.step_ix
  WHERE NOT t.dummy AND k.recomputed_tokens > 0 AND p.run_id IS NULL
    AND step_is_inside('all', t.logged_at_ns, r.from_ns, r.to_ns, r.from_ns, r.to_ns)
  GROUP BY t.run_id
), by_iteration AS (
  SELECT DISTINCT run_id FROM raw.step_work WHERE recomputed_tokens > 0
)
SELECT r.run_id, r.is_logged AND r.recomputed_tokens IS NULL AS is_open
FROM runs AS r
LEFT JOIN told AS t ON t.run_id = r.run_id
LEFT JOIN printed AS p ON p.run_id = r.run_id
LEFT JOIN by_iteration AS i ON i.run_id = r.run_id
WHERE t.again > 0
  OR CASE WHEN NOT r.is_logged THEN coalesce(t.known, 0) = 0
    WHEN r.recomputed_tokens IS NULL THEN true
    ELSE p.again > 0 OR r.recomputed_tokens > 0 AND i.run_id IS NULL END
