-- One row per request that has an id: whether it was in the engine or on its way in the run's window
-- (is_there), and nowhere else (is_within).
-- The rule `all` has room for all of its load. What is not known of a request leaves both open: it may
-- have been there, and elsewhere.
SELECT
  q.run_id, q.request_id,
  bool_or(w.from_ns IS NULL OR (w.window_rule = 'all' AND q.is_load) OR (
    coalesce(q.sent_at_ns <= w.to_ns, true)
    AND coalesce(greatest(q.ended_at_ns, q.e_ended_at_ns) >= w.from_ns, true))) AS is_there,
  bool_and(w.from_ns IS NULL OR (w.window_rule = 'all' AND q.is_load) OR coalesce(
    q.sent_at_ns >= w.from_ns AND greatest(q.ended_at_ns, q.e_ended_at_ns) <= w.to_ns, false)) AS is_within
FROM int_ruled AS q
JOIN int_run_windows AS w ON w.run_id = q.run_id
WHERE q.request_id IS NOT NULL
GROUP BY q.run_id, q.request_id
