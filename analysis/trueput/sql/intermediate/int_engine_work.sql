-- One row per run and kind of work on engine-step time, with what the window leaves over.
-- Formula: sums of int_steps; window x ranks minus all of it is idle, or unattributed where lines of
-- iterations are missing, or where the window lies beyond all that any file tells of or beyond the log's
-- lines while its requests were served; the seconds of the log's ends widen idle. A window in which
-- an engine ran nothing is idle. Where printed times exceed the window, the excess is taken from the largest,
-- then the next. Recompute is open where the run's recomputed tokens have no single value: what some
-- steps show stands as recompute, its high is the run's, and the lows of prefill and decode are 0.
-- Iterations that overlap (int_overlaps): idle is at most all but the in_flight-th part of printed time.
-- An iteration of two in flight took what its time exceeds that of the one before by, and both together the
-- time of the later: half of that (each stands in two such sums) is the least of one kind of work.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH sums AS (
  SELECT
    t.run_id,
    sum(t.prefill_ns) AS prefill, sum(t.decode_ns) AS decode, sum(t.recompute_ns) AS recompute,
    sum(t.unattributed_ns) AS unattributed,
    sum(CASE WHEN t.is_mixed THEN t.prefill_ns_low ELSE t.prefill_ns END) AS prefill_low,
    sum(CASE WHEN t.is_mixed THEN t.prefill_ns_high ELSE t.prefill_ns END) AS prefill_high,
    sum(CASE WHEN t.is_mixed THEN t.decode_ns_low ELSE t.decode_ns END) AS decode_low,
    sum(CASE WHEN t.is_mixed THEN t.decode_ns_high ELSE t.decode_ns END) AS decode_high,
    sum(CASE WHEN t.is_mixed THEN t.recompute_ns_low ELSE 0 END) AS recompute_low,
    sum(CASE WHEN t.is_mixed THEN t.recompute_ns_high ELSE 0 END) AS recompute_high
  FROM int_steps AS t
  WHERE t.elapsed_ns IS NOT NULL
  GROUP BY t.run_id
  UNION ALL
  SELECT run_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM int_quiet_windows
), leasts AS (
  SELECT run_id,
    sum(CASE WHEN is_mixed THEN prefill_ns_low WHEN kind = 'prefill' THEN least_ns ELSE 0 END) AS prefill_low,
    sum(CASE WHEN is_mixed THEN decode_ns_low WHEN kind = 'decode' THEN least_ns ELSE 0 END) AS decode_low
  FROM (
    SELECT *, CASE WHEN in_flight > 2 OR ahead IS DISTINCT FROM 1 THEN 0 WHEN kind = before_kind THEN elapsed_ns // 2
      ELSE not_negative(elapsed_ns - before_ns) // 2 END AS least_ns
    FROM (
      SELECT *, lag(kind) OVER life AS before_kind, lag(elapsed_ns) OVER life AS before_ns, step_ix - lag(step_ix) OVER life AS ahead
      FROM (
        SELECT t.*, o.in_flight,
          CASE WHEN t.is_mixed THEN 'mixed' WHEN t.prefill_ns > 0 THEN 'prefill' WHEN t.decode_ns > 0 THEN 'decode' ELSE 'none' END AS kind
        FROM int_steps AS t
        JOIN int_overlaps AS o ON o.run_id = t.run_id
        WHERE t.elapsed_ns IS NOT NULL
      )
      WINDOW life AS (PARTITION BY run_id, source_id, engine, incarnation ORDER BY step_ix)
    )
  )
  GROUP BY run_id
), lost AS (
  SELECT run_id, sum(span - seen) AS missing_steps
  FROM (
    SELECT run_id, engine, incarnation, max(step_ix) - min(step_ix) + 1 AS span, count(DISTINCT step_ix) AS seen
    FROM int_steps WHERE step_ix IS NOT NULL GROUP BY run_id, engine, incarnation
  ) GROUP BY run_id
), measured AS (
  SELECT
    s.* REPLACE (coalesce(v.prefill_low, s.prefill_low) AS prefill_low, coalesce(v.decode_low, s.decode_low) AS decode_low),
    w.window_ns, d.engine_ranks AS devices, coalesce(l.missing_steps, 0) AS missing_steps,
    s.prefill + s.decode + s.recompute + s.unattributed - device_time(w.window_ns, d.engine_ranks) AS excess,
    x.recomputed_tokens IS NULL AND q.run_id IS NULL AS is_open,
    coalesce(q.next_ns, 0) AS next_ns,
    coalesce(device_time(b.beyond_ns, d.engine_ranks), 0) + coalesce(device_time(c.unreached_ns, d.engine_ranks), 0) AS beyond_ns,
    -- what more of idle may have been work
    CASE WHEN c.is_anywhere THEN device_time(w.window_ns, d.engine_ranks)
      ELSE coalesce(device_time(c.unreached_ns_most - c.unreached_ns, d.engine_ranks), 0) END AS doubtful_ns,
    o.in_flight, coalesce(o.divided_ns, 0) AS divided_ns,
    x.recompute_ns_high AS run_recompute_high
  FROM sums AS s
  JOIN int_run_windows AS w ON w.run_id = s.run_id
  JOIN int_devices AS d ON d.run_id = s.run_id
  LEFT JOIN leasts AS v ON v.run_id = s.run_id
  LEFT JOIN int_overlaps AS o ON o.run_id = s.run_id
  LEFT JOIN lost AS l ON l.run_id = s.run_id
  LEFT JOIN int_recompute AS x ON x.run_id = s.run_id
  LEFT JOIN int_quiet_windows AS q ON q.run_id = s.run_id
  LEFT JOIN int_beyond_record AS b ON b.run_id = s.run_id
  LEFT JOIN int_log_cover AS c ON c.run_id = s.run_id
  WHERE w.window_ns > 0 AND is_storable(device_time(w.window_ns, d.engine_ranks))
), long AS (
  SELECT run_id, window_ns, devices, excess, is_open, is_open AND recompute = 0 AS recompute_unknown, unnest([
    {'work': 'prefill', 'ns': prefill, 'low': CASE WHEN is_open THEN 0 ELSE prefill_low END, 'high': prefill_high},
    {'work': 'decode', 'ns': decode, 'low': CASE WHEN is_open THEN 0 ELSE decode_low END, 'high': decode_high},
    {'work': 'recompute', 'ns': recompute, 'low': recompute_low,
      'high': CASE WHEN is_open
        THEN greatest(recompute_high, coalesce(run_recompute_high, prefill + decode + recompute))
        ELSE recompute_high END},
    {'work': 'unattributed', 'ns': unattributed + unseen_ns, 'low': CASE WHEN in_flight IS NULL THEN unattributed ELSE 0 END,
      'high': unattributed + CASE WHEN missing_steps > 0 THEN room_ns ELSE least(room_ns, unseen_ns + doubtful_ns) END},
    {'work': 'idle', 'ns': greatest(0, -excess) - unseen_ns,
      'low': greatest(0, greatest(0, -excess) - unseen_ns - doubtful_ns - next_ns - divided_ns), 'high': room_ns}
  ]) AS part
  FROM (
    -- what is left over, and may have been work
    SELECT *, CASE WHEN missing_steps > 0 THEN greatest(0, -excess) ELSE least(greatest(0, -excess), beyond_ns) END AS unseen_ns,
      CASE WHEN in_flight IS NULL THEN greatest(0, -excess)
        ELSE not_negative(device_time(window_ns, devices) - not_negative(prefill + decode + recompute + unattributed - divided_ns) // in_flight)
        END AS room_ns
    FROM measured
  )
), cut AS (
  SELECT *,
    part.ns - least(part.ns, greatest(0, excess - coalesce(sum(part.ns) OVER larger, 0))) AS left_ns
  FROM long
  WINDOW larger AS (PARTITION BY run_id ORDER BY part.ns DESC, part.work ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
  run_id, window_ns, devices, part.work AS work,
  CAST(left_ns AS HUGEINT) AS time_ns,
  CAST(least(part.low, left_ns) AS HUGEINT) AS time_ns_low,
  CAST(greatest(part.high, part.ns) AS HUGEINT) AS time_ns_high,
  greatest(0, excess) AS excess_ns,
  recompute_unknown
FROM cut
