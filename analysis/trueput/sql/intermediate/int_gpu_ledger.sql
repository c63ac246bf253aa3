-- One row per run, work and outcome of profiled GPU time, over all its devices, in exact ns.
-- Formula: each device and class of time has an exact length; its cells are rounded down and the
-- heaviest takes the rest, so that the cells of a device sum to the window. Time of a class that no
-- work was found for is unattributed: no time leaves with a join.
-- Gaps inside the capture are idle; outside it, where graph launches hide their kernels, or where
-- operations were lost, nothing is known: unattributed, and idle's high says how much of it
-- may be idle; inside whole-graph spans as well. Of a device whose clock is not that of the run nothing is known of the window: low is 0 and
-- high the window in each of its cells; of one whose capture shows nothing of the window idle may be all of it.
-- Where the end of a load that was given up is open by more than a hundredth of the window, so much of idle may be unattributed, or the reverse.
-- Where a few were lost, idle's low leaves out the gaps in which they may have run.
-- So it does with gaps while the profiler did work of its own: it may have kept work from the device.
-- What ran in such gaps may be of any work: the high of each cell of work holds them. Where copies were not recorded
-- any gap may be a copy: idle's low is 0, and the high of copies that others recorded holds the gaps.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH classes AS (
  SELECT run_id, device_key, class, CAST(sum(time_ns) AS BIGINT) AS class_ns
  FROM int_gpu_segments GROUP BY run_id, device_key, class
), weighed AS (
  SELECT run_id, device_key, class, work, outcome, fsum(weight_ns) AS w, fsum(weight_low_ns) AS w_low,
    fsum(weight_high_ns) AS w_high
  FROM int_gpu_cells GROUP BY run_id, device_key, class, work, outcome
), shared AS (
  SELECT c.run_id, c.device_key, c.class, coalesce(w.work, 'unattributed') AS work,
    coalesce(w.outcome, 'unknown') AS outcome, c.class_ns,
    whole_below(coalesce(c.class_ns * ratio(w.w, sum(w.w) OVER part), 0)) AS cell_ns,
    whole_below(coalesce(w.w_low, 0)) AS low_ns,
    whole_above(coalesce(w.w_high, 0)) AS high_ns,
    row_number() OVER (
      PARTITION BY c.run_id, c.device_key, c.class ORDER BY w.w DESC NULLS LAST, w.work, w.outcome) AS place
  FROM classes AS c
  LEFT JOIN weighed AS w ON w.run_id = c.run_id AND w.device_key = c.device_key AND w.class = c.class
  WINDOW part AS (PARTITION BY c.run_id, c.device_key, c.class)
), exact AS (
  SELECT run_id, device_key, work, outcome, low_ns, high_ns,
    cell_ns + CASE WHEN place = 1 THEN class_ns - sum(cell_ns) OVER (PARTITION BY run_id, device_key, class)
      ELSE 0 END AS time_ns
  FROM shared
), gaps AS (
  SELECT d.run_id, d.device_key, w.window_ns,
    not_negative(least(w.to_ns, d.captured_to_ns) - greatest(w.from_ns, d.captured_from_ns)) AS captured_ns,
    coalesce(b.busy_ns, 0) AS busy_ns, coalesce(b.span_ns, 0) AS span_ns, d.is_blind OR d.is_partial OR d.is_astray AS is_blind,
    d.is_astray, d.is_partial, CASE WHEN r.open_end_ns * 100 > w.window_ns THEN r.open_end_ns ELSE 0 END AS open_ns,
    d.unseen_ns AS lost_ns, d.unseen_ns + coalesce(v.idle_ns, 0) AS unseen_ns, d.lacks_copies,
    -- how much of the gaps may have been work of any kind
    least(not_negative(not_negative(least(w.to_ns, d.captured_to_ns) - greatest(w.from_ns, d.captured_from_ns)) - coalesce(b.busy_ns, 0)),
      CASE WHEN d.is_partial OR d.is_blind AND NOT d.has_spans THEN w.window_ns ELSE d.unseen_ns END) AS hidden_ns
  FROM int_gpu_devices AS d
  JOIN int_gpu_windows AS w ON w.run_id = d.run_id
  LEFT JOIN int_run_windows AS r ON r.run_id = d.run_id
  LEFT JOIN int_gpu_overheads AS v ON v.run_id = d.run_id AND v.device_key = d.device_key
  LEFT JOIN (
    SELECT run_id, device_key, sum(time_ns) AS busy_ns, sum(time_ns) FILTER (class = 'graph_span') AS span_ns
    FROM int_gpu_segments GROUP BY run_id, device_key
  ) AS b
    ON b.run_id = d.run_id AND b.device_key = d.device_key
), unseen AS (
  -- GPUs of the run that no profile shows
  SELECT d.run_id, device_time(w.window_ns, d.gpu_count - p.profiled) AS time_ns
  FROM int_devices AS d
  JOIN (SELECT run_id, count(*) AS profiled FROM int_gpu_devices GROUP BY run_id) AS p ON p.run_id = d.run_id
  JOIN int_gpu_windows AS w ON w.run_id = d.run_id
  WHERE d.gpu_count > p.profiled
), cells AS (
  SELECT x.run_id, x.work, x.outcome, x.time_ns,
    -- a kernel that was lost may have covered what communicates or copies
    CASE WHEN d.is_astray OR ((d.is_partial OR d.lost_ns > 0) AND x.work IN ('communication', 'copy')) THEN 0 ELSE least(x.low_ns, x.time_ns) END AS low_ns,
    CASE WHEN d.is_astray THEN d.window_ns ELSE greatest(x.high_ns, x.time_ns) END AS high_ns
  FROM exact AS x
  JOIN gaps AS d ON d.run_id = x.run_id AND d.device_key = x.device_key
  UNION ALL
  -- what ran in such gaps: any work that the run is known to have had, whichever device shows it
  SELECT x.run_id, x.work, x.outcome, 0, 0, d.hidden_ns
  FROM (
    SELECT run_id, work, outcome, device_key FROM exact WHERE work <> 'unattributed'
    UNION
    SELECT p.run_id, p.work, p.outcome, h.device_key
    FROM (
      SELECT run_id, work, outcome FROM exact WHERE work <> 'unattributed'
      UNION
      SELECT run_id, work, outcome FROM int_gpu_losable
    ) AS p
    JOIN gaps AS h ON h.run_id = p.run_id AND h.is_partial
  ) AS x
  JOIN gaps AS d ON d.run_id = x.run_id AND d.device_key = x.device_key
  WHERE d.hidden_ns > 0 AND NOT d.is_astray
  UNION ALL
  SELECT x.run_id, x.work, x.outcome, 0, 0, not_negative(d.captured_ns - d.busy_ns)
  FROM (SELECT DISTINCT run_id, work, outcome FROM exact WHERE work = 'copy') AS x
  JOIN gaps AS d ON d.run_id = x.run_id
  WHERE d.lacks_copies AND NOT d.is_astray
  UNION ALL
  SELECT run_id, 'idle', 'none', CASE WHEN is_blind THEN 0 ELSE not_negative(captured_ns - busy_ns) END,
    CASE WHEN is_blind OR lacks_copies THEN 0 ELSE not_negative(captured_ns - busy_ns - unseen_ns - coalesce(open_ns, 0)) END,
    CASE WHEN is_astray OR captured_ns = 0 THEN window_ns ELSE not_negative(captured_ns - busy_ns) + span_ns END
  FROM gaps
  UNION ALL
  SELECT run_id, 'unattributed', 'none',
    window_ns - busy_ns - CASE WHEN is_blind THEN 0 ELSE not_negative(captured_ns - busy_ns) END,
    CASE WHEN is_astray OR captured_ns = 0 THEN 0 ELSE not_negative(window_ns - greatest(captured_ns, busy_ns) - coalesce(open_ns, 0)) END,
    least(window_ns - busy_ns,
      window_ns - busy_ns - CASE WHEN is_blind THEN 0 ELSE not_negative(captured_ns - busy_ns - unseen_ns) END + coalesce(open_ns, 0))
  FROM gaps
  UNION ALL
  SELECT run_id, 'unattributed', 'none', time_ns, time_ns, time_ns FROM unseen
)
SELECT c.run_id, c.work, c.outcome, max(w.window_ns) AS window_ns,
  max(n.devices) AS devices,
  TRY_CAST(sum(c.time_ns) AS BIGINT) AS time_ns,
  TRY_CAST(sum(c.low_ns) AS BIGINT) AS time_ns_low,
  TRY_CAST(sum(c.high_ns) AS BIGINT) AS time_ns_high
FROM cells AS c
JOIN int_gpu_windows AS w ON w.run_id = c.run_id AND w.is_placed
JOIN (
  SELECT p.run_id, greatest(count(*), coalesce(max(d.gpu_count), 0)) AS devices
  FROM int_gpu_devices AS p
  JOIN int_devices AS d ON d.run_id = p.run_id
  GROUP BY p.run_id
) AS n ON n.run_id = c.run_id
GROUP BY c.run_id, c.work, c.outcome
HAVING is_storable(device_time(max(w.window_ns), max(n.devices)))
