-- One row per run with a log of iterations: whether the log begins after work of the load was done
-- (is_late_begin) or ends before it was (is_early_end), and the time of the window beyond its lines.
-- A begin is late where the first token was received more than slack_ns before it; where iterations lack
-- before it (numbers begin at 0) and a token was received before its second; and where their counter was
-- still 0 at the last scrape before the load. An end is early where an answer ended more than slack_ns
-- after it, or where the counter had counted more iterations than the log's last number allows. That counter
-- leaves out iterations that give no token, so a whole log is never short of it. Several front ends count
-- an iteration once each, more than are printed while the log lasts: such a counter says nothing here. One
-- iteration in 1,000 is left to torn lines.
-- is_elsewhere: by their clocks, as far as these are known, no iteration lies between the load's first
-- send and its last answer: a log of another time, or with a clock that nothing ties to the load's.
-- is_in_part: the window reaches to what lacks. unreached_ns: window before the log's first second and
-- after its last; unreached_ns_most: with those.
-- Null rule: a log that begins or ends in a quiet time is not told; numbers tell of one life of one engine.
-- Computed once. One row per run; the ledger, its rungs and their problems read it.
WITH logs AS (
  SELECT run_id, count(*) AS iterations, min(logged_at_ns) AS first_ns, max(logged_at_ns) AS last_ns,
    CASE WHEN bool_and(logged_at_ns % 1000000000 = 0) THEN 999999999 ELSE 0 END AS grain_ns,
    run_id IN (SELECT l.run_id FROM int_log_lives AS l GROUP BY l.run_id HAVING count(DISTINCT (l.engine, l.incarnation, l.life)) = 1)
      AND max(covers_steps) = 1 AND count(step_ix) = count(*) AS is_numbered,
    min(step_ix) AS first_ix, max(step_ix) AS last_ix, min(engine) AS engine
  FROM raw.engine_steps GROUP BY run_id
), served AS (
  SELECT run_id, bool_or(in_client AND is_load) AS has_client,
    min(CASE WHEN in_client OR in_server THEN sent_at_ns WHEN e_arrival_is_exact THEN e_arrived_at_ns END) FILTER (is_load) AS from_ns,
    min(CASE WHEN in_client OR in_server THEN coalesce(first_token_at_ns, sent_at_ns + ttft_ns)
      WHEN e_arrival_is_exact THEN e_first_token_at_ns END) FILTER (is_load) AS first_ns,
    max(CASE WHEN in_client OR in_server OR e_end_is_exact THEN ended_at_ns END) FILTER (is_load AND ruling = 'complete') AS last_ns
  FROM int_ruled GROUP BY run_id
), scrapes AS (
  SELECT e.run_id, e.engine, e.at_ns, sum(e.value) AS value, any_value(s.from_ns) AS from_ns, any_value(s.last_ns) AS to_ns,
    any_value(g.first_ns) + 2000000000 AS log_from_ns, any_value(g.last_ns) - 2000000000 AS log_to_ns
  FROM raw.engine_samples AS e
  JOIN logs AS g ON g.run_id = e.run_id
  LEFT JOIN served AS s ON s.run_id = e.run_id
  WHERE e.metric = 'vllm:iteration_tokens_total' AND e.kind = 'histogram_count'
    AND e.run_id NOT IN (
      SELECT r.run_id FROM raw.runs AS r
      WHERE json_valid(r.config_json) AND TRY_CAST(json_extract_string(r.config_json, '$.api_server_count') AS BIGINT) > 1)
  GROUP BY e.run_id, e.source_id, e.engine, e.at_ns
), counted AS (
  SELECT run_id, engine,
    -- with the log and its engine's counters alone all that was counted is the load
    CASE WHEN any_value(from_ns) IS NULL THEN arg_min(value, at_ns) ELSE arg_max(value, at_ns) FILTER (at_ns <= from_ns) END AS before,
    coalesce(min(value) FILTER (at_ns >= to_ns), max(value)) AS ran,
    max(value) FILTER (at_ns BETWEEN log_from_ns AND log_to_ns) - min(value) FILTER (at_ns BETWEEN log_from_ns AND log_to_ns) AS growth
  FROM scrapes GROUP BY run_id, engine
  HAVING run_id NOT IN (SELECT s.run_id FROM raw.engine_samples AS s WHERE s.incarnation > 0)
), told AS (
  SELECT g.*, s.has_client, s.from_ns AS served_from_ns, s.first_ns AS served_first_ns, s.last_ns AS served_last_ns, k.slack_ns, c.ran,
    coalesce(g.first_ns - s.first_ns > k.slack_ns, false) AS begins_long_after,
    coalesce(g.is_numbered AND g.first_ix * 1000 > g.iterations AND g.first_ns - s.first_ns > k.clocks_ns, false) AS begins_after,
    coalesce(g.is_numbered AND g.first_ix * 1000 > g.iterations AND c.before = 0, false) AS counted_from_zero,
    coalesce(s.last_ns - g.last_ns > k.slack_ns, false) AS ends_long_before,
    coalesce(g.is_numbered AND (c.ran - g.last_ix - 1) * 1000 > g.iterations
      AND coalesce(c.growth, 0) <= g.last_ix - g.first_ix + 1, false) AS counted_beyond
  FROM logs AS g
  JOIN int_log_slack AS k ON k.run_id = g.run_id
  LEFT JOIN served AS s ON s.run_id = g.run_id
  LEFT JOIN counted AS c ON c.run_id = g.run_id AND c.engine = g.engine
), ends AS (
  SELECT *, begins_long_after OR begins_after OR counted_from_zero AS is_late_begin, ends_long_before OR counted_beyond AS is_early_end,
    has_client AND coalesce(first_ns > served_last_ns OR last_ns + grain_ns < served_from_ns, false) AS is_elsewhere
  FROM told
)
SELECT e.* EXCLUDE (slack_ns, grain_ns, is_numbered, engine),
  e.is_elsewhere OR (window_is_all() AND (e.is_late_begin OR e.is_early_end))
    OR coalesce((e.is_late_begin AND w.from_ns <= e.first_ns + e.grain_ns) OR (e.is_early_end AND w.to_ns >= e.last_ns), false) AS is_in_part,
  CASE WHEN e.is_late_begin THEN not_negative(least(e.first_ns, w.to_ns) - w.from_ns) ELSE 0 END
    + CASE WHEN e.is_early_end
      THEN not_negative(least(w.to_ns, e.served_last_ns) - greatest(w.from_ns, e.last_ns + e.grain_ns)) ELSE 0 END AS unreached_ns,
  CASE WHEN e.is_late_begin THEN not_negative(least(e.first_ns + e.grain_ns, w.to_ns) - w.from_ns) ELSE 0 END
    + CASE WHEN e.is_early_end
      THEN not_negative(least(w.to_ns, e.served_last_ns) - greatest(w.from_ns, e.last_ns)) ELSE 0 END AS unreached_ns_most
FROM ends AS e
LEFT JOIN int_run_windows AS w ON w.run_id = e.run_id
