-- One row per run whose iterations may overlap, and how many of them an engine has in flight at most:
-- asynchronous scheduling prepares one while another runs, a pipeline holds one in each of its stages.
-- Each prints all the time from its begin to its end, so the engine was busy for at most the sum of
-- printed times, and for at least the in_flight-th part of it.
-- Where the configuration does not say, the log itself may: a stretch of iterations whose times sum to
-- more than the seconds in which it was printed (one may be printed 300 ms late, and a second is 1 s).
-- divided_ns: printed time of the iterations that an end of the window may divide.
-- Computed once. Few rows; the ledger and its rungs read it.
WITH told AS (
  SELECT run_id,
    CASE WHEN json_valid(config_json) THEN json_extract_string(config_json, '$.async_scheduling') END AS async,
    CASE WHEN json_valid(config_json)
      THEN coalesce(TRY_CAST(json_extract_string(config_json, '$.pipeline_parallel_size') AS BIGINT), 1) ELSE 1 END AS stages
  FROM raw.runs
  WHERE run_id IN (SELECT e.run_id FROM raw.engine_steps AS e)
), lined AS (
  SELECT s.run_id, s.engine, s.incarnation, s.source_id, s.step_ix, s.logged_at_ns,
    sum(s.elapsed_ns) OVER life AS spent_ns
  FROM raw.engine_steps AS s
  JOIN told AS t ON t.run_id = s.run_id AND t.async IS NULL AND t.stages = 1
  WHERE NOT s.dummy AND s.elapsed_ns IS NOT NULL AND s.logged_at_ns IS NOT NULL AND s.step_ix IS NOT NULL
  WINDOW life AS (PARTITION BY s.run_id, s.source_id, s.engine, s.incarnation ORDER BY s.step_ix ROWS UNBOUNDED PRECEDING)
), shown AS (
  SELECT run_id, bool_or(reached_ns > logged_at_ns + 1300000000 - spent_ns) AS is_shown
  FROM (
    SELECT run_id, logged_at_ns, spent_ns, max(logged_at_ns - spent_ns) OVER life AS reached_ns
    FROM lined
    WINDOW life AS (PARTITION BY run_id, source_id, engine, incarnation ORDER BY step_ix ROWS UNBOUNDED PRECEDING)
  )
  GROUP BY run_id
)
SELECT t.run_id, greatest(t.stages, 2) AS in_flight, CAST(coalesce(d.divided_ns, 0) AS BIGINT) AS divided_ns
FROM told AS t
LEFT JOIN shown AS s ON s.run_id = t.run_id
LEFT JOIN int_divided_steps AS d ON d.run_id = t.run_id
WHERE t.async = 'true' OR t.stages > 1 OR s.is_shown
