-- One row per run: the idle time of its ledger, split by whether the engine held any request.
-- Formula: the window less the union of all requests' stays in the engine (arrival to end, other traffic
-- included) is time without work; idle up to that, over all devices, is queue_empty, the rest waited.
-- Null rule: a run whose requests have no instants leaves both parts NULL.
WITH stays AS (
  SELECT q.run_id,
    greatest(coalesce(q.e_arrived_at_ns, q.sent_at_ns), w.from_ns) AS start_ns,
    -- an abort is logged to the second: its request stays until the later of what both sides say
    -- (least and greatest skip what is not known)
    least(CASE WHEN q.e_finished THEN coalesce(q.e_ended_at_ns, q.ended_at_ns)
      ELSE greatest(q.e_ended_at_ns, q.ended_at_ns, q.sent_at_ns) END, w.to_ns) AS end_ns
  FROM int_ruled AS q
  JOIN int_run_windows AS w ON w.run_id = q.run_id
  WHERE coalesce(q.e_arrived_at_ns, q.sent_at_ns) IS NOT NULL AND w.from_ns IS NOT NULL
    -- where the engine's own record exists, what it never admitted was never in it
    AND (q.in_engine OR q.run_id NOT IN (SELECT e.run_id FROM int_engine_requests AS e))
), reached AS (
  SELECT run_id, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY run_id ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
  FROM stays WHERE end_ns > start_ns
), present AS (
  SELECT run_id, sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) AS present_ns
  FROM reached GROUP BY run_id
), idle AS (
  SELECT run_id, sum(time_ns) AS idle_ns, max(window_ns) AS window_ns, max(devices) AS devices
  FROM gpu_ledger WHERE work = 'idle' GROUP BY run_id
)
SELECT
  i.run_id,
  CAST(i.idle_ns AS BIGINT) AS idle_ns,
  CASE WHEN p.run_id IS NOT NULL THEN CAST(part_within(i.idle_ns, (i.window_ns - p.present_ns) * i.devices) AS BIGINT) END AS queue_empty_ns,
  CASE WHEN p.run_id IS NOT NULL
    THEN CAST(i.idle_ns - part_within(i.idle_ns, (i.window_ns - p.present_ns) * i.devices) AS BIGINT) END AS work_waiting_ns,
  CASE WHEN p.run_id IS NULL THEN 'unknown' ELSE 'inferred' END AS basis
FROM idle AS i
LEFT JOIN present AS p ON p.run_id = i.run_id
